"""From a kit and a table to a party that answers: what `unlabel party start` runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unlabel.align import People
from unlabel.data import Features
from unlabel.data.dataset import Array
from unlabel.data.encoding import Encoding, kept_encoding
from unlabel.operate.asked import Asked, WatchedTranscript
from unlabel.operate.engine import Engine
from unlabel.operate.kit import Kit
from unlabel.party import PassiveParty, own_randomness
from unlabel.party.staging import TRANSCRIPT
from unlabel.train.assembly import build_passive
from unlabel.train.loading import read_passive, read_words


@dataclass(frozen=True)
class House:
    """A passive party in its own process, and what it was asked.

    notes  what its operator should know of how its table was read
    """

    party: PassiveParty
    people: People
    asked: Asked
    notes: tuple[str, ...] = ()


def open_house(kit: Kit, table: Path) -> House:
    """Build the passive party of a kit over its table."""
    config = kit.run_config(table)
    settled = settled_encoding(kit.home)
    own = read_words(config, kit.name, read_passive(config.passive[0], table, settled))

    def take(positions: Array) -> Features:
        return own.take(positions).features()

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
    keep_unsettled(own.encoding, kit.home)
    return House(party, people, asked, tuple(own.notes()))


def settled_encoding(home: Path) -> Encoding | None:
    """Return how a party's columns became numbers when it was first trained; None before that.

    home  the party's own folder
    """
    return kept_encoding(home) if _is_trained(home) else None


def keep_unsettled(encoding: Encoding, home: Path) -> None:
    """Keep how a party's columns become numbers; once it was trained that is settled for good."""
    if not _is_trained(home):
        encoding.keep(home)


def _is_trained(home: Path) -> bool:
    return any((home / "versions").glob("*"))


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
