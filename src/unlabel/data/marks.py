"""What one column of a table becomes, and the rows of a table as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unlabel.data.dataset import Array


@dataclass(frozen=True)
class Column:
    """What one column of a table becomes.

    name        of the column
    categories  that have a mark each, sorted; None for a column of amounts
    other       whether there is a mark for every other category
    gap         whether there is a mark for a missing value
    """

    name: str
    categories: tuple[str, ...] | None = None
    other: bool = False
    gap: bool = False

    def marks(self) -> list[bool]:
        """Return for each number of the column whether it is a mark, 0 or 1, or an amount."""
        if self.categories is None:
            return [False] + [True] * self.gap
        return [True] * (len(self.categories) + self.other + self.gap)

    def amounts(self, values: Array) -> Array:
        """Return amounts [n] as numbers [n, 1] or, with marks of gaps, [n, 2]."""
        return np.stack([values, np.isnan(values)][: 1 + self.gap], axis=1)

    def categorise(self, texts: Sequence[str | None]) -> tuple[Array, int]:
        """Return categories as marks [n, width], and how many have none of their own.

        >>> Column("job", ("cook", "nurse"), gap=True).categorise(["nurse", None, "judge"])
        (array([[0., 1., 0.],
               [0., 0., 1.],
               [0., 0., 0.]]), 1)
        """
        assert self.categories is not None
        known = {name: place for place, name in enumerate(self.categories)}
        marks = np.zeros((len(texts), len(self.marks())))
        unseen = 0
        for row, text in enumerate(texts):
            if text in known:
                marks[row, known[text]] = 1
            elif text is None and self.gap:
                marks[row, -1] = 1
            else:
                unseen += 1
                if self.other:
                    marks[row, len(known)] = 1
        # With a mark for the others it is no news that somebody has it.
        return marks, 0 if self.other else unseen


@dataclass(frozen=True)
class Encoded:
    """Rows of a table as numbers.

    values  [n, width] float64; NaN where an amount is missing
    whole   [n] whether nothing is missing in a row
    unseen  how many values of a column are of no category that was there in training
    """

    values: Array
    whole: Array
    unseen: dict[str, int] = field(default_factory=dict)
