"""Parties that answer late: a training that goes on without waiting, and how old it may get.

In step a party k is asked for the batch t, is sent the gradients of t, and is asked for t + 1:
while it works everybody waits. A party that may be s steps late is asked for t + s before it is
sent the gradients of t, so it has the time of s steps for every answer. The price is age: with F
the top model at its weights v, and G_k the bottom at its weights w_k, step t is

    L_t = loss(F(v_t; G_k(w_k at t - s; x) for all k), y)
    v at t + 1 = v_t - rate dL_t / dv        w_k at t + 1 = w_k at t - rate dL_t / dw_k

The derivative is exact, at the weights that made the embeddings; they are s updates old when it is
applied. An age is counted in updates of the party's own: what the active party sent between
asking and using. A party handles its messages in the order they were sent, so the active party
knows every age without being told, and no answer is older than it was asked to be.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unlabel.errors import SettingsError
from unlabel.wire import Embed, Message, Mode, Transport

log = logging.getLogger("unlabel.late")

#: With which weights a late party embeds: those it has, or those it will probably have.
LateRule = Literal["foresee", "plain"]


@dataclass(frozen=True)
class Pending:
    """Embeddings that were sent in training and await their gradients."""

    step: int
    embeddings: Tensor
    mode: Mode = "train"


class Backlog:
    """The batches of a passive party that await their gradients: the newest s + 1, by step.

    Each holds the way back through the model, so a party keeps no more than it agreed to. One
    batch more pushes the oldest out, and gradients for that one are refused.
    """

    def __init__(self, late: int = 0) -> None:
        self.late = late
        self._kept: deque[Pending] = deque(maxlen=late + 1)

    def __len__(self) -> int:
        """Return how many batches wait."""
        return len(self._kept)

    @property
    def newest(self) -> Pending | None:
        """The batch that was embedded last, if it still waits."""
        return self._kept[-1] if self._kept else None

    def add(self, pending: Pending) -> None:
        """Keep a batch; one of the same step is asked for anew, and takes its place."""
        self.take(pending.step)
        self._kept.append(pending)

    def find(self, step: int) -> Pending | None:
        """Return the batch of a step, if it waits."""
        return next((pending for pending in self._kept if pending.step == step), None)

    def take(self, step: int) -> None:
        """Let the batch of a step go."""
        found = self.find(step)
        if found is not None:
            self._kept.remove(found)

    def clear(self) -> None:
        """Let all go."""
        self._kept.clear()


class Foresight:
    """A model run at weights that later updates leave alone, foreseen or as they are.

    While a batch waits the weights w move in place, and what autograd kept of them would be wrong.
    So the model runs at copies, whose gradients flow on into w itself. With `foresee` these are
    not w but where w will probably be when the gradients come, n updates from now, if each is as
    the last one was (for SGD with momentum: as its momentum says):

        w + n (w - w before the last update)

    Nothing is foreseen from before the backlog was last empty, so a training that is resumed, with
    nothing under way, goes on as one that never stopped.
    """

    def __init__(self, module: nn.Module, *, foresee: bool) -> None:
        self._module = module
        self._foresee = foresee
        self._before: dict[str, Tensor] = {}
        self._moved: dict[str, Tensor] = {}

    def run(self, x: Tensor, ahead: int) -> Tensor:
        """Return the model's output, for gradients that come after `ahead` updates."""
        if not ahead:
            self.reset()
        weights = {name: w.clone() for name, w in self._module.named_parameters()}
        if ahead and self._moved:
            weights = {name: w + ahead * self._moved[name] for name, w in weights.items()}
        out: Tensor = functional_call(self._module, weights, (x,))
        return out

    @torch.no_grad()
    def note(self, *, moved: bool) -> None:
        """Look at the weights before an update, and after it."""
        if not self._foresee:
            return
        now = {name: w.detach().clone() for name, w in self._module.named_parameters()}
        if moved:
            self._moved = {name: now[name] - w for name, w in self._before.items()}
            self._before = {}
        else:
            self._before = now

    def reset(self) -> None:
        """Forget how the weights moved."""
        self._before, self._moved = {}, {}


@dataclass(frozen=True)
class Early:
    """An answer that came before its step: to which rows, and after how many updates."""

    rows: Tensor
    answer: Message
    updates: int


class Lateness:
    """What the active party asked for ahead of its step, and how old it is by now.

    late     steps that an answer may be old when it is used, its bound
    parties  that may be late, the others answer in step
    """

    def __init__(self, late: int = 0, parties: Collection[str] = ()) -> None:
        self.late = late
        self.parties = tuple(parties) if late else ()
        self._early: dict[tuple[int, str], Early] = {}
        self._updates: Counter[str] = Counter()

    def ask_ahead(self, transport: Transport, coming: Iterable[tuple[int, Tensor]]) -> None:
        """Ask late parties for the batches of coming steps, those they were not asked for yet."""
        for step, rows in coming:
            parties = [party for party in self.parties if (step, party) not in self._early]
            if not parties:
                continue
            answers = transport.tell(dict.fromkeys(parties, Embed(step, rows, "train")))
            for party, answer in answers.items():
                self._early[step, party] = Early(rows, answer, self._updates[party])

    def ask(self, transport: Transport, request: Embed) -> dict[str, Message]:
        """Return every party's answer: the early one where it is young enough, or a new one."""
        early = {party: self._take(party, request) for party in self.parties}
        known = {party: answer for party, answer in early.items() if answer is not None}
        if not known:
            return transport.ask(request)
        others = [party for party in transport.parties if party not in known]
        found = transport.tell(dict.fromkeys(others, request)) if others else {}
        return {party: known.get(party) or found[party] for party in transport.parties}

    def _take(self, party: str, request: Embed) -> Message | None:
        """Return the early answer to a request, unless it is another's or too old."""
        if request.mode != "train" or request.table != "main":
            return None
        early = self._early.pop((request.step, party), None)
        if early is None or early.rows is not request.rows:
            return None
        age = self._updates[party] - early.updates
        if age > self.late:
            log.warning(
                "What party '%s' sent for step %d is %d updates old where %d are allowed; it is "
                "refused, and the step waits for a new answer.",
                *(party, request.step, age, self.late),
            )
            return None
        return early.answer

    def sent(self, gradients: Mapping[str, Message]) -> None:
        """Count an update of each party that gradients were sent to."""
        self._updates.update(gradients.keys())

    def clear(self) -> None:
        """Forget what was asked ahead, where the weights become others than training makes them."""
        self._early.clear()


def check_late(named: Sequence[str], parties: Sequence[str]) -> tuple[str, ...]:
    """Return the parties that may be late: those named, or all passive ones.

    >>> check_late(["bank"], ["bank", "shop"])
    ('bank',)
    """
    wrong = [name for name in named if name not in parties]
    if wrong:
        raise SettingsError(
            f"Expected `late_parties` to name passive parties ({', '.join(parties)}) but got "
            f"'{wrong[0]}'."
        )
    return tuple(named) or tuple(parties)
