"""The cells of a table's column: numbers, or texts in the one form that a category has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

#: A whole number that a gap in its column turned into a fraction, and how a truth value is written.
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_TRUTH = {"true": "True", "false": "False"}


def is_number(text: str) -> bool:
    """Return whether a text is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def holds_amounts(series: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers."""
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(series))


def amounts_of(series: pd.Series[Any], where: str) -> Array:
    """Return a column of numbers, NaN where one is missing; truth values are 0 and 1."""
    if not holds_amounts(series):
        held = series.dropna()
        if not all(isinstance(value, bool | np.bool_) for value in held):
            raise DataError(
                f"{where}: feature '{series.name}' is not numeric; it was a column of numbers when "
                f"the run began."
            )
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


def texts_of(series: pd.Series[Any], where: str) -> list[str | None]:
    """Return a column of categories as texts in one form, None where one is missing."""
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
    gaps = series.isna().to_numpy()
    named: dict[object, str | None] = {}
    texts: list[str | None] = []
    for value, gap in zip(series.tolist(), gaps, strict=True):
        if gap:
            texts.append(None)
            continue
        if not isinstance(value, str | bool | int | float):
            raise DataError(
                f"{where}: feature '{series.name}' is not numeric, and holds objects of type "
                f"{type(value).__name__} in place of categories; leave it out with `features`."
            )
        key = (type(value), value)
        if key not in named:
            named[key] = _text(value)
        texts.append(named[key])
    return texts


def _text(value: str | bool | int | float) -> str | None:
    """Return a category in the one form it has, however its file writes it.

    >>> _text(1), _text(1.0), _text("1.0"), _text(" true "), _text(True), _text("  ")
    ('1', '1', '1', 'True', 'True', None)
    """
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return (whole[1] if whole else _TRUTH.get(text.lower(), text)) or None
