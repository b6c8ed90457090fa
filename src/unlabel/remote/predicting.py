"""Predictions in a federation: of its own test rows, or of new people by their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from unlabel.align import align
from unlabel.config import RunConfig
from unlabel.data import ACTIVE
from unlabel.errors import SettingsError
from unlabel.progress import Watch, watch_nothing
from unlabel.remote.client import longer_calls
from unlabel.train.given import by_party
from unlabel.train.notes import counted_left_out
from unlabel.train.predictions import Predictions
from unlabel.train.tables import Source, read_active, read_words, table_features
from unlabel.wire import Message, Transport

if TYPE_CHECKING:
    from unlabel.remote.connect import RemoteFederation


def new_table(config: RunConfig, tables: Mapping[str, object]) -> Source:
    """Return the table of new people, a file or a DataFrame, which only the active party gives."""
    sources = by_party(config, tables)
    for name in sources:
        if name != ACTIVE:
            raise SettingsError(
                f"Expected a table of party '{ACTIVE}' alone but got one of '{name}', which finds "
                f"new people in its own table; give --table {ACTIVE}=FILE."
            )
    return sources[ACTIVE]


def predict_new(
    federation: RemoteFederation, new: Source, watch: Watch = watch_nothing
) -> Predictions:
    """Predict the people in a file whom every party that is there knows.

    The file holds ids, and the active party's own features if it has any. They are matched as in
    an alignment: a passive party learns how many ids were asked for, and which of its own all
    parties have. `Policy.max_new` bounds how many it takes.
    """
    active = federation.config.active
    assert active is not None
    rows = read_active(active, new, federation.holdings.encodings.get(ACTIVE))
    rows = read_words(federation.config, ACTIVE, rows)
    client = federation.client
    federation.reach()
    present = [party for party in client.transport.parties if party not in client.absent]
    with longer_calls(client.transport):
        alignment = align(
            SomeParties(client.pipelined, present),
            rows.ids,
            federation.config.align,
            table="new",
            watch=watch,
            column=active.id,
        )
    common = rows.take(alignment.positions)
    federation.hand_over("new", table_features({ACTIVE: common}))
    predictions = federation.predict_rows(common.ids, torch.arange(len(common.ids)), "new")
    notes = (*counted_left_out(alignment.size, alignment.pairwise), *rows.notes())
    return replace(predictions, unknown=len(rows.ids) - len(common.ids), notes=notes)


class SomeParties(Transport):
    """The way to some of the parties only."""

    def __init__(self, inner: Transport, parties: Sequence[str]) -> None:
        self._inner = inner
        super().__init__(parties)

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the requests."""
        return self._inner.exchange(requests)
