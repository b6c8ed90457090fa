"""A part of the report: what is shown, how to read it, the pictures and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unlabel.report.wording import MODEL_NAMES

#: Models that are drawn beside each other; where it matters, the mask control comes in between.
COMPARED = ("original", "forgotten", "retrained")
#: How the name of a sign begins that is a model's mark, or its bar.
MARK, BAR = "m-", "bar-"


@dataclass(frozen=True)
class Table:
    """The numbers of a picture, for who cannot see it or wants to know exactly."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A part of the report.

    key          a word for links
    explanation  sentences: what is shown and how to read it
    legend       what the signs in the pictures mean: (class of the style sheet, words)
    pictures     with a caption each
    missing      why there is no picture, where there is none
    """

    key: str
    heading: str
    explanation: tuple[str, ...]
    legend: tuple[tuple[str, str], ...] = ()
    pictures: tuple[tuple[str, Markup], ...] = ()
    table: Table | None = None
    missing: str = ""


def model_signs(models: Sequence[str], kind: str = MARK) -> tuple[tuple[str, str], ...]:
    """Return the legend of some models that are drawn as marks or as bars."""
    return tuple((f"{kind}{model}", MODEL_NAMES[model]) for model in models)


def named(models: Sequence[str]) -> str:
    """Return the names of some models within a sentence."""
    return ", ".join(MODEL_NAMES[model].lower() for model in models)
