"""Columns of a table as numbers: numeric ones as they are, categories as 0/1 indicators.

    numeric   x                        one number, and with `flag` another: 1 where x is missing
    category  1[x = c_1] .. 1[x = c_n]  one indicator a category, in sorted order

Which categories there are may tell more than any number does. An encoding is made on its owner's
side from the owner's whole table, so that it says nothing about who else has which rows, and stays
there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from unlabel.config import Missing
from unlabel.data.cells import foreign_numbers, is_number, is_numeric, numbers_of, texts_of
from unlabel.data.dataset import Array
from unlabel.errors import CheckpointError, DataError, unknown
from unlabel.files import OWNER_ONLY, write_atomically, writing

if TYPE_CHECKING:
    import pandas as pd

#: Categories of one column that get an indicator each, the most frequent ones.
MOST = 32
#: Where a party keeps its encoding.
FILE = "encoding.json"


@dataclass(frozen=True)
class Column:
    """What one column of a table becomes.

    name        of the column
    categories  that have an indicator each, sorted; None for a numeric column
    other       whether there is an indicator for all other categories
    gap         whether there is an indicator for a missing value
    """

    name: str
    categories: tuple[str, ...] | None = None
    other: bool = False
    gap: bool = False

    def indicators(self) -> list[bool]:
        """Return for each number that the column becomes whether it is an indicator, 0 or 1."""
        if self.categories is None:
            return [False] + [True] * self.gap
        return [True] * (len(self.categories) + self.other + self.gap)

    def categorise(self, texts: Sequence[str | None]) -> tuple[Array, int]:
        """Return categories as indicators [n, width], and how many have none.

        >>> Column("job", ("cook", "nurse"), gap=True).categorise(["nurse", None, "judge"])
        (array([[0., 1., 0.],
               [0., 0., 1.],
               [0., 0., 0.]]), 1)
        """
        assert self.categories is not None
        known = {name: place for place, name in enumerate(self.categories)}
        indicators = np.zeros((len(texts), len(self.indicators())))
        unseen = 0
        for row, text in enumerate(texts):
            if text in known:
                indicators[row, known[text]] = 1
            elif text is None and self.gap:
                indicators[row, -1] = 1
            else:
                unseen += 1
                if self.other:
                    indicators[row, len(known)] = 1
        # With an indicator for the others, an unseen category is nothing to report.
        return indicators, 0 if self.other else unseen


@dataclass(frozen=True)
class Encoded:
    """Rows of a table as numbers.

    values  [n, width] float64; NaN where a number is missing
    whole   [n] whether nothing is missing in a row
    unseen  how many values of a column are of no category that was there in training
    """

    values: Array
    whole: Array
    unseen: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Encoding:
    """How the columns of one party's table become numbers.

    missing  refuse missing values, take the mean of the training rows, indicate them (flag),
             or leave out rows that have any (drop)
    columns  in the order of the table
    """

    missing: Missing = "refuse"
    columns: tuple[Column, ...] = ()

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        names: Sequence[str],
        *,
        categories: Sequence[str] = (),
        missing: Missing = "refuse",
        where: str = "The table",
    ) -> Encoding:
        """Find out what the columns hold.

        names       of the columns that are features
        categories  of those whose numbers are codes of categories; text is taken for one anyway
        where       the table is called in errors
        """
        for name in categories:
            if name not in names:
                raise DataError(f"{where}, `categories`: {unknown('feature', name, names)}")
        texts = {
            name: texts_of(frame[name], where)
            for name in names
            if name in categories or not is_numeric(frame[name])
        }
        dropped = np.zeros(len(frame), dtype=bool)
        for name in names if missing == "drop" else ():
            dropped |= _gaps(texts[name]) if name in texts else frame[name].isna().to_numpy()
        columns = []
        for name in names:
            if name not in texts:
                columns.append(Column(name, gap=missing == "flag" and frame[name].hasnans))
                continue
            if name not in categories:
                _expect_words(name, texts[name], where)
            used = [text for text, drop in zip(texts[name], dropped, strict=True) if not drop]
            columns.append(_find_categories(name, used, missing in ("mean", "flag"), where))
        return cls(missing, tuple(columns))

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many numbers each column becomes."""
        return tuple(len(column.indicators()) for column in self.columns)

    @property
    def indicators(self) -> Array:
        """Whether each number is an indicator, which no scaling should touch."""
        flags = [each for column in self.columns for each in column.indicators()]
        return np.array(flags, dtype=bool)

    def categories(self) -> tuple[str, ...]:
        """Return the names of the columns that hold categories."""
        return tuple(column.name for column in self.columns if column.categories is not None)

    def may_miss(self) -> bool:
        """Return whether numbers may be missing."""
        return self.missing in ("mean", "flag")

    def apply(self, frame: pd.DataFrame, where: str = "The table") -> Encoded:
        """Return the table's rows as numbers, in full precision until the owner's scaling."""
        parts: list[Array] = [np.empty((len(frame), 0))]
        whole = np.ones(len(frame), dtype=bool)
        unseen: dict[str, int] = {}
        for column in self.columns:
            if column.name not in frame.columns:
                raise DataError(f"{where}: {unknown('column', column.name, map(str, frame))}")
            series = frame[column.name]
            if column.categories is None:
                values = numbers_of(series, where)
                gaps = np.isnan(values)
                parts.append(np.stack([values, gaps][: 1 + column.gap], axis=1))
            else:
                texts = texts_of(series, where)
                gaps = _gaps(texts)
                indicators, strange = column.categorise(texts)
                parts.append(indicators)
                if strange:
                    unseen[column.name] = strange
            if gaps.any() and self.missing == "refuse":
                raise DataError(
                    f"{where}: feature '{column.name}' is missing or not finite in row "
                    f"{int(np.flatnonzero(gaps)[0]) + 1} ({int(gaps.sum())} rows in all); fill or "
                    f"drop such rows, or choose `missing: mean`, `flag` or `drop`."
                )
            whole &= ~gaps
        return Encoded(np.concatenate(parts, axis=1), whole, unseen)

    def used_rows(self, rows: Encoded, where: str = "The table") -> Array:
        """Return the places of the rows that are used: all, or those that miss nothing."""
        if self.missing != "drop":
            return np.arange(len(rows.whole))
        if not rows.whole.any():
            raise DataError(
                f"{where}: every row misses a value, so `missing: drop` leaves none; choose `mean` "
                f"or `flag`, or leave a column out."
            )
        return np.flatnonzero(rows.whole)

    def expect_same(
        self, names: Sequence[str] | None, categories: Sequence[str], missing: Missing, where: str
    ) -> None:
        """Raise where other settings are asked for now than the encoding was made with.

        names  of the features, or None for whatever they were
        """
        trained = [column.name for column in self.columns]
        other = [name for name in categories if name not in self.categories()]
        wrong = None
        if missing != self.missing:
            wrong = f"encodes its columns with `missing: {self.missing}`, not '{missing}'"
        elif names is not None and list(names) != trained:
            wrong = f"was made with the `features` {', '.join(trained)[:200]}, in this order"
        elif other:
            wrong = f"has no category '{other[0]}', as `categories` says"
        if wrong is not None:
            raise DataError(f"{where}: this run {wrong}; put the setting back.")

    def store(self, folder: Path) -> None:
        """Write the encoding into its owner's folder; columns that are plain numbers need none."""
        if self.missing == "refuse" and not self.categories():
            with writing(folder / FILE):
                (folder / FILE).unlink(missing_ok=True)  # one of an earlier table
            return
        text = json.dumps({"missing": self.missing, "columns": list(map(asdict, self.columns))})
        write_atomically(folder / FILE, text.encode(), mode=OWNER_ONLY)


