"""The people in a passive party's table, and which of them all parties share.

The party answers three requests. To `Match` as the side that is asked: it learns how many ids the
active party has. To `Offer` and `Common` as the side that asks: it learns which of its own ids all
parties have. Nothing else about anybody's ids reaches it, and its own leave only masked.

They are answered in this order only, once each: what the policy says about `Match` thereby holds
for all three. One `Match` of n ids leads to n rows at most, and where none is served there are no
rows either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from unlabel.align.kept import Kept, read
from unlabel.align.normal import digest_of, in_order, normalise_all
from unlabel.align.psi import Answerer, Asker, Watch, library, watch_nothing
from unlabel.align.settings import AlignSettings
from unlabel.data import Features
from unlabel.data.dataset import Array
from unlabel.errors import CheckpointError, PartyRefused, RunError, refusal_of
from unlabel.party import PassiveParty, Policy
from unlabel.party.bottom import fingerprint
from unlabel.party.protocols import handles
from unlabel.party.serving import not_written
from unlabel.wire import Aligned, Common, Match, Matched, Message, Offer, Offered

log = logging.getLogger("unlabel.party")

#: Tables that are matched: rows to train on, and new people to predict.
MATCHED = ("main", "new")


class People:
    """The ids of a passive party, and the rows of them that all parties share.

    ids       a column of ids, one a row of the party's table
    take      returns the features of the rows at these positions
    folder    the party's own, where the alignment is kept; None keeps it in memory
    settings  how ids are compared, the same at every party
    column    name of the id column, for errors
    """

    def __init__(
        self,
        ids: Sequence[str] | Array,
        take: Callable[[Array], Features] | None = None,
        *,
        folder: Path | None = None,
        settings: AlignSettings | None = None,
        column: str = "id",
        watch: Watch = watch_nothing,
    ) -> None:
        library()  # the owner is to hear at once if it is missing, not the first caller
        self.ids = normalise_all(ids, settings or AlignSettings(), column)
        self.take = take
        self.folder = folder
        self._own = digest_of(self.ids)
        self._watch = watch
        # By table: how many ids the last `Match` asked about, and what was offered upon it.
        self._asked: dict[str, int] = {}
        self._offers: dict[str, tuple[Asker, int]] = {}
        kept = read(folder, self._own, len(self.ids))
        self.digest = kept.digest if kept else ""
        self.positions = kept.positions if kept else np.empty(0, dtype=np.int64)

    def features(self) -> Features:
        """Return the features of the aligned rows; none before the rows are aligned."""
        assert self.take is not None
        return self.take(self.positions)

    def match(self, message: Match, policy: Policy) -> Matched:
        """Answer which of somebody's masked ids are here too."""
        _expect_table(message.table)
        count, least = len(message.masked), policy.min_common
        if message.table == "new":
            if count > policy.max_new:
                raise PartyRefused(
                    f"it matches {policy.max_new} new people at most (`policy.max_new`), not "
                    f"{count}.",
                    "policy",
                )
            least = 1
        if not least <= count <= policy.max_ids:
            raise PartyRefused(
                f"it matches {least} ids or more (`policy.min_common`) and {policy.max_ids} at "
                f"most (`policy.max_ids`), not {count}.",
                "policy",
            )
        side = Answerer(self.ids, watch=self._watch)
        answer = Matched(message.step, side.setup, side.answer(message.masked))
        self._asked[message.table] = count
        return answer

    def offer(self, message: Offer) -> Offered:
        """Mask all ids and remember the key, to find the common ones among them next."""
        _expect_table(message.table)
        # Gone with the first offer, so that every alignment passes by the policy anew.
        count = self._asked.pop(message.table, None)
        if count is None:
            raise PartyRefused(
                f"it has matched no ids of table '{message.table}' since its last offer; send "
                f"'Match' first.",
                "wrong-request",
            )
        side = Asker(self.ids, watch=self._watch)
        self._offers[message.table] = side, count
        return Offered(message.step, side.masked)

    def find_common(self, message: Common, policy: Policy) -> Array:
        """Return the positions of the ids that all parties have, in the agreed order."""
        _expect_table(message.table)
        # Gone with the first answer: a key serves once.
        side, count = self._offers.pop(message.table, (None, 0))
        if side is None:
            raise PartyRefused(
                f"it has offered no ids of table '{message.table}'.", "wrong-request"
            )
        positions = in_order(self.ids, side.common(message.setup, message.response).tolist())
        if len(positions) > count:
            raise PartyRefused(
                f"it was asked about {count} ids of table '{message.table}', so that no more can "
                f"be common, but {len(positions)} are said to be.",
                "wrong-request",
            )
        least = policy.min_common if message.table == "main" else 1
        if len(positions) < least:
            raise PartyRefused(
                f"it shares {least} rows with all others or more (`policy.min_common`), but they "
                f"have fewer in common.",
                "policy",
            )
        return positions

    def digest_at(self, positions: Array) -> str:
        """Return the digest of the ids at these positions."""
        return digest_of(self.ids[place] for place in positions.tolist())

    def keep(self, positions: Array) -> None:
        """Work with these rows from now on, also after the next start."""
        digest = self.digest_at(positions)
        if self.folder is not None:
            Kept(self._own, digest, positions).write(self.folder)
        self.positions, self.digest = positions, digest


