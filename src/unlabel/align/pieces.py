"""Masked ids that are too many for one message: pieces of a list of points, in their order.

    first  points that came before a piece      more  points that come after it

A message has two lists of `PIECE` points at most, so that no number of ids reaches the limit on a
message's bytes, and a party's answer to each takes seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlabel.align.psi import POINT, expect_points
from unlabel.errors import WireError

#: Points of one list in one message: 4 MiB.
PIECE = 2**17
#: Points of a whole list, whatever a message announces.
MOST = 2**26


def piece_of(points: Tensor, first: int) -> Tensor:
    """Return the piece of a list that begins after `first` points, empty after the last."""
    return points[first : first + PIECE]


def left(points: Tensor, first: int) -> int:
    """Return how many points of a list come after that piece."""
    return max(0, len(points) - first - PIECE)


class Gathered:
    """A list of points as it comes in; every piece is held against those before it."""

    def __init__(self) -> None:
        self._pieces: list[Tensor] = []
        self._count = 0
        self._total: int | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def is_whole(self) -> bool:
        """Whether all points have come."""
        return self._count == self._total

    def take(self, piece: Tensor, more: int) -> None:
        """Add a piece; raise unless it goes on where the last one ended."""
        total = self._count + len(piece) + more
        expect_points(piece)
        if more < 0 or total > MOST:
            raise WireError(f"Expected {MOST} masked ids at most but got {len(piece)} and {more}.")
        if self._total not in (None, total) or (more and not len(piece)):
            raise WireError(
                f"Expected masked ids in pieces that follow each other but after {self._count} of "
                f"them came {len(piece)} with {more} to come."
            )
        self._total = total
        self._pieces.append(piece)
        self._count += len(piece)

    def points(self) -> Tensor:
        """Return what has come, and let go of it."""
        pieces, self._pieces = self._pieces, []
        if len(pieces) == 1:
            return pieces[0]
        return torch.cat(pieces) if pieces else torch.empty(0, POINT, dtype=torch.uint8)
