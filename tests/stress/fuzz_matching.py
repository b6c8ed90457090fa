"""A judge's account of what a party told about its people."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from stress.fuzz_messages import MATCHED, POINT, ROWS
from unlabel.config import Policy
from unlabel.wire import Aligned, Common, Done, Match, Matched, Message, Offer, Offered

#: The ids of the party under test.
IDS = tuple(f"person-{number:03d}" for number in range(ROWS))


def matching_wrongs(
    request: Message, answer: Message, policy: Policy, known: bool
) -> Iterator[str]:
    """Name what is wrong with having answered a question about ids.

    known  whether the party has any
    """
    if not known:
        yield "matched ids it does not have"
    if isinstance(request, Match | Offer | Common) and request.table not in MATCHED:
        yield "matched a table it does not have"
    if isinstance(request, Match) and isinstance(answer, Matched):
        new = request.table == "new"
        least, most = (1, policy.max_new) if new else (policy.min_common, policy.max_ids)
        count = request.first + len(request.masked) + request.more
        if not least <= count <= min(most, policy.max_ids):
            yield "matched too many ids or too few"
        if answer.response.shape != request.masked.shape:
            yield "answered more or less than it was asked"
        if not request.more:
            yield from _masked_wrongs(answer.setup)
        elif len(answer.setup):
            yield "told of its ids before all it was asked about had come"
        yield from _shown(answer.response)
    elif isinstance(answer, Offered):
        yield from _masked_wrongs(answer.masked)
    elif isinstance(answer, Done):
        if not (isinstance(request, Common) and request.more):
            yield "waits for more where nothing is to come"
    elif isinstance(answer, Aligned):
        # The ids and the key of the party are not to be guessed, so nothing can be in common.
        yield "took up rows that nobody shares"


def _masked_wrongs(points: Tensor) -> Iterator[str]:
    if points.shape != (ROWS, POINT):
        yield "told of more or fewer ids than it has"
    rows = [bytes(row) for row in points.tolist()]
    if rows != sorted(set(rows)):
        yield "told its ids in an order of its own"
    yield from _shown(points)


def _shown(points: Tensor) -> Iterator[str]:
    data = points.numpy().tobytes()
    if any(name.encode() in data for name in IDS):
        yield "showed an id"
