"""Parties with ids and one feature, for tests of how they find the rows they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from unlabel.align import People
from unlabel.config import AlignSettings, OptimiserSettings, Policy
from unlabel.data import Features
from unlabel.party import Bottom, CheckpointStore, PassiveParty, Place, Stream
from unlabel.wire import Message, Refused

M = TypeVar("M", bound=Message)

ANY = AlignSettings(smallest=1)
#: Who has whom. All three partners share b, c and d with the bank; e is only the zoo's and bank's.
BANK = ["c", "a", "d", "b", "e"]
SHOP = ["x", "d", "c", "b", "a"]
GYM = ["b", "c", "d", "a", "y1", "y2"]
ZOO = ["d", "e", "c", "z", "b"]
ALL = {"shop": SHOP, "gym": GYM, "zoo": ZOO}


def make(
    name: str,
    ids: Sequence[str],
    folder: Path | None = None,
    policy: Policy | None = None,
    *,
    figures: Mapping[str, float] | None = None,
) -> PassiveParty:
    """Make a party with one feature a row: the place of the row in its table, or a person's own.

    figures  of each person, whatever their row
    """
    places = range(len(ids))
    values = torch.tensor([float(figures[i]) for i in ids] if figures else list(map(float, places)))
    values = values[:, None]
    people = People(ids, lambda positions: Features(values[positions]), folder=folder, settings=ANY)
    bottom = Bottom(
        torch.nn.Linear(1, 1),
        Features(values[people.positions]),
        OptimiserSettings(),
        stream=Stream(0, name),
        place=Place(torch.device("cpu")),
    )
    return PassiveParty(
        name,
        bottom,
        width=1,
        policy=policy or Policy(min_common=1),
        store=CheckpointStore(folder, party=name, model="linear") if folder else None,
        people=people,
        agreement="agreed",
    )


def make_all(tables: Mapping[str, Sequence[str]] = ALL) -> dict[str, PassiveParty]:
    """Make a party for each table."""
    return {name: make(name, ids) for name, ids in tables.items()}


def ids_of(party: PassiveParty, ids: Sequence[str], table: str = "main") -> list[str]:
    """Return the people in a party's table, in its order, by the feature that names their row."""
    return [ids[int(place)] for place in party.bottom.tables[table].values[:, 0].tolist()]


def answered(party: PassiveParty, message: Message, kind: type[M]) -> M:
    """Return the answer to a message, which is to be of this kind."""
    answer = party.handle(message)
    assert isinstance(answer, kind), answer
    return answer


def refusal(party: PassiveParty, message: Message) -> str:
    """Return the code with which a message is refused."""
    answer = party.handle(message)
    assert isinstance(answer, Refused), answer
    return answer.code
