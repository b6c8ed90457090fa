"""A part of the report: what is shown, how to read it, the pictures and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unlabel.report.words import MODEL_NAMES

#: Models that are drawn beside each other; where it matters, the mask control comes in between.
COMPARED = ("original", "forgotten", "retrained")
#: How the name of a sign begins that is a model's bar, where others are its mark.
BAR = "bar-"


@dataclass(frozen=True)
class Table:
    """The numbers of a picture, for who cannot see it or wants to know exactly."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chapter:
    """A part of the report.

    key      a word for links
    reading  sentences: what is shown and how to read it
    signs    what the picture's signs mean: (class of the style sheet, words)
    drawn    pictures with a caption each
    missing  why there is no picture, where there is none
    """

    key: str
    heading: str
    reading: tuple[str, ...]
    signs: tuple[tuple[str, str], ...] = ()
    drawn: tuple[tuple[str, Markup], ...] = ()
    table: Table | None = None
    missing: str = ""


def model_signs(models: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the legend of some models."""
    return tuple((f"m-{model}", MODEL_NAMES[model]) for model in models)


def bar_signs(models: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the legend of some models that are drawn as bars."""
    return tuple((f"{BAR}{model}", MODEL_NAMES[model]) for model in models)


def named(models: Sequence[str]) -> str:
    """Return the names of some models within a sentence."""
    return ", ".join(MODEL_NAMES[model].lower() for model in models)
