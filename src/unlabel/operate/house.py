"""From a kit and a table to a party that answers: what `unlabel party start` runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unlabel.align import People
from unlabel.data import Features, read_table
from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.operate.asked import Asked, WatchedTranscript
from unlabel.operate.engine import Engine
from unlabel.operate.kit import Kit
from unlabel.party import PassiveParty, own_randomness
from unlabel.party.staging import TRANSCRIPT
from unlabel.train.assembly import build_passive


@dataclass(frozen=True)
class House:
    """A passive party in its own process, and what it was asked."""

    party: PassiveParty
    people: People
    asked: Asked


def open_house(kit: Kit, table: Path) -> House:
    """Build the passive party of a kit over its table."""
    config = kit.run_config(table)
    own = read_table(table, id_column=kit.party.id, features=kit.party.features)
    if not own.columns:
        raise DataError(f"Table '{table}' of party '{kit.name}' has no features.")

    def take(positions: Array) -> Features:
        return Features(torch.from_numpy(np.ascontiguousarray(own.values[positions])))

    people = People(own.ids, take, folder=kit.home, settings=config.align, column=kit.party.id)
    # Before the rows are aligned none is served; the model only needs to see how wide they are.
    features = people.features() if people.digest else take(np.arange(len(own.ids)))
    asked = Asked()
    with own_randomness(torch.device("cpu")):
        party = build_passive(
            kit.name,
            features,
            config,
            config.train.place(),
            folder=kit.home,
            transcript=WatchedTranscript(kit.home / TRANSCRIPT, asked),
            people=people,
            agreed=kit.digest,
        )
    return House(party, people, asked)


def engine_of(kit: Kit) -> Engine:
    """Return the engine of a kit, not started yet."""
    return Engine(
        kit.engine,
        "server" if kit.is_active else "client",
        kit.name,
        links=kit.links,
        log_file=kit.logs / "engine.log",
        tidied=(kit.engine, kit.state / "engine" / "jobs"),
    )
