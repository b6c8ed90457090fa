"""The active party's side of an alignment: which rows do all parties share?

With X its own ids and X_k those of passive party k, all in one form (`align.normal`):

    1. it asks each party in turn as in `align.psi` and learns X n X_k, and how large X_k is;
    2. it intersects them, C = X n X_1 n ... n X_K, and stops here if C is too small;
    3. each party asks it about C alone, and learns C and nothing else of X.

All then take the rows of C in the order of the sorted ids. Masked ids travel in pieces
(`align.pieces`), to all parties side by side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from torch import Tensor

from unlabel.align.normal import digest_of, in_order, normalise_all
from unlabel.align.pieces import Gathered, left, piece_of
from unlabel.align.psi import Receiver, Sender, library
from unlabel.align.store import StoredAlignment, read
from unlabel.config import AlignSettings
from unlabel.data.dataset import Array
from unlabel.errors import DataError, WireError
from unlabel.party import describe
from unlabel.progress import Watch, watch_nothing
from unlabel.wire import Aligned, Common, Done, Match, Matched, Message, Offer, Offered, Transport


@dataclass(frozen=True)
class Alignment:
    """The rows that all parties share, as the active party has them.

    positions  of its own rows, in the agreed order
    ids_digest of all its ids
    digest     of the common ids in that order; every party has the same
    size       how many ids the active party has
    sizes      how many each passive party has
    pairwise   how many each of them shares with the active party
    fresh      whether it was made now; False where everybody still had it
    """

    positions: Array
    ids_digest: str
    digest: str
    size: int
    sizes: dict[str, int]
    pairwise: dict[str, int]
    fresh: bool = True

    def __len__(self) -> int:
        return len(self.positions)

    def stored(self) -> StoredAlignment:
        """Return it as it is kept."""
        # The size of the active party's set is called `own` in this file.
        facts = {"own": self.size, "sizes": self.sizes, "pairwise": self.pairwise}
        return StoredAlignment(self.ids_digest, self.digest, self.positions, facts)


def align(
    transport: Transport,
    ids: Sequence[str] | Array,
    settings: AlignSettings | None = None,
    *,
    table: str = "main",
    folder: Path | None = None,
    watch: Watch = watch_nothing,
    column: str = "id",
) -> Alignment:
    """Find the rows that the active party and all others share, and have all use them.

    ids     the active party's own, one a row
    table   main to train on, or new for people to predict, of whom there may be few
    folder  the active party's own, where an alignment is kept; one that all parties still have
            is used again, and no ids are sent
    """
    settings = settings or AlignSettings()
    library()
    own_ids = normalise_all(ids, settings, column)
    if table != "main":
        return _intersect(transport, own_ids, table, 1, watch)
    stored = _stored(transport, own_ids, folder, settings.smallest)
    if stored is not None:
        return stored
    alignment = _intersect(transport, own_ids, table, settings.smallest, watch)
    if folder is not None:
        alignment.stored().write(folder)
    return alignment


def known_alignment(
    ids: Sequence[str] | Array,
    settings: AlignSettings,
    *,
    folder: Path | None,
    column: str = "id",
) -> Alignment | None:
    """Return the alignment that the active party keeps, unless its ids have changed since.

    Nobody is asked whether the others still have it.
    """
    library()
    return _kept(normalise_all(ids, settings, column), folder, settings.smallest)


def _stored(
    transport: Transport, ids: Sequence[str], folder: Path | None, smallest: int
) -> Alignment | None:
    """Return the alignment on disk if every party still works with it."""
    kept = _kept(ids, folder, smallest)
    if kept is None:
        return None
    shared = (kept.digest, len(kept))
    if any((d.aligned, d.rows) != shared for d in describe(transport).values()):
        return None
    return kept


def _kept(ids: Sequence[str], folder: Path | None, smallest: int) -> Alignment | None:
    stored = read(folder, digest_of(ids), len(ids))
    if stored is None:
        return None
    facts = stored.facts
    _expect_enough(len(stored.positions), smallest, facts["pairwise"])  # it may have been raised
    sizes = facts["own"], facts["sizes"], facts["pairwise"]
    return Alignment(stored.positions, stored.ids_digest, stored.digest, *sizes, fresh=False)


def _intersect(
    transport: Transport, ids: Sequence[str], table: str, smallest: int, watch: Watch
) -> Alignment:
    receiver = Receiver(ids, watch=watch)
    shared, sizes = {}, {}
    for party, (setup, response) in _ask_all(transport, receiver.masked, table, watch).items():
        sizes[party] = len(setup)
        with _blaming(party):
            shared[party] = receiver.common(setup, response)
    common = np.arange(len(ids))
    for places in shared.values():
        common = np.intersect1d(common, places, assume_unique=True)
    pairwise = {party: len(places) for party, places in shared.items()}
    positions = in_order(ids, common.tolist())
    _expect_enough(len(positions), smallest, pairwise)
    common_ids = [ids[place] for place in positions.tolist()]
    digest = digest_of(common_ids)
    _send_common(transport, common_ids, digest, table, sizes, watch)
    return Alignment(positions, digest_of(ids), digest, len(ids), sizes, pairwise)


def _ask_all(
    transport: Transport, masked: Tensor, table: str, watch: Watch
) -> dict[str, tuple[Tensor, Tensor]]:
    """Send the masked ids, piece by piece, and return the setup and the response of each party."""
    setups = {party: Gathered() for party in transport.parties}
    responses = {party: Gathered() for party in transport.parties}
    total = len(masked)
    waiting, first = list(transport.parties), 0
    while waiting:
        piece, more = piece_of(masked, first), left(masked, first)
        watch(first, total, "waiting for the parties")
        asked = Match(0, table, piece, first, more)
        for party, answer in transport.tell(dict.fromkeys(waiting, asked)).items():
            matched = _expect(party, answer, Matched)
            with _blaming(party):
                if len(matched.response) != len(piece):
                    raise WireError(
                        f"Expected {len(piece)} answers to as many masked ids but got "
                        f"{len(matched.response)}."
                    )
                responses[party].take(matched.response, more)
                if not more:
                    setups[party].take(matched.setup, matched.more)
        first += len(piece)
        if not more:
            waiting = [party for party in waiting if not setups[party].is_whole]
    return {party: (setups[party].points(), responses[party].points()) for party in setups}


def _expect_enough(count: int, smallest: int, pairwise: Mapping[str, int]) -> None:
    """Raise before anybody else learns anything where too few people are common to all."""
    if count >= smallest and count:
        return
    pairs = ", ".join(f"'{party}' {number}" for party, number in pairwise.items())
    if not count:
        raise DataError(
            f"The parties have no id in common (shared with {pairs}); check that the id columns "
            f"hold the same kind of id, and `align`."
        )
    raise DataError(
        f"Expected at least {smallest} rows that all parties share but found {count} (shared with "
        f"{pairs}); so few would single people out: check the ids, or lower `align.smallest`."
    )


def _send_common(
    transport: Transport,
    common: Sequence[str],
    digest: str,
    table: str,
    sizes: Mapping[str, int],
    watch: Watch,
) -> None:
    """Let every party find the common ids among its own, and check what each of them finds."""
    sender = Sender(common, watch=watch)
    responses = {}
    for party, offered in _offers(transport, table, watch).items():
        if len(offered) != sizes[party]:
            # More would be questions about people it does not have.
            raise WireError(
                f"Party '{party}' has {sizes[party]} ids but offers {len(offered)}; ask its owner."
            )
        with _blaming(party):
            responses[party] = sender.answer(offered)
    # Of new people, who may be few, no party tells more than how many it found.
    expected = (len(common), digest if table == "main" else "")
    for party, answer in _tell_all(transport, sender.setup, responses, table).items():
        if (answer.rows, answer.digest) != expected:
            raise WireError(
                f"Party '{party}' found {answer.rows} common rows where {len(common)} are, or "
                f"others; check that it runs the same settings of `align`."
            )


def _offers(transport: Transport, table: str, watch: Watch) -> dict[str, Tensor]:
    """Return the masked ids of each party, as they come in pieces."""
    offered = {party: Gathered() for party in transport.parties}
    while waiting := [party for party in offered if not offered[party].is_whole]:
        watch(0, len(waiting), "waiting for the parties")
        asked = {party: Offer(0, table, len(offered[party])) for party in waiting}
        for party, answer in transport.tell(asked).items():
            piece = _expect(party, answer, Offered)
            with _blaming(party):
                offered[party].take(piece.masked, piece.more)
    return {party: pieces.points() for party, pieces in offered.items()}


def _tell_all(
    transport: Transport, setup: Tensor, responses: Mapping[str, Tensor], table: str
) -> dict[str, Aligned]:
    """Send each party the answers to its offer, piece by piece, and return what it found.

    No party offers fewer ids than are common, so the setup is through when the response is.
    """
    answers: dict[str, Aligned] = {}
    first = 0
    while waiting := {p: points for p, points in responses.items() if p not in answers}:
        requests = {
            party: Common(
                0,
                table,
                piece_of(setup, first),
                piece_of(points, first),
                first,
                left(points, first),
            )
            for party, points in waiting.items()
        }
        for party, answer in transport.tell(requests).items():
            if requests[party].more:
                _expect(party, answer, Done)
            else:
                answers[party] = _expect(party, answer, Aligned)
        first += max(len(request.response) for request in requests.values())
    return {party: answers[party] for party in responses}


@contextlib.contextmanager
def _blaming(party: str) -> Iterator[None]:
    """Say which party sent what cannot be read."""
    try:
        yield
    except WireError as error:
        raise WireError(f"Party '{party}' sent something else than masked ids. {error}") from error


M = TypeVar("M", bound=Message)


def _expect(party: str, answer: Message, kind: type[M]) -> M:
    if not isinstance(answer, kind):
        raise WireError(
            f"Expected {kind.__name__} of party '{party}' but got {type(answer).__name__}."
        )
    return answer
