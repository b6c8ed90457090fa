"""Plain data, as it is when read from JSON: dictionaries, lists, texts and numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def number(value: Any, name: str) -> Any:
    """Return a number of plain data as it is, None where there is none."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"`{name}` is no number")


def plain_data(made: DataclassInstance) -> dict[str, Any]:
    """Return a dataclass, and all within it, as plain data."""
    found = _listed(asdict(made))
    assert isinstance(found, dict)
    return found


def _listed(value: Any) -> Any:
    """Return the same with lists in place of tuples."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value
