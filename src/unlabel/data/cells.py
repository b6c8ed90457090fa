"""The cells of a table's column: numbers, or texts in the one form that a category has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from unlabel.data.column_files import FileColumns

#: Rows up to which columns are read together; of more that would cost memory and save nothing.
FEW = 1024
#: A whole number that a gap in its column turned into a fraction, and how a truth value is written.
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
#: A time in whole seconds, as a unit of fractions of one writes it.
_SECOND = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.0+")
_TRUTH = {"true": "True", "false": "False"}
#: Thousands are set apart by a point, a blank (also one that does not break) or an apostrophe where
#: decimals have a comma, and by a comma, a blank or an apostrophe where they have a point.
_APART = " \u00a0\u202f'\u2019"
_DECIMAL_COMMA = re.compile(
    rf"[+-]?(\d+|\d{{1,3}}([.{_APART}]\d{{3}})+),\d+([eE][+-]?\d+)?|[+-]?\d{{1,3}}(\.\d{{3}}){{2,}}"
)
#: A number beyond this is compared as it is written.
MOST = Decimal(10) ** 40
_THOUSANDS = re.compile(rf"[+-]?\d{{1,3}}([,{_APART}]\d{{3}})+(\.\d+)?")


def is_number(text: str) -> bool:
    """Return whether a text is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_foreign_number(text: str) -> bool:
    """Return whether a text is a number with a decimal comma or with thousands set apart.

    >>> [is_foreign_number(text) for text in ("3,14", "1.234,56", "1,234,567", "1 234")]
    [True, True, True, True]
    >>> [is_foreign_number(text) for text in ("3.14", "1,2,3", "1,a", ",")]
    [False, False, False, False]
    """
    return bool(_DECIMAL_COMMA.fullmatch(text) or _THOUSANDS.fullmatch(text))


@dataclass(frozen=True)
class Texts:
    """A column of texts, each different one held once.

    names  in the order in which they first come
    codes  [n] the place of each row's text among them, -1 where it is missing
    """

    names: tuple[str, ...]
    codes: Array

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def gaps(self) -> Array:
        """Whether the text of each row is missing."""
        gaps: Array = self.codes < 0
        return gaps

    def counts(self, rows: Array | None = None) -> Array:
        """Return how many rows have each text, of all or of those in a mask."""
        codes = self.codes if rows is None else self.codes[rows]
        return np.bincount(codes[codes >= 0], minlength=len(self.names))

    def rows_of(self, chosen: Sequence[bool]) -> Array:
        """Return the rows whose text is chosen, by a mark a text."""
        return np.flatnonzero(np.array([*chosen, False])[self.codes])  # -1 is the last


def foreign_numbers(name: object, texts: Texts) -> str | None:
    """Return what is wrong with a column, most of whose values are such numbers or plain ones.

    None where nothing is. A value such as 1,234 is one number with a decimal comma and another with
    thousands set apart, so it is left to the owner to write it anew.
    """
    foreign = [is_foreign_number(text) for text in texts.names]
    rows = texts.rows_of(foreign)
    plain = len(texts.rows_of([is_number(text) for text in texts.names]))
    if not len(rows) or 2 * (len(rows) + plain) <= len(texts) - texts.gaps.sum():
        return None
    row, text = int(rows[0]), texts.names[texts.codes[rows[0]]]
    commas = all(
        "," in text for text, is_foreign in zip(texts.names, foreign, strict=True) if is_foreign
    )
    kind = "a comma" if commas else "a decimal comma or thousands set apart"
    return (
        f"feature '{name}' holds numbers with {kind}, such as '{text}' in row {row + 1} "
        f"({len(rows)} rows in all); write decimals with a point and thousands with nothing "
        f"between (1234.56)"
    )


