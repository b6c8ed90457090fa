"""The active party's side of an alignment: which rows do all parties share?

With X its own ids and X_k those of passive party k, all in one form (`align.normal`):

    1. it asks each party in turn as in `align.psi` and learns X n X_k, and how large X_k is;
    2. it intersects them, C = X n X_1 n ... n X_K, and stops here if C is too small;
    3. each party asks it about C alone, and learns C and nothing else of X.

All then take the rows of C in the order of the sorted ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from unlabel.align.normal import digest_of, in_order, normalise_all
from unlabel.align.psi import Receiver, Sender, library
from unlabel.align.store import StoredAlignment, read
from unlabel.config import AlignSettings
from unlabel.data.dataset import Array
from unlabel.errors import DataError, WireError
from unlabel.party import describe
from unlabel.progress import Watch, watch_nothing
from unlabel.wire import Aligned, Common, Match, Matched, Message, Offer, Offered, Transport


@dataclass(frozen=True)
class Alignment:
    """The rows that all parties share, as the active party has them.

    positions  of its own rows, in the agreed order
    digest     of the common ids in that order; every party has the same
    size       how many ids the active party has
    sizes      how many each passive party has
    pairwise   how many each of them shares with the active party
    fresh      whether it was made now; False where everybody still had it
    """

    positions: Array
    digest: str
    size: int
    sizes: dict[str, int]
    pairwise: dict[str, int]
    fresh: bool = True

    def __len__(self) -> int:
        return len(self.positions)


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
        # The size of the active party's set is called `own` in this file.
        facts = {"own": alignment.size, "sizes": alignment.sizes, "pairwise": alignment.pairwise}
        digest = digest_of(own_ids)
        StoredAlignment(digest, alignment.digest, alignment.positions, facts).write(folder)
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
    return Alignment(stored.positions, stored.digest, *sizes, fresh=False)


def _intersect(
    transport: Transport, ids: Sequence[str], table: str, smallest: int, watch: Watch
) -> Alignment:
    parties = list(transport.parties)
    receiver = Receiver(ids, watch=watch)
    watch(0, len(parties), "waiting for the parties")
    answers = transport.ask(Match(0, table=table, masked=receiver.masked))
    shared, sizes = {}, {}
    for party in parties:
        answer = _expect(party, answers[party], Matched)
        sizes[party] = len(answer.setup)
        with _blaming(party):
            shared[party] = receiver.common(answer.setup, answer.response)
    common = set(range(len(ids))).intersection(*(places.tolist() for places in shared.values()))
    pairwise = {party: len(places) for party, places in shared.items()}
    positions = in_order(ids, common)
    _expect_enough(len(positions), smallest, pairwise)
    common_ids = [ids[place] for place in positions.tolist()]
    digest = digest_of(common_ids)
    _send_common(transport, common_ids, digest, table, sizes, watch)
    return Alignment(positions, digest, len(ids), sizes, pairwise)


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
    offers = transport.ask(Offer(0, table=table))
    sender = Sender(common, watch=watch)
    replies: dict[str, Message] = {}
    for party, offered in offers.items():
        masked = _expect(party, offered, Offered).masked
        if len(masked) > sizes[party]:
            # More would be questions about people it does not have.
            raise WireError(
                f"Party '{party}' has {sizes[party]} ids but offers {len(masked)}; ask its owner."
            )
        with _blaming(party):
            response = sender.answer(masked)
        replies[party] = Common(0, table=table, setup=sender.setup, response=response)
    # Of new people, who may be few, no party tells more than how many it found.
    expected = (len(common), digest if table == "main" else "")
    for party, reply in transport.tell(replies).items():
        answer = _expect(party, reply, Aligned)
        if (answer.rows, answer.digest) != expected:
            raise WireError(
                f"Party '{party}' found {answer.rows} common rows where {len(common)} are, or "
                f"others; check that it runs the same settings of `align`."
            )


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
