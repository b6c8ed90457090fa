"""Benches by name: each is a dataclass of settings and a function from them to plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unlabel.registry import Registry


@dataclass(frozen=True)
class Bench:
    """A measurement with a name.

    about     one line for people
    settings  the dataclass of its settings; its fields become the flags of the command
    run       measures; it is given the settings and a function to report progress to
    table     the result as rows for people, the first row being the heading
    """

    about: str
    settings: type[Any]
    run: Callable[[Any, Callable[[str], None]], dict[str, Any]]
    table: Callable[[dict[str, Any]], list[list[str]]]


BENCHES: Registry[Bench] = Registry("bench", package="unlabel.bench")