def is_numeric(series: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers."""
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(series.dtype))


def numbers_of(series: pd.Series[Any], where: str) -> Array:
    """Return a column of numbers, NaN where one is missing; truth values are 0 and 1."""
    if not is_numeric(series):
        held = series.dropna()
        if not all(isinstance(value, bool | np.bool_) for value in held):
            wrong = foreign_numbers(series.name, texts_of(series, where))
            wrong = wrong or f"feature '{series.name}' is not numeric"
            raise DataError(f"{where}: {wrong}; it was a column of numbers when the run began.")
        series = series.astype("boolean")
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    gaps = series.isna().to_numpy()
    with np.errstate(over="ignore"):  # too large for the models' float32 is reported here
        bad = ~np.isfinite(values.astype(np.float32)) & ~gaps
    if bad.any():
        raise DataError(
            f"{where}: feature '{series.name}' is missing or not finite in row "
            f"{int(np.flatnonzero(bad)[0]) + 1} ({int(bad.sum())} rows in all); numbers must be "
            f"finite and fit the models' float32."
        )
    return np.where(gaps, np.nan, values)


def number_reader(
    frame: pd.DataFrame | FileColumns, names: list[str], where: str
) -> Callable[[str], Array]:
    """Return what reads columns as numbers by name; a few rows at once, which is far quicker."""
    import pandas as pd

    plain: dict[str, Array] = {}
    if isinstance(frame, pd.DataFrame) and len(frame) <= FEW and set(names) <= {*frame}:
        some = frame[names]
        if all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in some.dtypes):
            values = some.to_numpy(np.float64)
            with np.errstate(over="ignore"):
                fits = np.isfinite(values.astype(np.float32)) | np.isnan(values)
            if fits.all():  # else the one that does not is named below
                plain = dict(zip(names, np.where(np.isnan(values), np.nan, values).T, strict=True))
    return lambda name: plain[name] if name in plain else numbers_of(frame[name], where)


def texts_of(series: pd.Series[Any], where: str) -> Texts:
    """Return a column of categories as texts in one form."""
    import pandas as pd

    kinds = pd.api.types
    if not (
        kinds.is_object_dtype(series)
        or kinds.is_string_dtype(series)
        or kinds.is_numeric_dtype(series)
        or isinstance(series.dtype, pd.CategoricalDtype)
    ):
        raise DataError(
            f"{where}: feature '{series.name}' is of type {series.dtype}, neither a number nor a "
            f"category; write it as one of them or leave it out with `features`."
        )
    codes, values = _distinct(series)
    for value in values:
        if not isinstance(value, str | bool | int | float):
            raise DataError(
                f"{where}: feature '{series.name}' is not numeric, and holds objects of type "
                f"{type(value).__name__} in place of categories; leave it out with `features`."
            )
    texts = [_text(value) for value in values]
    names = tuple(dict.fromkeys(text for text in texts if text is not None))
    places = {name: place for place, name in enumerate(names)} | {None: -1}
    return Texts(names, np.array([*(places[text] for text in texts), -1])[codes])


def _distinct(series: pd.Series[Any]) -> tuple[Array, list[Any]]:
    """Return the place of each row's value among the different ones, and these; -1 where none is.

    Values of different types are different, and so are 0.0 and -0.0.
    """
    import pandas as pd

    kinds, gaps = pd.api.types, series.isna().to_numpy()
    if kinds.is_float_dtype(series):
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        codes, bits = pd.factorize(numbers.view(np.int64))
        return np.where(gaps, -1, codes), bits.view(np.float64).tolist()
    if kinds.is_object_dtype(series):
        held = series[~gaps].tolist()
        if set(map(type, held)) - {str}:
            keys: dict[tuple[type, Any], int] = {}
            codes = np.full(len(series), -1)
            codes[~gaps] = [keys.setdefault((type(v), str(v)), len(keys)) for v in held]
            values: dict[int, Any] = dict(zip(codes[~gaps].tolist(), held, strict=True))
            return codes, [values[code] for code in range(len(keys))]
    codes, distinct = pd.factorize(series)
    return np.where(gaps, -1, codes), distinct.tolist()


def one_form(text: str | None) -> str:
    """Return a text in the one form that a category has, empty where there is none.

    >>> one_form("1.0"), one_form(" yes "), one_form(None)
    ('1', 'yes', '')
    """
    return "" if text is None else _text(text) or ""


def label_form(text: str) -> str:
    """Return a label in the one form in which labels are compared, empty where there is none.

    A gap in a column, or another spelling, does not make another label of a number, nor does the
    unit of a column of another time.

    >>> [label_form(text) for text in ("1", "1.0", "+01", "0.10", " a  b ", "")]
    ['1', '1', '1', '0.1', 'a b', '']
    >>> label_form("2020-01-01T00:00:00.000")
    '2020-01-01T00:00:00'
    """
    text = _SECOND.sub(r"\1", " ".join(unicodedata.normalize("NFC", text).split()))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return one_form(text)
    return f"{number.normalize():f}" if number.is_finite() and abs(number) < MOST else text


def label_reader(names: Sequence[str]) -> Callable[[str], str | None]:
    """Return what tells which of some labels a cell means, None where it is none of them.

    Runs of earlier versions may have two that share a form: what is written exactly goes first.

    >>> read = label_reader(("01", "1", "gold card"))
    >>> [read(cell) for cell in ("01", "1.0", "gold  card", "2", "")]
    ['01', '1', 'gold card', None, None]
    """
    known = {label_form(name): name for name in names} | {name: name for name in names}
    return lambda cell: known[cell] if cell in known else known.get(label_form(cell))


def expect_apart(names: Sequence[str]) -> None:
    """Raise where two labels differ only in how they are written: they are compared as one."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(label_form(name), name)
        if other != name:
            raise DataError(
                f"Labels '{other}' and '{name}' differ only in how they are written, so forgetting "
                f"one would forget the other; write them in one way, or name them apart."
            )


def _text(value: str | bool | int | float) -> str | None:
    """Return a category in the one form it has, however its file writes it.

    >>> _text(1), _text(1.0), _text("1.0"), _text(" true "), _text(True), _text("  ")
    ('1', '1', '1', 'True', 'True', None)
    """
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return (whole[1] if whole else _TRUTH.get(text.lower(), text)) or None
