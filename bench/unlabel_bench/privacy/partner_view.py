"""A passive party's view of a request: all it received, and what it knows by itself.

An attack on what the partners could learn may use this and nothing else: the messages in their
order, the party's own rows, and its own weights and embeddings before and after. A party computes
embeddings of all its rows by itself, and may keep its old bottom, so it needs nobody for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unlabel.party import ActiveParty, PassiveParty, own_randomness
from unlabel.wire import Message, Transport, kind_of
from unlabel.wire.codec import encoded_size
from unlabel.wire.messages import PLAIN, tensors_of

#: Rows that a party embeds at a time.
PIECE = 1024
#: Messages that carry gradients of embeddings.
PUSHES = ("Gradients", "AccumulateFisher")


@dataclass(frozen=True)
class Heard:
    """One message as the party received it.

    plain    its fields that are no tensors; empty where only a transcript was kept
    tensors  copies of the others
    """

    kind: str
    step: int
    bytes: int
    plain: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What a party holds at one moment.

    weights     of its bottom, by name
    embeddings  [rows, width] of all rows of each of its tables, computed by itself
    """

    weights: Mapping[str, Tensor]
    embeddings: Mapping[str, Tensor]


@dataclass(frozen=True)
class Push:
    """Gradients that came for some rows: `values[i]` is d loss / d embedding of `rows[i]`."""

    table: str
    rows: Tensor
    values: Tensor


@dataclass(frozen=True)
class View:
    """Everything one passive party knows of a request.

    heard          all it received, in order
    before, after  what it held before the first message and after the last
    files          figures of its own files (see `party_files`), empty where they are not looked at
    texts          pieces of text in them
    """

    party: str
    heard: tuple[Heard, ...]
    before: Held
    after: Held
    files: Mapping[str, float] = field(default_factory=dict)
    texts: tuple[str, ...] = ()

    def pushes(self) -> list[Push]:
        """Return the gradients with the rows they are for.

        Gradients answer the embeddings of the same step; a message of another shape, which is for
        no single rows, is left out here and counted with the messages.
        """
        pushes: list[Push] = []
        waiting: tuple[int, str, Tensor] | None = None
        for one in self.heard:
            rows = one.tensors.get("rows")
            if one.kind == "Embed" and one.plain.get("mode") != "predict" and rows is not None:
                waiting = (one.step, str(one.plain.get("table", "main")), rows)
            elif one.kind in PUSHES and waiting is not None and waiting[0] == one.step:
                values = one.tensors["values"]
                if len(values) == len(waiting[2]):
                    pushes.append(Push(waiting[1], waiting[2], values))
        return pushes

    def summed(self, table: str = "main") -> tuple[Tensor, Tensor]:
        """Return, for every row of a table, the sum of its gradients and how many there were."""
        embeddings = self.before.embeddings[table]
        total = torch.zeros(embeddings.shape, dtype=torch.float64)
        count = torch.zeros(len(embeddings), dtype=torch.float64)
        for push in self.pushes():
            if push.table == table:
                total.index_add_(0, push.rows, push.values.double())
                count.index_add_(0, push.rows, torch.ones(len(push.rows), dtype=torch.float64))
        return total, count

    def push_norms(self, table: str = "main") -> Tensor:
        """Return, for every row of a table, the mean norm of its gradients, 0 where none came."""
        size = len(self.before.embeddings[table])
        total, count = (torch.zeros(size, dtype=torch.float64) for _ in range(2))
        for push in self.pushes():
            if push.table == table:
                total.index_add_(0, push.rows, push.values.double().norm(dim=1))
                count.index_add_(0, push.rows, torch.ones(len(push.rows), dtype=torch.float64))
        return total / count.clamp_min(1)

    def asked(self, table: str = "main", *, moving: bool = True) -> Tensor:
        """Return how often each row of a table was asked for, to be moved or only to be looked at.

        A transcript does not keep what for; then every message counts as one to be moved.
        """
        count = torch.zeros(len(self.before.embeddings[table]), dtype=torch.float64)
        for one in self.heard:
            rows = one.tensors.get("rows")
            if rows is None or one.plain.get("table", "main") != table:
                continue
            if (one.plain.get("mode") != "predict") == moving:
                count.index_add_(0, rows, torch.ones(len(rows), dtype=torch.float64))
        return count


class Listener(Transport):
    """Passes messages on and keeps a copy of each that goes to a party."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self.heard: dict[str, list[Heard]] = {party: [] for party in inner.parties}

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Keep the requests and pass them on."""
        for party, request in requests.items():
            self.heard[party].append(heard_of(request))
        return self._inner.exchange(requests)


@contextlib.contextmanager
def listening(active: ActiveParty) -> Iterator[Listener]:
    """Listen to all that the active party sends while this is open."""
    plain, listener = active.transport, Listener(active.transport)
    active.transport = listener
    try:
        yield listener
    finally:
        active.transport = plain


def heard_of(message: Message) -> Heard:
    """Return a message as its receiver keeps it; the sender may write its memory again."""
    kind = kind_of(message)
    return Heard(
        kind=kind,
        step=message.step,
        bytes=encoded_size(message),
        plain={name: getattr(message, name) for name in PLAIN[kind] if name != "step"},
        tensors={name: t.detach().cpu().clone() for name, t in tensors_of(message).items()},
    )


@torch.no_grad()
def hold(party: PassiveParty, like: Held | None = None) -> Held:
    """Return what a party holds now; where no weight differs from `like`, that is returned.

    The party asks nobody: it runs its own bottom over every row of every table it has.
    """
    bottom = party.bottom
    state = bottom.model_state()
    weights = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
    if like is not None and _same(weights, like.weights) and _tables(party) <= {*like.embeddings}:
        return like
    embeddings = {}
    with own_randomness(bottom.place.device):
        for table in sorted(_tables(party)):
            rows = torch.arange(len(bottom.tables[table]), device=bottom.place.device)
            parts = [
                bottom.embed(piece, table=table, mode="predict", step=0).cpu()
                for piece in rows.split(PIECE)
            ]
            embeddings[table] = torch.cat(parts)
    return Held(weights, embeddings)


def _tables(party: PassiveParty) -> set[str]:
    return {table for table in party.bottom.tables if table in ("main", "public")}


def _same(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    return some.keys() == others.keys() and all(torch.equal(some[k], others[k]) for k in some)
