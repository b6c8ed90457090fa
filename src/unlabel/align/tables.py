"""Rows of tables that lie in one process, matched as parties of a federation would do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from unlabel.align.meeting import align
from unlabel.align.normal import in_order, normalise_all
from unlabel.align.people import People
from unlabel.align.psi import Watch, watch_nothing
from unlabel.align.settings import AlignSettings
from unlabel.data.dataset import Array
from unlabel.errors import PartyRefused, WireError, refusal_of
from unlabel.party import Policy
from unlabel.wire import (
    Aligned,
    Common,
    Describe,
    Description,
    LocalTransport,
    Match,
    Message,
    Offer,
    Refused,
    decode,
    encode,
)


class Desk:
    """A passive party before it has a model: it answers about its people and nothing else."""

    def __init__(self, people: People, policy: Policy) -> None:
        self.people = people
        self.policy = policy

    def handle(self, message: Message) -> Message:
        """Answer one message."""
        people = self.people
        try:
            if isinstance(message, Describe):
                rows = len(people.positions)
                return Description(message.step, rows, 0, (), 0, aligned=people.digest)
            if isinstance(message, Match):
                return people.match(message, self.policy)
            if isinstance(message, Offer):
                return people.offer(message)
            if isinstance(message, Common):
                people.keep(people.find_common(message, self.policy))
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
    watch: Watch = watch_nothing,
) -> dict[str, Array]:
    """Return for each table the positions of the common ids, in the order of the sorted ids.

    ids       of each table; the first stands for the active party
    policies  of the others, where rows are to be trained on
    folder    of the run, where every party keeps its alignment in a subfolder of its own
    """
    first, *others = ids
    if not others:
        own = normalise_all(ids[first], settings, first)
        return {first: in_order(own, range(len(own)))}
    given = policies or {}
    desks = {
        name: Desk(
            People(
                ids[name],
                settings=settings,
                column=name,
                folder=folder / name if folder else None,
                watch=watch,
            ),
            given.get(name, replace(Policy(), min_common=1)),
        )
        for name in others
    }
    found = align(
        LocalTransport(desks),
        ids[first],
        settings,
        folder=folder / first if folder else None,
        watch=watch,
        column=first,
    )
    return {first: found.positions, **{n: desk.people.positions for n, desk in desks.items()}}
