"""Words in and out: settings from NAME=VALUE, amounts for people; Python's own library alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Literal, get_origin, get_type_hints

from unlabel.errors import SettingsError, unknown


def parse_settings(kind: type[Any], given: Sequence[str], start: Any = None) -> Any:
    """Return settings of a kind with the given ones changed, the others as in `start`.

    >>> from unlabel_bench.speed.split_overhead import SplitOverheadSettings
    >>> parse_settings(SplitOverheadSettings, ["parties=1,2", "rows=512"]).parties
    (1, 2)
    """
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    changes: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals:
            raise SettingsError(f"Expected a setting like {known[0]}=VALUE but got '{word}'.")
        if name not in known:
            raise SettingsError(unknown("setting", name, known))
        changes[name] = _read(name, text, hints[name])
    return kind(**changes) if start is None else replace(start, **changes)


def _read(name: str, text: str, hint: Any) -> Any:
    try:
        if hint == tuple[int, ...]:
            return tuple(int(part) for part in text.split(","))
        if hint == tuple[float, ...]:
            return tuple(float(part) for part in text.split(","))
        if hint == tuple[str, ...]:
            return tuple(part for part in text.split(",") if part)
        if get_origin(hint) is Literal:
            return text  # the settings themselves say what they accept
        if hint is bool:
            return {"true": True, "false": False}[text]
        return hint(text)
    except (ValueError, KeyError) as error:
        wanted = "true or false" if hint is bool else getattr(hint, "__name__", str(hint))
        raise SettingsError(f"Expected `{name}` to be {wanted} but got '{text}'.") from error


def amount(count: float) -> str:
    """Return a number of bytes as text for people.

    >>> amount(0), amount(1_234_567)
    ('0 B', '1.2 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def printable(text: str) -> str:
    """Return somebody else's words without what could move a cursor or begin a line of a log.

    >>> printable("fine\\x1b[2J\\nforged line")
    'fine?[2J?forged line'
    """
    return "".join(mark if mark.isprintable() else "?" for mark in text)