def _expect_table(table: str) -> None:
    if table not in MATCHED:
        raise PartyRefused(
            f"it matches the tables {' and '.join(MATCHED)} and no other.", "wrong-request"
        )


def people_of(party: PassiveParty) -> People:
    """Return the people of a party, or refuse what needs ids."""
    if not isinstance(party.people, People):
        raise PartyRefused("it has no ids to match.", "wrong-request")
    return party.people


@handles(Match)
def match(party: PassiveParty, message: Match) -> Message:
    """Answer which of the active party's ids are here too, without learning which."""
    return people_of(party).match(message, party.guard.policy)


@handles(Offer)
def offer(party: PassiveParty, message: Offer) -> Message:
    """Send all ids, masked."""
    return people_of(party).offer(message)


@handles(Common)
def align(party: PassiveParty, message: Common) -> Message:
    """Take the rows that all parties share as the party's own, in the agreed order."""
    people = people_of(party)
    positions = people.find_common(message, party.guard.policy)
    rows = people.take(positions) if people.take is not None else None
    if message.table == "main":
        _expect_free(party, people, positions, rows)
        try:
            people.keep(positions)
        except RunError as error:
            raise not_written(error) from error
        party.pending = None
    if rows is not None:
        party.bottom.add_table(message.table, rows)
    # New people may be one alone, and the digest of one id falls to whoever tries all there are.
    digest = people.digest if message.table == "main" else ""
    return Aligned(message.step, len(positions), digest)


def _expect_free(
    party: PassiveParty, people: People, positions: Array, rows: Features | None
) -> None:
    """Refuse other rows where something was trained on those there are."""
    if people.digest == people.digest_at(positions):
        return
    if party.open is not None:
        raise PartyRefused("a request is open; commit it or roll it back first.", "request-open")
    if party.store is None:
        return
    shelves = (party.store, party.store.staged)
    kept = [(version, shelf) for shelf in shelves for version in shelf.versions()]
    if not kept:
        return
    # The table may have got another order or more people, or the alignment was lost: it is the
    # values, row by row, that a version was trained on, and that a return to it asks for.
    version, shelf = max(kept, key=lambda each: each[0])
    try:
        trained_on = shelf.facts(version).get("features")
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    if rows is None or fingerprint(rows) != trained_on:
        raise PartyRefused(
            "it keeps versions that were trained on other rows; start a new run to align anew.",
            "checkpoint",
        )
