"""A judge's account of what a party gathered, tracked and drafted, kept from its messages alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from stress.fuzz_messages import ROWS
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Message,
    SyntheticInputs,
    TransformWeights,
)

#: Letters and digits in a name.
NAME = 64
#: Sums a party gathers at a time.
MOST_SUMS = 4


@dataclass
class Shaping:
    """What a party may use next to change its weights, and how many inputs it has made.

    sums      names of what was weighed in this request
    moves     names of what was tracked, in training or since
    before    names of what was tracked when the request began
    kept      the same of every version
    waiting   the name under which the next step is tracked, empty if none is
    drafts    inputs it made
    """

    sums: set[str] = field(default_factory=set)
    moves: set[str] = field(default_factory=set)
    before: set[str] = field(default_factory=set)
    kept: dict[int, set[str]] = field(default_factory=dict)
    waiting: str = ""
    drafts: int = 0

    def opened(self) -> None:
        """Note that a request begins."""
        self.before = set(self.moves)

    def stepped(self) -> None:
        """Note that the weights took a step."""
        if self.waiting:
            self.moves.add(self.waiting)
        self.waiting = ""

    def settled(self, moves: set[str] | None = None) -> None:
        """Note that a request ended, and what is tracked from then on."""
        self.sums, self.drafts, self.waiting = set(), 0, ""
        self.moves = set(moves or ())

    def wrongs(self, request: Message, opened: str, most: int) -> Iterator[str]:
        """Name what is wrong with having served a request, and note what it does.

        opened  the request under way, empty if there is none
        most    rows the policy allows
        """
        if isinstance(request, AccumulateFisher):
            if not opened:
                yield "weighed without a request"
            if request.weight <= 0:
                yield "weighed what weighs nothing"
            yield from self._add(self.sums, request.sum_name)
        elif isinstance(request, AccumulateUpdates):
            self.waiting = request.sum_name
            yield from self._add(set(self.moves), request.sum_name)
        elif isinstance(request, SyntheticInputs):
            yield from self._draft_wrongs(request, opened, most)
        elif isinstance(request, TransformWeights):
            yield from self._rewrite_wrongs(request, opened)

    def _add(self, known: set[str], name: str) -> Iterator[str]:
        yield from name_wrongs(name, "gathered a sum")
        known.add(name)
        if len(known) > MOST_SUMS:
            yield "gathered more sums than it may"

    def _draft_wrongs(self, request: SyntheticInputs, opened: str, most: int) -> Iterator[str]:
        if not opened or request.request != opened:
            yield "drafted for a request that is not open"
        if request.rate < 0 or request.decay < 0:
            yield "drafted with settings that cannot be"
        copies = request.rows.numel()
        if (copies > 0) == (request.noise != 0) or not 0 <= request.noise <= most:
            yield "drafted too many inputs, none, or of two sorts"
        if copies and not within(request.rows, most=most):
            yield "drafted copies of rows that do not exist"
        self.drafts = copies or request.noise

    def _rewrite_wrongs(self, request: TransformWeights, opened: str) -> Iterator[str]:
        if not opened or request.request != opened:
            yield "rewrote its weights for a request that is not open"
        if request.threshold < 0 or request.strength < 0:
            yield "rewrote its weights with settings that cannot be"
        needs = {
            "begin": set[str](),
            "dampen": {request.sum_name, request.reference},
            "noise": {request.sum_name},
            "subtract": {request.sum_name},
        }[request.rule]
        if not needs <= (self.moves if request.rule == "subtract" else self.sums):
            yield "rewrote its weights by sums it never gathered"


def name_wrongs(name: str, what: str) -> Iterator[str]:
    """Name what is wrong with having accepted a name."""
    if not (name.isascii() and name.isalnum() and len(name) <= NAME):
        yield f"{what} with an impossible name"


def within(rows: Tensor, *, most: int, available: int = ROWS) -> bool:
    """Tell whether there are rows, at most so many, and whether all of them exist."""
    numbers = rows.tolist()
    return 1 <= len(numbers) <= most and all(0 <= number < available for number in numbers)
