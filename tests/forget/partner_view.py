"""All that a passive party sees, keeps and becomes, in a form in which two requests are compared.

The random id of a request, its commitment, times and hashes over these differ from request to
request; they are replaced by how long they are, and everything else is kept byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from unlabel.federation import Federation
from unlabel.wire import Message, Transport, encode, kind_of
from unlabel.wire.messages import PLAIN, tensors_of

#: Fields that hold something random, and nothing else.
RANDOM = ("request", "ledger", "staged", "commitment")


def content(message: Message) -> tuple[Any, ...]:
    """Return a message's kind, size, fields and the bytes of its tensors."""
    kind = kind_of(message)
    plain = {name: _known(name, getattr(message, name)) for name in PLAIN[kind]}
    tensors = {name: _bytes(tensor) for name, tensor in tensors_of(message).items()}
    return kind, len(encode(message)), plain, tensors


class Watched(Transport):
    """Keeps the content of every message to and from each party, in order."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self.seen: dict[str, list[tuple[Any, ...]]] = {party: [] for party in inner.parties}

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        answers = self._inner.exchange(requests)
        for party in requests:
            self.seen[party] += [content(requests[party]), content(answers[party])]
        return answers


def watch(federation: Federation) -> Watched:
    """Have everything kept from now on."""
    federation.active.transport = watched = Watched(federation.active.transport)
    return watched


def expect_same_view(one: dict[str, Any], other: dict[str, Any], what: str) -> None:
    """Check that two views are one, and say where they part."""
    assert one.keys() == other.keys()
    for place, (first, second) in {k: (one[k], other[k]) for k in one}.items():
        if isinstance(first, list):
            for number, (a, b) in enumerate(zip(first, second, strict=False)):
                assert a == b, f"{what}: {place}, number {number}"
            assert len(first) == len(second), f"{what}: {place} has {len(first)}, {len(second)}"
        assert first == second, f"{what}: {place}"


def view(federation: Federation, watched: Watched) -> dict[str, Any]:
    """Return messages, weights with optimisers, versions and ledger of every passive party."""
    found: dict[str, Any] = {}
    for name, party in federation.passives.items():
        found[f"{name}/messages"] = list(watched.seen[name])
        found[f"{name}/weights"] = {k: _bytes(v) for k, v in party.bottom.state().items()}
        if party.store is not None:
            store = party.store
            digests = [store.digest(version) for version in store.versions()]
            found[f"{name}/versions"] = [*zip(store.versions(), digests, strict=True)]
            found[f"{name}/staged"] = store.staged.versions()
    if federation.folder is not None:
        for name, entries in federation.ledger().items():
            if name != "active":
                found[f"{name}/ledger"] = [
                    (e.index, e.event, {k: _known(k, v) for k, v in e.note.items()})
                    for e in entries
                ]
    return found


def _known(name: str, value: Any) -> Any:
    if name in RANDOM:
        return len(value)
    if name == "note":
        return {k: _known(k, v) for k, v in json.loads(value).items()}
    return value


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
