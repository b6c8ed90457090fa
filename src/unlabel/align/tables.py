"""Rows of tables that lie in one process, matched by their ids or as parties would do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unlabel.align.normal import in_order, normalise_all
from unlabel.align.people import People
from unlabel.align.psi_protocol import align
from unlabel.align.store import StoredAlignment
from unlabel.config import AlignSettings, Policy
from unlabel.data.dataset import Array
from unlabel.errors import DataError, PartyRefused, WireError, refusal_of
from unlabel.progress import Watch, watch_nothing
from unlabel.wire import (
    Aligned,
    Common,
    Describe,
    Description,
    Done,
    LocalTransport,
    Match,
    Message,
    Offer,
    Refused,
    decode,
    encode,
)


def match_ids(ids: Mapping[str, Array], settings: AlignSettings | None = None) -> dict[str, Array]:
    """Return for each party the positions of the common ids, compared in the open.

    The order is that of the first party's table. Ids are compared in the form that `settings` give
    them, as between organisations.

    >>> rows = match_ids({"bank": np.array(["a", "b", "c"]), "shop": np.array(["c", "x", "a"])})
    >>> {party: list(map(int, positions)) for party, positions in rows.items()}
    {'bank': [0, 2], 'shop': [2, 0]}
    """
    rule = settings or AlignSettings()
    forms = {party: normalise_all(column, rule, party) for party, column in ids.items()}
    first, *others = forms
    if forms[first] and all(forms[party] == forms[first] for party in others):
        return {party: np.arange(len(column)) for party, column in forms.items()}
    common = set(forms[first]).intersection(*(forms[party] for party in others))
    if not common:
        raise DataError(_nothing_common(forms))
    order = [value for value in forms[first] if value in common]
    positions = {party: {v: i for i, v in enumerate(column)} for party, column in forms.items()}
    return {
        party: np.array([where[value] for value in order], dtype=np.int64)
        for party, where in positions.items()
    }


def _nothing_common(forms: Mapping[str, Sequence[str]]) -> str:
    """Return the error that says which party lacks the ids of the first."""
    first, *others = forms
    ids = set(forms[first])
    shared = {party: len(ids.intersection(forms[party])) for party in others}
    lacking = [party for party, number in shared.items() if number == 0]
    if not others or not ids:
        reason = f"that of '{first}' has no rows"
    elif lacking:
        names = " and ".join(f"'{party}'" for party in lacking)
        have = "have" if len(lacking) > 1 else "has"
        reason = f"{names} {have} none of the {len(ids)} ids of '{first}', such as '{min(ids)}'"
    else:
        counts = ", ".join(f"'{party}' has {number}" for party, number in shared.items())
        reason = f"of the {len(ids)} ids of '{first}', {counts}, but none is in all tables"
    parties = ", ".join(f"'{party}'" for party in forms)
    return (
        f"The tables of {parties} have no id in common: {reason}; check that the id columns hold "
        f"the same kind of id, and `align`."
    )


class UntrainedParty:
    """A passive party before it has a model: it answers about its people and nothing else."""

    def __init__(self, people: People, policy: Policy) -> None:
        self.people = people
        self.policy = policy

    def handle(self, message: Message) -> Message:
        """Answer one message."""
        people, rows = self.people, len(self.people.positions)
        try:
            if isinstance(message, Describe):
                return Description(message.step, rows, 0, (), 0, aligned=people.digest)
            if isinstance(message, Match):
                return people.match(message, self.policy)
            if isinstance(message, Offer):
                return people.offer(message)
            if isinstance(message, Common):
                positions = people.find_common(message, self.policy)
                if positions is None:
                    return Done(message.step)
                people.keep(positions)
                return Aligned(message.step, len(people.positions), people.digest)
        except (PartyRefused, WireError) as error:
            return Refused(message.step, str(error), refusal_of(error))
        return Refused(message.step, "it only matches rows.", "policy")

    def serve(self, data: bytes) -> bytes:
        """Answer one message given and returned as bytes."""
        return encode(self.handle(decode(data)))


def match_privately(
    ids: Mapping[str, Array],
    settings: AlignSettings,
    *,
    policies: Mapping[str, Policy] | None = None,
    folder: Path | None = None,
    keep: dict[str, StoredAlignment] | None = None,
    watch: Watch = watch_nothing,
) -> dict[str, Array]:
    """Return for each table the positions of the common ids, in the order of the sorted ids.

    ids       of each table; the first stands for the active party
    policies  of the others, where rows are to be trained on
    folder    of the run, where every party keeps its alignment in a subfolder of its own
    keep      takes what every party would keep there, where there is no folder yet
    """
    first, *others = ids
    if not others:
        forms = normalise_all(ids[first], settings, first)
        return {first: in_order(forms, range(len(forms)))}
    policies = policies or {}
    parties = {
        name: UntrainedParty(
            People(
                ids[name],
                settings=settings,
                column=name,
                folder=folder / name if folder else None,
                watch=watch,
            ),
            policies.get(name, replace(Policy(), min_common=1)),
        )
        for name in others
    }
    alignment = align(
        LocalTransport(parties),
        ids[first],
        settings,
        folder=folder / first if folder else None,
        watch=watch,
        column=first,
    )
    if keep is not None:
        keep[first] = alignment.stored()
        keep |= {name: party.people.stored() for name, party in parties.items()}
    others_rows = {name: party.people.positions for name, party in parties.items()}
    return {first: alignment.positions, **others_rows}
