"""Predictions in a federation: of its own test rows, or of new people by their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from unlabel.align import align
from unlabel.align.psi import Watch, watch_nothing
from unlabel.data import ACTIVE
from unlabel.errors import SettingsError
from unlabel.train import RunConfig
from unlabel.train.given import by_party
from unlabel.train.left_out import counted_left_out
from unlabel.train.loading import Source, read_active, read_words, table_features
from unlabel.train.predictions import Predictions
from unlabel.wire import Message, Transport

if TYPE_CHECKING:
    from unlabel.operate.connect import RemoteFederation


def new_table(config: RunConfig, tables: Mapping[str, object]) -> Source:
    """Return the table of new people, a file or a DataFrame, which only the active party gives."""
    found = by_party(config, tables)
    for name in found:
        if name != ACTIVE:
            raise SettingsError(
                f"Expected a table of party '{ACTIVE}' alone but got one of '{name}', which finds "
                f"new people in its own table; give --table {ACTIVE}=FILE."
            )
    return found[ACTIVE]


def predict_new(
    federation: RemoteFederation, new: Source, watch: Watch = watch_nothing
) -> Predictions:
    """Predict the people in a file whom every party that is there knows.

    The file holds ids, and the active party's own features if it has any. Who of them a passive
    party knows is found out as in an alignment: it learns how many were asked for, and whom of
    its own people all parties have. `Policy.max_new` bounds how many it takes.
    """
    active = federation.config.active
    assert active is not None
    own = read_active(active, new, federation.holdings.encodings.get(ACTIVE))
    own = read_words(federation.config, ACTIVE, own)
    courier = federation.courier
    there = [party for party in courier.transport.parties if party not in courier.absent]
    with federation.longer_calls():
        found = align(
            Among(courier.transport, there),
            own.ids,
            federation.config.align,
            table="new",
            watch=watch,
            column=active.id,
        )
    people = own.take(found.positions)
    federation.hand_over("new", table_features({ACTIVE: people}))
    named = federation.predict_rows(people.ids, torch.arange(len(people.ids)), "new")
    notes = (*counted_left_out(found.own, found.pairwise), *own.notes())
    return replace(named, unknown=len(own.ids) - len(people.ids), notes=notes)


class Among(Transport):
    """The way to some of the parties only."""

    def __init__(self, inner: Transport, parties: Sequence[str]) -> None:
        self._inner = inner
        self._parties = list(parties)

    @property
    def parties(self) -> Sequence[str]:
        """The names of those parties."""
        return self._parties

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the requests."""
        return self._inner.exchange(requests)
