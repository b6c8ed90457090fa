"""Columns of a table as numbers: numeric ones as they are, categories as 0/1 indicators.

    numeric   x                        one number, and with `flag` another: 1 where x is missing
    category  1[x = c_1] .. 1[x = c_n]  one indicator a category, in sorted order

Which categories there are may tell more than any number does. An encoding is made on its owner's
side from the owner's whole table, so that it says nothing about who else has which rows, and stays
there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from unlabel.config import Missing
from unlabel.data.cells import (
    Texts,
    foreign_numbers,
    is_number,
    is_numeric,
    number_reader,
    texts_of,
)
from unlabel.data.dataset import Array
from unlabel.errors import CheckpointError, DataError, unknown
from unlabel.files import OWNER_ONLY, write_atomically, writing

if TYPE_CHECKING:
    import pandas as pd

    from unlabel.data.column_files import FileColumns

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

    def categorise(self, texts: Texts, into: Array) -> int:
        """Write categories as indicators into [n, width] zeros; return how many have none.

        >>> texts = Texts(("nurse", "judge"), np.array([0, -1, 1]))
        >>> Column("job", ("cook", "nurse"), gap=True).categorise(texts, into := np.zeros((3, 3)))
        1
        >>> into
        array([[0., 1., 0.],
               [0., 0., 1.],
               [0., 0., 0.]])
        """
        assert self.categories is not None
        known = {name: place for place, name in enumerate(self.categories)}
        strange = len(known) if self.other else -1
        # The last place is that of a missing text, whose code is -1.
        places = [known.get(name, strange) for name in texts.names]
        places.append(into.shape[1] - 1 if self.gap else strange)
        place = np.array(places)[texts.codes]
        rows = np.flatnonzero(place >= 0)
        into[rows, place[rows]] = 1
        # With an indicator for the others, an unseen category is nothing to report.
        return 0 if self.other else len(place) - len(rows)


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
        frame: pd.DataFrame | FileColumns,
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
        texts: dict[str, Texts] = {}
        gaps: dict[str, bool] = {}
        dropped = np.zeros(len(frame), dtype=bool)
        for name in names:
            series = frame[name]
            if name in categories or not is_numeric(series):
                texts[name] = texts_of(series, where)
            if missing == "drop":
                dropped |= texts[name].gaps if name in texts else series.isna().to_numpy()
            gaps[name] = missing == "flag" and bool(series.hasnans)
        columns = []
        for name in names:
            if name not in texts:
                columns.append(Column(name, gap=gaps[name]))
                continue
            if name not in categories:
                _expect_words(name, texts[name], where)
            gaps_count = missing in ("mean", "flag")
            columns.append(_find_categories(name, texts[name], ~dropped, gaps_count, where))
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

    def apply(self, frame: pd.DataFrame | FileColumns, where: str = "The table") -> Encoded:
        """Return the table's rows as numbers, in full precision until the owner's scaling."""
        numbers = np.zeros((len(frame), sum(self.blocks)))
        ends = np.cumsum([0, *self.blocks])
        whole = np.ones(len(frame), dtype=bool)
        unseen: dict[str, int] = {}
        read = number_reader(frame, [c.name for c in self.columns if c.categories is None], where)
        for column, start, end in zip(self.columns, ends, ends[1:], strict=False):
            if column.name not in frame.columns:
                names = map(str, frame.columns)
                raise DataError(f"{where}: {unknown('column', column.name, names)}")
            if column.categories is None:
                values = read(column.name)
                gaps = np.isnan(values)
                numbers[:, start] = values
                if column.gap:
                    numbers[:, start + 1] = gaps
            else:
                texts = texts_of(frame[column.name], where)
                gaps = texts.gaps
                if strange := column.categorise(texts, numbers[:, start:end]):
                    unseen[column.name] = strange
            if gaps.any() and self.missing == "refuse":
                raise DataError(
                    f"{where}: feature '{column.name}' is missing or not finite in row "
                    f"{int(np.flatnonzero(gaps)[0]) + 1} ({int(gaps.sum())} rows in all); fill or "
                    f"drop such rows, or choose `missing: mean`, `flag` or `drop`."
                )
            whole &= ~gaps
        return Encoded(numbers, whole, unseen)

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


def _column_of(raw: dict[str, Any]) -> Column:
    names = raw["categories"]
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError
    categories = None if names is None else tuple(names)
    return Column(str(raw["name"]), categories, bool(raw["other"]), bool(raw["gap"]))


def _find_categories(name: str, texts: Texts, used: Array, gaps_count: bool, where: str) -> Column:
    """Return a column of categories: the most frequent ones, and the rest as one.

    used  the rows to look at, as a mask
    """
    held = zip(texts.names, texts.counts(used).tolist(), strict=True)
    counts = {text: count for text, count in held if count}
    rows = sum(counts.values())
    if (rows > 2 and len(counts) == rows) or len(counts) > max(MOST, rows // 2):
        raise DataError(
            f"{where}: feature '{name}' holds {len(counts)} different texts in {rows} rows; "
            f"expected categories that many rows share: leave it out with `features`, or train on "
            f"it as `text` if it is one; write dates as numbers, such as days."
        )
    often = sorted(counts, key=lambda text: (-counts[text], text))[:MOST]
    gap = gaps_count and bool(texts.gaps[used].any())
    return Column(name, tuple(sorted(often)), other=len(counts) > MOST, gap=gap)


def _expect_words(name: str, texts: Texts, where: str) -> None:
    """Raise where most texts are numbers: a typing error makes no categories of numbers."""
    wrong = foreign_numbers(name, texts)
    strange = texts.rows_of([not is_number(text) for text in texts.names])
    if wrong is None and 2 * len(strange) < len(texts) - texts.gaps.sum():
        wrong = f"feature '{name}' holds numbers as text; write them as numbers"
        if len(strange):
            wrong = (
                f"feature '{name}' is not numeric in row {strange[0] + 1} ({len(strange)} rows in "
                f"all), and most of its values are numbers; correct such rows"
            )
    if wrong is not None:
        raise DataError(
            f"{where}: {wrong}, name the column in `categories`, or leave it out with `features`."
        )
