"""From a kit and a table to a party that answers: what `unlabel party start` runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unlabel.align import People
from unlabel.data import Features
from unlabel.data.column_encoding import Encoding, stored_encoding
from unlabel.data.dataset import Array
from unlabel.party import PassiveParty, own_randomness
from unlabel.party.checkpoint import BASE
from unlabel.party.staging import TRANSCRIPT
from unlabel.remote.kit import Kit
from unlabel.remote.request_stats import CountedTranscript, RequestStats
from unlabel.train.assembly import LABEL_FREE, build_passive
from unlabel.train.beginning import with_objective
from unlabel.train.checks import place_of
from unlabel.train.tables import read_passive, read_words


@dataclass(frozen=True)
class PartyHome:
    """A passive party in its own process.

    people  the ids of its table, and which of them all parties share
    stats   what it was asked so far
    notes   what its operator should know: of how its table was read, and of its budget of a day
    """

    party: PassiveParty
    people: People
    stats: RequestStats
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that all parties share, 0 before they are aligned."""
        return 0 if self.party.is_unaligned else len(self.party.bottom.tables["main"])


def open_party(kit: Kit, table: Path) -> PartyHome:
    """Build the passive party of a kit over its table."""
    config = with_objective(kit.run_config(table))
    encoding = settled_encoding(kit.home)
    rows = read_words(config, kit.name, read_passive(config.passive[0], table, encoding))

    def take(positions: Array) -> Features:
        return rows.take(positions).features()

    people = People(rows.ids, take, folder=kit.home, settings=config.align, column=kit.party.id)
    # Before the rows are aligned none is served; the model only needs to see how wide they are.
    features = take(people.positions if people.digest else np.arange(len(rows.ids)))
    stats = RequestStats()
    with own_randomness(torch.device("cpu")):
        party = build_passive(
            kit.name,
            features,
            config,
            place_of(config.train),
            folder=kit.home,
            transcript=CountedTranscript(kit.home / TRANSCRIPT, stats),
            people=people,
            agreement=kit.digest,
        )
    keep_unsettled(rows.encoding, kit.home)
    kit.use_signing_key()
    ahead = party.budget.ahead()
    notes = (*rows.notes(), *([f"WARNING: Party {kit.name}: {ahead}."] if ahead else []))
    return PartyHome(party, people, stats, notes)


def settled_encoding(home: Path) -> Encoding | None:
    """Return how a party's columns became numbers when it was first trained; None before that.

    home  the party's own folder
    """
    return stored_encoding(home) if _is_trained(home) else None


def keep_unsettled(encoding: Encoding, home: Path) -> None:
    """Keep how a party's columns become numbers; once it was trained that is settled for good."""
    if not _is_trained(home):
        encoding.store(home)


def _is_trained(home: Path) -> bool:
    """Return whether anything was made on the rows of a party, with labels or without."""
    without = (BASE, f"{LABEL_FREE}/{BASE}", f"{LABEL_FREE}/versions")
    return any(any((home / place).glob("*")) for place in ("versions", *without))
