"""The active party: labels, the top model, perhaps features of its own."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from unlabel.data import ACTIVE
from unlabel.errors import NOT_FINITE, ModelError, TrainingDiverged, WireError
from unlabel.models import embedding_width
from unlabel.models.tops import last_layer
from unlabel.party.bottom import Bottom
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.draft import DRAFT
from unlabel.party.history import SMALL
from unlabel.party.lateness import Lateness
from unlabel.party.learner import Learner
from unlabel.party.lesson import MIXING, Lesson
from unlabel.party.lookout import Lookout, WatchSettings
from unlabel.party.protocols import Filter, Filters
from unlabel.party.randomness import Stream, own_randomness
from unlabel.party.versions import Versions
from unlabel.wire import (
    Embed,
    Embeddings,
    Gradients,
    Message,
    Mode,
    Prepare,
    Track,
    Transport,
    Weigh,
)

#: Rows that are predicted at a time, where every party serves so many.
PREDICTED_ROWS = 1024


class ActiveParty:
    """Trains and predicts with the passive parties through a transport.

    One training step, with H_k the embeddings of party k and F the top model:
    ask all for H_k, loss = CE(F(H_0, .., H_K), y), step the top, send each party d loss / d H_k.

    held  embeddings that were made here, by table: one tensor a party, the own first. Nobody is
          asked for them, and a step on them moves the top alone.
    """

    def __init__(
        self,
        *,
        labels: Tensor,
        top: Learner,
        widths: Sequence[int],
        transport: Transport,
        own: Bottom | None = None,
        store: CheckpointStore | None = None,
        filters: Sequence[Filter] = (),
        filter_seed: int | None = None,
        most_rows: int = PREDICTED_ROWS,
        watch: WatchSettings | None = None,
        lesson: Lesson | None = None,
        lateness: Lateness | None = None,
    ) -> None:
        self.labels = labels.to(top.place.device)
        self.top = top
        self.widths = tuple(widths)
        self.transport = transport
        self.own = own
        self.versions = Versions(self, store)
        self.filters = Filters(ACTIVE, tuple(filters), filter_seed)
        self.most_rows = most_rows
        self.lesson = lesson or Lesson(Stream(0, MIXING))
        self.lateness = lateness or Lateness()
        self.held: dict[str, list[Tensor]] = {}
        self.lookout = Lookout(
            watch or WatchSettings(mode="none"),
            transport.parties,
            rows=len(labels),
            device=self.device,
        )

    @property
    def parties(self) -> Sequence[str]:
        """The names of the passive parties."""
        return self.transport.parties

    @property
    def device(self) -> torch.device:
        """Where the top model computes."""
        return self.top.place.device

    def holding(self, table: str, embeddings: Sequence[Tensor]) -> ActiveParty:
        """Return this party, with its very models and partners, beside embeddings made here."""
        other = copy.copy(self)
        made = [part.to(self.device, torch.float32) for part in embeddings]
        other.held = {**self.held, table: made}
        other.versions = self.versions.of(other)
        return other

    def prepare(self, rows: Tensor, steps: int) -> None:
        """Announce a training to all parties."""
        self.lateness.clear()
        self.top.announce(steps)
        if self.own is not None:
            self.own.prepare(rows, steps)
        self.transport.ask(Prepare(0, rows, steps))
        self.lookout.renew()
        self.probe(rows)

    @torch.no_grad()
    def probe(self, rows: Tensor) -> None:
        """Ask for some rows twice, in two orders, and compare the answers: they must agree."""
        count = min(self.lookout.settings.probe, len(rows), self.most_rows)
        if not self.lookout.is_on or count < SMALL:
            return
        draw = torch.Generator().manual_seed(secrets.randbits(63))
        picked = rows[torch.randperm(len(rows), generator=draw)[:count].to(rows.device)]
        order = torch.randperm(count, generator=draw)
        asked = {}
        for number, some in enumerate((picked, picked[order.to(rows.device)])):
            received = self._received(some, table="main", mode="predict", step=number)
            self._check_finite(received)
            asked[number] = received
        first = {party: values[order.to(values.device)] for party, values in asked[0].items()}
        self.lookout.compare(first, asked[1])

    def track(self, into: str) -> None:
        """Have all add what the next step changes to a sum of theirs."""
        for learner in self.learners().values():
            learner.track(into)
        self.transport.ask(Track(0, into))

    def ask_ahead(self, batches: Sequence[Tensor], step: int) -> None:
        """Ask parties that may be late for the batches of this step and the next ones."""
        coming = batches[: self.lateness.late + 1]
        self.lateness.ask_ahead(self.transport, enumerate(coming, step))

    def step(self, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Take one training step; return the loss and the number of correct rows, unread."""
        target = self.labels[rows]
        correct = torch.zeros((), dtype=torch.int64, device=self.device)

        def cross_entropy(embeddings: list[Tensor]) -> Tensor:
            loss, right = self.lesson.loss(self.apply_top, embeddings, target, step)
            correct.copy_(right)
            return loss

        return self.move(rows, step, cross_entropy), correct

    def apply_top(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return the logits of embeddings, one tensor a party."""
        with self.top.place.autocast():
            logits: Tensor = self.top.module(list(embeddings)).float()
        return logits

    def last_layer(self) -> nn.Linear | None:
        """Return the linear layer of the top that gives the logits, if there is one."""
        own = self.own
        first = [embedding_width(own.module, own.tables["main"].shape)] if own else []
        return last_layer(self.top.module, [*first, *self.widths])

    def move(
        self,
        rows: Tensor,
        step: int,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        mode: Mode = "train",
        table: str = "main",
    ) -> Tensor:
        """Move all models one step against the gradient of an objective; return its value.

        The objective is given the embeddings of the rows, one tensor a party with the active
        party's own first, and may do with them what it likes under autograd: each party gets
        the exact gradient for its own rows.
        """
        loss, own, gradients = self._backward(rows, step, objective, mode=mode, table=table)
        self.top.descend(step)
        if table in self.held:
            return loss
        if self.own is not None and own is not None:
            self.own.learn(*own, step)
        self._tell(gradients)
        return loss

    def weigh(
        self,
        rows: Tensor,
        step: int,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        into: str,
        weight: float,
        table: str = "main",
    ) -> None:
        """Have all add the squared gradients of an objective to a sum of theirs; nothing moves."""
        _, own, gradients = self._backward(rows, step, objective, mode="frozen", table=table)
        self.top.weigh(into, weight)
        if self.own is not None and own is not None:
            self.own.consider(*own, into, weight)
        self._tell({p: Weigh(step, g.values, into, weight) for p, g in gradients.items()})

    def redraft(self, rows: Tensor, step: int, objective: Callable[[list[Tensor]], Tensor]) -> None:
        """Move the parties' drafts, and no weights, against the gradient of an objective."""
        _, own, gradients = self._backward(rows, step, objective, mode="inputs", table=DRAFT)
        self.top.clear()
        if self.own is not None and own is not None:
            self.own.redraft(*own)
        self._tell(gradients)

    def _backward(
        self,
        rows: Tensor,
        step: int,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        mode: Mode,
        table: str,
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None, dict[str, Gradients]]:
        """Return an objective, and its gradients for the own embeddings and for the parties'."""
        own, received = self._embeddings(rows, table=table, mode=mode, step=step)
        roots = [values.detach().requires_grad_() for values in own]
        leaves = [values.requires_grad_() for values in received.values()]
        self.top.begin(mode, step)
        loss = objective([*roots, *leaves])
        # On an accelerator reading the loss would stall; there the loop looks once an epoch.
        if self.device.type == "cpu" and not math.isfinite(loss.item()):
            self._check_finite(received)
            raise TrainingDiverged(f"The loss is not finite in step {step}; lower `lr`.")
        loss.backward()
        if any(leaf.grad is None for leaf in [*roots, *leaves]):
            raise ModelError("The top model does not pass gradients on to every party.")
        gradients = {
            party: Gradients(step, cast(Tensor, leaf.grad))
            for party, leaf in zip(received, leaves, strict=True)
        }
        carried = (own[0], cast(Tensor, roots[0].grad)) if own else None
        return loss.detach(), carried, gradients

    def _tell(self, messages: Mapping[str, Message]) -> None:
        """Send each party its gradients, as the filters leave them."""
        self.lateness.sent(messages)
        self.transport.tell({party: self.filters(m, party) for party, m in messages.items()})

    @torch.no_grad()
    def embeddings(
        self, rows: Tensor, *, table: str = "main", most: int = PREDICTED_ROWS
    ) -> list[Tensor]:
        """Return the embeddings of rows as they are predicted from, one tensor a party."""
        found: list[list[Tensor]] = []
        with own_randomness(self.device):
            for number, piece in enumerate(rows.split(min(most, self.most_rows))):
                own, received = self._embeddings(piece, table=table, mode="predict", step=number)
                self._check_finite(received)
                found.append([*own, *received.values()])
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    @torch.no_grad()
    def logits(self, rows: Tensor, *, table: str = "main") -> Tensor:
        """Return the logits of rows, in the order given, in requests that every party serves."""
        found = []
        with own_randomness(self.device):
            for number, piece in enumerate(rows.split(min(PREDICTED_ROWS, self.most_rows))):
                own, received = self._embeddings(piece, table=table, mode="predict", step=number)
                self._check_finite(received)
                self.top.begin("predict", number)
                found.append(self.apply_top([*own, *received.values()]))
        return torch.cat(found)

    def _embeddings(
        self, rows: Tensor, *, table: str, mode: Mode, step: int
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return the own embeddings (with their graph) and those received (without)."""
        if table in self.held:
            found = [part[rows] for part in self.held[table]]
            first = 0 if self.own is None else 1
            return found[:first], dict(zip(self.parties, found[first:], strict=True))
        own = []
        if self.own is not None:
            own = [self.own.embed(rows, table=table, mode=mode, step=step)]
        received = self._received(rows, table=table, mode=mode, step=step)
        self.lookout.look(received, rows, mode=mode, table=table, step=step)
        return own, received

    def _received(self, rows: Tensor, *, table: str, mode: Mode, step: int) -> dict[str, Tensor]:
        """Ask all parties for embeddings; return those that are what was asked for."""
        answers = self.lateness.ask(self.transport, Embed(step, rows, mode, table))
        received = {}
        for (party, answer), width in zip(answers.items(), self.widths, strict=True):
            if not isinstance(answer, Embeddings) or answer.values.shape != (len(rows), width):
                raise WireError(
                    f"Party '{party}' did not send {len(rows)} embeddings of width {width}."
                )
            if answer.step != step:
                raise WireError(f"Party '{party}' answered step {step} with step {answer.step}.")
            received[party] = answer.values.detach().to(self.device, torch.float32)
        return received

    def _check_finite(self, received: dict[str, Tensor]) -> None:
        self.lookout.settle()  # what a device noted is read where a wait costs little
        for party, values in received.items():
            if not torch.isfinite(values).all():
                raise WireError(
                    f"Party '{party}' sent embeddings that are not finite numbers.", code=NOT_FINITE
                )

    def learners(self) -> dict[str, Learner]:
        """Return the active party's own models: the top, and its bottom if it has one."""
        return {"top": self.top, **({"bottom": self.own} if self.own is not None else {})}
