"""Columns of a table as numbers: amounts as they are, categories as marks, gaps as was chosen.

    amount    x                        one number, and with `flag` another: 1 where x is missing
    category  1[x = c_1] .. 1[x = c_n]  one mark a category, the categories in sorted order

Which categories there are may tell more than any number does. An encoding is made on its owner's
side from the owner's whole table, so that it says nothing about who else has which rows, and stays
there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unlabel.data.cells import amounts_of, foreign_numbers, holds_amounts, is_number, texts_of
from unlabel.data.dataset import Array
from unlabel.data.marks import Column, Encoded
from unlabel.errors import CheckpointError, DataError, unknown
from unlabel.files import OWNER_ONLY, write_atomically, writing

if TYPE_CHECKING:
    import pandas as pd

Missing = Literal["refuse", "mean", "flag", "drop"]
CHOICES = "`missing: mean`, `flag` or `drop`"
#: Categories of one column that get a mark of their own, the most frequent ones.
MOST = 32
#: Where a party keeps its encoding.
FILE = "encoding.json"


@dataclass(frozen=True)
class Encoding:
    """How the columns of one party's table become numbers.

    missing  refuse missing values, take the mean of the training rows, mark them beside (flag),
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
        whole = np.ones(len(frame), dtype=bool)
        if missing == "drop":
            whole = ~_gaps(frame, names, where)
        columns = []
        for name in names:
            series = frame[name]
            if name not in categories and holds_amounts(series):
                gap = missing == "flag" and bool(series.isna().any())
                columns.append(Column(name, gap=gap))
                continue
            every = texts_of(series, where)
            if name not in categories:
                _expect_words(name, every, where)
            texts = [text for text, kept in zip(every, whole, strict=True) if kept]
            columns.append(_find_categories(name, texts, missing in ("mean", "flag"), where))
        return cls(missing, tuple(columns))

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many numbers each column becomes."""
        return tuple(len(column.marks()) for column in self.columns)

    @property
    def marks(self) -> Array:
        """Whether each number is a mark, which no scaling should touch, or an amount."""
        return np.array([mark for column in self.columns for mark in column.marks()], dtype=bool)

    def categories(self) -> tuple[str, ...]:
        """Return the names of the columns that hold categories."""
        return tuple(column.name for column in self.columns if column.categories is not None)

    def is_plain(self) -> bool:
        """Return whether the table is numbers already, and there is nothing to remember."""
        return self.missing == "refuse" and not self.categories()

    def may_miss(self) -> bool:
        """Return whether amounts may be missing."""
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
                values = amounts_of(series, where)
                gaps = np.isnan(values)
                parts.append(column.amounts(values))
            else:
                texts = texts_of(series, where)
                gaps = np.array([text is None for text in texts], dtype=bool)
                marks, strange = column.categorise(texts)
                parts.append(marks)
                if strange:
                    unseen[column.name] = strange
            if gaps.any() and self.missing == "refuse":
                raise DataError(
                    f"{where}: feature '{column.name}' is missing or not finite in row "
                    f"{int(np.flatnonzero(gaps)[0]) + 1} ({int(gaps.sum())} rows in all); fill or "
                    f"drop such rows, or choose {CHOICES}."
                )
            whole &= ~gaps
        return Encoded(np.concatenate(parts, axis=1), whole, unseen)

    def kept(self, found: Encoded, where: str = "The table") -> Array:
        """Return the places of the rows that are used: all, or those that miss nothing."""
        if self.missing != "drop":
            return np.arange(len(found.whole))
        if not found.whole.any():
            raise DataError(
                f"{where}: every row misses a value, so `missing: drop` leaves none; choose `mean` "
                f"or `flag`, or leave a column out."
            )
        return np.flatnonzero(found.whole)

    def expect_same(
        self, names: Sequence[str] | None, categories: Sequence[str], missing: Missing, where: str
    ) -> None:
        """Raise where other settings are asked for now than the encoding was made with.

        names  of the features, or None for whatever they were
        """
        own = [column.name for column in self.columns]
        if missing != self.missing:
            raise DataError(
                f"{where}: this run encodes its columns with `missing: {self.missing}`, not "
                f"'{missing}'; put the setting back."
            )
        if names is not None and list(names) != own:
            raise DataError(
                f"{where}: this run was made with the features {', '.join(own)[:200]}, in this "
                f"order; put `features` back."
            )
        for name in categories:
            if name not in self.categories():
                raise DataError(
                    f"{where}: column '{name}' is no category in this run; put `categories` back."
                )

    def keep(self, folder: Path) -> None:
        """Keep the encoding in its owner's folder, where there is anything to remember."""
        if self.is_plain():
            with writing(folder / FILE):
                (folder / FILE).unlink(missing_ok=True)  # one of an earlier table
            return
        text = json.dumps({"missing": self.missing, "columns": list(map(asdict, self.columns))})
        write_atomically(folder / FILE, text.encode(), mode=OWNER_ONLY)


def kept_encoding(folder: Path) -> Encoding | None:
    """Return the encoding that a party kept in its folder, if there is one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        raw = json.loads(path.read_bytes())
        columns = tuple(_column(each) for each in raw["columns"])
        if raw["missing"] not in ("refuse", "mean", "flag", "drop"):
            raise ValueError
        return Encoding(raw["missing"], columns)
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(
            f"'{path}' is damaged: it says how this party's columns become numbers; restore it "
            f"from a backup."
        ) from error


def _column(raw: dict[str, Any]) -> Column:
    names = raw["categories"]
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError
    categories = None if names is None else tuple(names)
    return Column(str(raw["name"]), categories, bool(raw["other"]), bool(raw["gap"]))


def _find_categories(
    name: str, texts: Sequence[str | None], gaps_count: bool, where: str
) -> Column:
    """Return the marks of a column of categories: the most frequent ones, and the rest as one."""
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
    """Raise where most texts are numbers: a slip of the pen makes no categories of amounts."""
    wrong = foreign_numbers(name, texts)
    if wrong is not None:
        raise DataError(
            f"{where}: {wrong}, name the column in `categories`, or leave it out with `features`."
        )
    strange = [row for row, text in enumerate(texts) if text is not None and not is_number(text)]
    if 2 * len(strange) < sum(text is not None for text in texts):
        raise DataError(
            f"{where}: feature '{name}' is not numeric in row {strange[0] + 1} ({len(strange)} "
            f"rows in all), and most of its values are numbers; correct such rows, name the column "
            f"in `categories`, or leave it out with `features`."
            if strange
            else f"{where}: feature '{name}' holds numbers as text; write them as numbers, name "
            f"the column in `categories`, or leave it out with `features`."
        )


def _gaps(frame: pd.DataFrame, names: Sequence[str], where: str) -> Array:
    """Return which rows miss a value of any of the columns."""
    gaps = np.zeros(len(frame), dtype=bool)
    for name in names:
        series = frame[name]
        if holds_amounts(series):
            gaps |= series.isna().to_numpy()
        else:
            gaps |= np.array([text is None for text in texts_of(series, where)])
    return gaps
