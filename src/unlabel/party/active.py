"""The active party: labels, the top model, perhaps features of its own."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from unlabel.config import MonitorSettings
from unlabel.data import ACTIVE
from unlabel.errors import NOT_FINITE, CheckpointError, ModelError, TrainingDiverged, WireError
from unlabel.models import embedding_width
from unlabel.models.tops import MUTED, last_layer
from unlabel.party.bottom import SYNTHETIC, Bottom
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.history import SMALL
from unlabel.party.learner import Learner
from unlabel.party.monitor import AnomalyMonitor
from unlabel.party.protocols import Filter, Filters
from unlabel.party.randomness import Stream, own_randomness
from unlabel.party.top import TopLearner
from unlabel.party.training_loss import MIXING, TrainingLoss
from unlabel.party.versions import Versions
from unlabel.progress import Watch, watch_nothing
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Mode,
    Prepare,
    Transport,
)

#: Rows that are predicted at a time, where every party serves so many.
PREDICTED_ROWS = 1024

#: What is said of a blind run that has no embeddings to work with.
NOT_HERE = (
    "No embeddings are kept here: none were asked for yet, or a party does not allow it any more; "
    "train, which asks for them where every party's policy allows that (`policy.kept_embeddings`)."
)

#: A loss of the embeddings of some rows, one tensor a party with the active party's first. It may
#: do with them what it likes under autograd: each party gets the exact gradient for its own rows.
Objective = Callable[[list[Tensor]], Tensor]


class ActiveParty:
    """Trains and predicts with the passive parties through a transport.

    One training step, with H_k the embeddings of party k and F the top model:
    ask all for H_k, loss = CE(F(H_0, .., H_K), y), step the top, send each party d loss / d H_k.

    names             of the labels, where the top's outputs may be fewer: see `TopLearner`
    local_embeddings  of tables that were made here: one tensor a party, that of this one first.
                      Nobody is asked for them, and a step on them moves the top alone.
    sources           whose embeddings these are, in their order
    carrier           who reaches the partners in place of this party, and has no labels: makes
                      bottoms without labels, and asks for embeddings that are kept
    """

    def __init__(
        self,
        *,
        labels: Tensor,
        top: Learner,
        widths: Sequence[int],
        transport: Transport,
        bottom: Bottom | None = None,
        store: CheckpointStore | None = None,
        filters: Sequence[Filter] = (),
        filter_seed: int | None = None,
        most_rows: int = PREDICTED_ROWS,
        monitor: MonitorSettings | None = None,
        training_loss: TrainingLoss | None = None,
        names: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> None:
        self.names = tuple(names)
        self.sources = tuple(sources)
        self.carrier: ActiveParty | None = None
        self.labels = labels.to(top.place.device)
        self.top = top
        self.widths = tuple(widths)
        self.transport = transport
        self.bottom = bottom
        self.versions = Versions(self, store)
        self.filters = Filters(ACTIVE, tuple(filters), filter_seed)
        self.most_rows = most_rows
        self.training_loss = training_loss or TrainingLoss(Stream(0, MIXING))
        self.local_embeddings: dict[str, list[Tensor]] = {}
        watched = monitor or MonitorSettings(mode="none")
        self.monitor = AnomalyMonitor(watched, self.parties, rows=len(labels), device=self.device)

    @property
    def parties(self) -> Sequence[str]:
        """The names of the passive parties."""
        return self.transport.parties

    @property
    def embedded(self) -> tuple[str, ...]:
        """The names of those whose embeddings the top joins, in their order."""
        return self.sources or (*((ACTIVE,) if self.bottom is not None else ()), *self.parties)

    @property
    def device(self) -> torch.device:
        """Where the top model computes."""
        return self.top.place.device

    def learners(self) -> dict[str, Learner]:
        """Return the active party's own models: the top, and its bottom if it has one."""
        return {"top": self.top, **({"bottom": self.bottom} if self.bottom is not None else {})}

    def with_embeddings(self, table: str, embeddings: Sequence[Tensor]) -> ActiveParty:
        """Return this party, with the same models and partners, and a table of embeddings."""
        other = copy.copy(self)
        local = [part.to(self.device, torch.float32) for part in embeddings]
        other.local_embeddings = {**self.local_embeddings, table: local}
        other.versions = Versions(other, self.versions.kept)
        return other

    def prepare(self, rows: Tensor, steps: int) -> None:
        """Announce a training to all parties."""
        self.top.announce(steps)
        self.training_loss = self.training_loss.over(self.labels[rows])
        if self.bottom is not None:
            self.bottom.prepare(rows, steps)
        self.transport.ask(Prepare(0, rows, steps))
        self.monitor.restart()
        self._probe(rows)

    @torch.no_grad()
    def _probe(self, rows: Tensor) -> None:
        """Ask for some rows twice, in two orders, and compare the answers: they must agree."""
        count = min(self.monitor.settings.probe, len(rows), self.most_rows)
        if not self.monitor.is_on or count < SMALL:
            return
        draw = torch.Generator().manual_seed(secrets.randbits(63))
        sample = rows[torch.randperm(len(rows), generator=draw)[:count].to(rows.device)]
        order = torch.randperm(count, generator=draw)
        answers = []
        for number, some in enumerate((sample, sample[order.to(rows.device)])):
            answers.append(self._received(some, table="main", mode="predict", step=number))
            self._check_finite(answers[-1])
        first = {party: values[order.to(values.device)] for party, values in answers[0].items()}
        self.monitor.compare(first, answers[1])

    def step(self, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Take one training step; return the loss and the number of correct rows, unread."""
        target = self.labels[rows]
        correct = torch.zeros((), dtype=torch.int64, device=self.device)

        def cross_entropy(embeddings: list[Tensor]) -> Tensor:
            loss, right = self.training_loss.loss(self.apply_top, embeddings, target, step)
            correct.copy_(right)
            return loss

        return self.move(rows, step, cross_entropy), correct

    def apply_top(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return the logits of embeddings, one tensor a party."""
        with self.top.place.autocast():
            logits: Tensor = self.top.module(list(embeddings)).float()
        return logits

    def spread(self, logits: Tensor) -> Tensor:
        """Return logits with a column for each of `names`, muted where the top has no output."""
        places = self.top.places_in(self.names) if isinstance(self.top, TopLearner) else None
        if places is None:
            return logits
        every = torch.full((len(logits), len(self.names)), MUTED, device=logits.device)
        every[:, places] = logits
        return every

    def last_layer(self) -> nn.Linear | None:
        """Return the linear layer of the top that gives the logits, if there is one."""
        bottom = self.bottom
        first = [embedding_width(bottom.module, bottom.tables["main"].shape)] if bottom else []
        return last_layer(self.top.module, [*first, *self.widths])

    def move(
        self,
        rows: Tensor,
        step: int,
        objective: Objective,
        *,
        mode: Mode = "train",
        table: str = "main",
    ) -> Tensor:
        """Move all models one step against the gradient of an objective; return its value."""
        loss, local, gradients = self._backward(rows, step, objective, mode=mode, table=table)
        self.top.descend(step)
        if table in self.local_embeddings:
            return loss
        if self.bottom is not None and local is not None:
            self.bottom.learn(*local, step)
        self._send(gradients)
        return loss

    def accumulate_fisher(
        self,
        rows: Tensor,
        step: int,
        objective: Objective,
        *,
        sum_name: str,
        weight: float,
    ) -> None:
        """Have all add the squared gradients of an objective to a sum; no weight moves."""
        _, local, gradients = self._backward(rows, step, objective, mode="frozen", table="main")
        self.top.accumulate_fisher(sum_name, weight)
        if self.bottom is not None and local is not None:
            local[0].backward(local[1])
            self.bottom.accumulate_fisher(sum_name, weight)
        values = {party: message.values for party, message in gradients.items()}
        self._send({p: AccumulateFisher(step, v, sum_name, weight) for p, v in values.items()})

    def accumulate_updates(self, sum_name: str) -> None:
        """Have all add what the next step changes to a sum."""
        for learner in self.learners().values():
            learner.accumulate_updates(sum_name)
        self.transport.ask(AccumulateUpdates(0, sum_name))

    def move_inputs(self, rows: Tensor, step: int, objective: Objective) -> None:
        """Move the parties' synthetic inputs, and no weights, against an objective's gradient."""
        _, local, gradients = self._backward(rows, step, objective, mode="inputs", table=SYNTHETIC)
        self.top.clear()
        if self.bottom is not None and local is not None:
            self.bottom.move_inputs(*local)
        self._send(gradients)

    def _backward(
        self, rows: Tensor, step: int, objective: Objective, *, mode: Mode, table: str
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None, dict[str, Gradients]]:
        """Return an objective's value, this party's embeddings and gradients, and the others'."""
        local, received = self._embeddings(rows, table=table, mode=mode, step=step)
        roots = [values.detach().requires_grad_() for values in local]
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
        carried = (local[0], cast(Tensor, roots[0].grad)) if local else None
        return loss.detach(), carried, gradients

    def _send(self, messages: Mapping[str, Message]) -> None:
        """Send each party its gradients, as the filters leave them."""
        self.transport.tell({party: self.filters(m, party) for party, m in messages.items()})

    @torch.no_grad()
    def embeddings(
        self,
        rows: Tensor,
        *,
        table: str = "main",
        mode: Mode = "predict",
        first: int = 0,
        watch: Watch = watch_nothing,
    ) -> list[Tensor]:
        """Return the embeddings of rows as they are predicted from, one tensor a party.

        mode   `view` for one random view of each row; `first` is the number of its first request
        watch  called with the rows so far
        """
        pieces, done = [], 0
        with own_randomness(self.device):
            for _, parts in self._predicted(rows, table, mode, first):
                pieces.append(parts)
                done += len(parts[0])
                watch(done, len(rows), "looking at rows")
        columns = [list(parts) for parts in zip(*pieces, strict=True)]
        pieces.clear()  # of many rows only one party's are held twice
        return [torch.cat(columns.pop(0)) for _ in range(len(columns))]

    @torch.no_grad()
    def logits(self, rows: Tensor, *, table: str = "main") -> Tensor:
        """Return the logits of rows, in the order given, in requests that every party serves."""
        logits = []
        with own_randomness(self.device):
            for number, parts in self._predicted(rows, table):
                self.top.begin("predict", number)
                logits.append(self.apply_top(parts))
        return self.spread(torch.cat(logits))

    def _predicted(
        self, rows: Tensor, table: str, mode: Mode = "predict", first: int = 0
    ) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield the embeddings of rows, piece by piece, with the number of the piece."""
        for number, piece in enumerate(rows.split(min(PREDICTED_ROWS, self.most_rows)), first):
            local, received = self._embeddings(piece, table=table, mode=mode, step=number)
            self._check_finite(received)
            yield number, [*local, *received.values()]

    def _embeddings(
        self, rows: Tensor, *, table: str, mode: Mode, step: int
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return this party's embeddings (with their graph) and those received (without)."""
        if table in self.local_embeddings:
            parts = [part[rows] for part in self.local_embeddings[table]]
            first = 1 if self.embedded[0] == ACTIVE else 0
            return parts[:first], dict(zip(self.embedded[first:], parts[first:], strict=True))
        if self.sources:
            raise CheckpointError(NOT_HERE)
        local = []
        if self.bottom is not None:
            local = [self.bottom.embed(rows, table=table, mode=mode, step=step)]
        received = self._received(rows, table=table, mode=mode, step=step)
        self.monitor.look(received, rows, mode=mode, table=table, step=step)
        return local, received

    def _received(self, rows: Tensor, *, table: str, mode: Mode, step: int) -> dict[str, Tensor]:
        """Ask all parties for embeddings; return those that are what was asked for."""
        answers = self.transport.ask(Embed(step, rows, mode, table, self.versions.base))
        received, count = {}, 2 * len(rows) if mode == "pair" else len(rows)
        for (party, answer), width in zip(answers.items(), self.widths, strict=True):
            if not isinstance(answer, Embeddings) or answer.values.shape != (count, width):
                raise WireError(
                    f"Party '{party}' did not send {count} embeddings of width {width}."
                )
            if answer.step != step:
                raise WireError(f"Party '{party}' answered step {step} with step {answer.step}.")
            received[party] = answer.values.detach().to(self.device, torch.float32)
        return received

    def _check_finite(self, received: dict[str, Tensor]) -> None:
        self.monitor.flush_checks()  # what a device noted is read where a wait costs little
        for party, values in received.items():
            if not torch.isfinite(values).all():
                raise WireError(
                    f"Party '{party}' sent embeddings that are not finite numbers.", code=NOT_FINITE
                )
