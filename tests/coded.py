"""Errors by their codes: `pytest.raises(ForgetError, check=coded("request-open"))`."""

from __future__ import annotations

from collections.abc import Callable

from unlabel.errors import UnlabelError


def coded(code: str) -> Callable[[UnlabelError], bool]:
    """Return a check that an error has a code."""
    return lambda error: error.code == code