def stored_encoding(folder: Path) -> Encoding | None:
    """Return the encoding that a party has in its folder, if there is one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        raw = json.loads(path.read_bytes())
        if raw["missing"] not in get_args(Missing):
            raise ValueError
        return Encoding(raw["missing"], tuple(map(_column_of, raw["columns"])))
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(
            f"'{path}' is damaged: it says how this party's columns become numbers; restore it "
            f"from a backup."
        ) from error


def _gaps(texts: Sequence[str | None]) -> Array:
    return np.array([text is None for text in texts], dtype=bool)


def _column_of(raw: dict[str, Any]) -> Column:
    names = raw["categories"]
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError
    categories = None if names is None else tuple(names)
    return Column(str(raw["name"]), categories, bool(raw["other"]), bool(raw["gap"]))


def _find_categories(
    name: str, texts: Sequence[str | None], gaps_count: bool, where: str
) -> Column:
    """Return a column of categories: the most frequent ones, and the rest as one."""
    counts = Counter(text for text in texts if text is not None)
    rows = counts.total()
    if (rows > 2 and len(counts) == rows) or len(counts) > max(MOST, rows // 2):
        raise DataError(
            f"{where}: feature '{name}' holds {len(counts)} different texts in {rows} rows; "
            f"expected categories that many rows share: leave it out with `features`, or train on "
            f"it as `text` if it is one."
        )
    often = sorted(counts, key=lambda text: (-counts[text], text))[:MOST]
    gap = gaps_count and None in texts
    return Column(name, tuple(sorted(often)), other=len(counts) > MOST, gap=gap)


def _expect_words(name: str, texts: Sequence[str | None], where: str) -> None:
    """Raise where most texts are numbers: a typing error makes no categories of numbers."""
    wrong = foreign_numbers(name, texts)
    strange = [row for row, text in enumerate(texts) if text is not None and not is_number(text)]
    if wrong is None and 2 * len(strange) < sum(text is not None for text in texts):
        wrong = f"feature '{name}' holds numbers as text; write them as numbers"
        if strange:
            wrong = (
                f"feature '{name}' is not numeric in row {strange[0] + 1} ({len(strange)} rows in "
                f"all), and most of its values are numbers; correct such rows"
            )
    if wrong is not None:
        raise DataError(
            f"{where}: {wrong}, name the column in `categories`, or leave it out with `features`."
        )
