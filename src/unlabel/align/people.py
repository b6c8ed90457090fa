"""The people in a passive party's table, and which of them all parties share.

The party answers three requests. In `Match` it is the sender and learns how many ids the active
party has; in `Offer` and `Common` it is the receiver and learns which of its own ids all parties
have. It learns nothing else about anybody's ids, and its own leave only masked.

They are answered in this order only, once each, so that the policy's limits on `Match` hold for all
three: one `Match` of n ids leads to n rows at most. Each may come in several messages, which are
answered in their order only; the first one of a request begins it anew. What would tell something,
the party's own masked ids, is sent after the last masked id of the active party has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unlabel.align.normal import digest_of, in_order, normalise_all
from unlabel.align.pieces import Gathered, left, piece_of
from unlabel.align.psi import Receiver, Sender, expect_points, library
from unlabel.align.store import StoredAlignment, read
from unlabel.config import AlignSettings, Policy
from unlabel.data import Features
from unlabel.data.dataset import Array
from unlabel.errors import PartyRefused
from unlabel.party import PassiveParty
from unlabel.party.bottom import fingerprint
from unlabel.party.policy import END_FIRST, require
from unlabel.party.protocols import handles
from unlabel.progress import Watch, watch_nothing
from unlabel.wire import Aligned, Common, Done, Match, Matched, Message, Offer, Offered

#: Tables that are matched: rows to train on, and new people to predict.
MATCHED = ("main", "new")


@dataclass
class _Asked:
    """A `Match` that is under way.

    count  ids it asks about in all
    got    how many of them have come
    sent   how many points of the setup were sent
    """

    side: Sender
    count: int
    got: int = 0
    sent: int = 0


@dataclass
class _Offer:
    """An offer of ids, and what has come of the answer to it.

    count  ids that the `Match` before it asked about
    sent   how many masked ids were sent
    """

    side: Receiver
    count: int
    sent: int = 0
    setup: list[Tensor] = field(default_factory=list)
    response: Gathered = field(default_factory=Gathered)


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
        library()  # raises for the owner if it is missing, and not for the first caller
        self.ids = normalise_all(ids, settings or AlignSettings(), column)
        self.take = take
        self.folder = folder
        self._ids_digest = digest_of(self.ids)
        self._watch = watch
        # By table: the `Match` under way, how many ids the last one asked about, and the offer.
        self._asked: dict[str, _Asked] = {}
        self._matched: dict[str, int] = {}
        self._offers: dict[str, _Offer] = {}
        stored = read(folder, self._ids_digest, len(self.ids))
        self.digest = stored.digest if stored else ""
        self.positions = stored.positions if stored else np.empty(0, dtype=np.int64)

    def match(self, message: Match, policy: Policy) -> Matched:
        """Answer which of somebody's masked ids are here too."""
        _expect_table(message.table)
        # Gone where this piece is refused: the rest of a request would be no better.
        asked = self._asked.pop(message.table, None)
        _expect_counts(message.first, message.more)
        count, least = message.first + len(message.masked) + message.more, policy.min_common
        if message.table == "new":
            least, most = 1, policy.max_new
            reason = f"it matches {most} new people at most (`policy.max_new`), not {count}."
            require(count <= most, reason, "policy")
        require(
            least <= count <= policy.max_ids,
            f"it matches {least} ids or more (`policy.min_common`) and {policy.max_ids} at most "
            f"(`policy.max_ids`), not {count}.",
            "policy",
        )
        if message.first == 0:
            asked = _Asked(Sender(self.ids, watch=self._watch), count)
        follows = asked is not None and (asked.got, asked.count) == (message.first, count)
        require(follows, f"it expects the next piece of a 'Match', not one {_after(message)}.")
        assert asked is not None
        response = asked.side.answer(message.masked)
        asked.got += len(message.masked)
        none, setup = asked.side.setup[:0], asked.side.setup
        if asked.got < count:
            self._asked[message.table] = asked
            return Matched(message.step, none, response)
        piece, rest = piece_of(setup, asked.sent), left(setup, asked.sent)
        if rest:
            asked.sent += len(piece)
            self._asked[message.table] = asked
        else:
            self._matched[message.table] = count
        return Matched(message.step, piece, response, rest)

    def offer(self, message: Offer) -> Offered:
        """Mask all ids and remember the key, to find the common ones among them next."""
        _expect_table(message.table)
        offer = self._offers.get(message.table)
        if message.first == 0:
            # Gone with the first offer, so that every alignment passes by the policy anew.
            reason = f"since its last offer it has matched no ids of table '{message.table}'"
            require(message.table in self._matched, f"{reason}; send 'Match' first.")
            count = self._matched.pop(message.table)
            offer = _Offer(Receiver(self.ids, watch=self._watch), count)
        follows = offer is not None and offer.sent == message.first
        require(follows, f"it expects to be asked for what follows, not {_after(message)}.")
        assert offer is not None
        masked = offer.side.masked
        piece = piece_of(masked, offer.sent)
        offer.sent += len(piece)
        self._offers[message.table] = offer
        return Offered(message.step, piece, len(masked) - offer.sent)

    def find_common(self, message: Common, policy: Policy) -> Array | None:
        """Return the positions of the ids that all parties have, in the agreed order.

        None as long as pieces of the answer are to come.
        """
        _expect_table(message.table)
        # Gone with the first answer: a key serves once.
        offer = self._offers.pop(message.table, None)
        whole = offer is not None and offer.sent == len(offer.side.masked)
        require(whole, f"it offered no ids of table '{message.table}'.")
        assert offer is not None
        require(
            len(offer.response) == message.first,
            f"it expects the next piece of a 'Common', not one {_after(message)}.",
        )
        expect_points(message.setup)
        known = sum(map(len, offer.setup)) + len(message.setup)
        require(known <= offer.sent, f"it has {offer.sent} ids; no more can be common.")
        offer.setup.append(message.setup)
        offer.response.take(message.response, message.more)
        if message.more:
            self._offers[message.table] = offer
            return None
        places = offer.side.common(torch.cat(offer.setup), offer.response.points())
        positions, count = in_order(self.ids, places.tolist()), offer.count
        many = f"it was asked about {count} ids of table '{message.table}'; no more can be common."
        require(len(positions) <= count, many)
        least = policy.min_common if message.table == "main" else 1
        few = f"it shares {least} rows with all others or more (`policy.min_common`), not fewer."
        require(len(positions) >= least, few, "policy")
        return positions

    def digest_at(self, positions: Array) -> str:
        """Return the digest of the ids at these positions."""
        return digest_of(self.ids[place] for place in positions.tolist())

    def keep(self, positions: Array) -> None:
        """Work with these rows from now on, also after the next start."""
        self.positions, self.digest = positions, self.digest_at(positions)
        if self.folder is not None:
            self.stored().write(self.folder)

    def stored(self) -> StoredAlignment:
        """Return the rows it works with, as they are kept."""
        return StoredAlignment(self._ids_digest, self.digest, self.positions)


def _expect_table(table: str) -> None:
    require(table in MATCHED, f"it matches the tables {' and '.join(MATCHED)} and no other.")


def _expect_counts(*counts: int) -> None:
    require(min(counts) >= 0, "it counts masked ids from 0.")


def _after(message: Match | Offer | Common) -> str:
    return f"after {message.first} masked ids"


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
    if positions is None:
        return Done(message.step)
    rows = people.take(positions) if people.take is not None else None
    if message.table == "main":
        _expect_free(party, people, positions, rows)
        people.keep(positions)
        party.sent_embeddings = None
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
    require(party.open_request is None, f"a request is open; {END_FIRST}", "request-open")
    if party.store is None:
        return
    stores = (party.store, party.store.staged, party.store.base)
    versions = [(version, store) for store in stores for version in store.versions()]
    if not versions:
        return
    # The table may have got another order or more people, or the alignment was lost: it is the
    # values, row by row, that a version was trained on, and that a return to it asks for.
    version, store = max(versions, key=lambda each: each[0])
    require(
        rows is not None and fingerprint(rows) == store.facts(version).get("features"),
        "it keeps versions that were trained on other rows; start a new run to align anew.",
        "checkpoint",
    )
