"""The bench `uneven`: many parties, and parties that hold next to nothing.

Every split is a model of its own, trained from the start, so nothing is shared between levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from unlabel.bench.recipe import Recipe
from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.robustness import Ladder, Level, RobustnessSettings
from unlabel.bench.robustness_summary import finish, table
from unlabel.errors import SettingsError

NAME = "uneven"


@dataclass(frozen=True)
class UnevenSettings(RobustnessSettings):
    """Settings of the bench.

    splits  each a number of parties, or the widths of their parts joined by +
    """

    splits: tuple[str, ...] = ("2", "7+1", "6+1+1", "4", "8")

    def __post_init__(self) -> None:
        super().__post_init__()
        for split in self.splits:
            widths_of(split)


def widths_of(split: str) -> tuple[int, ...]:
    """Return the widths that a split names, none where it names a number of parties.

    >>> widths_of("26+2"), widths_of("8")
    ((26, 2), ())
    """
    parts = split.split("+")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(
            f"Expected `splits` to be numbers of parties, or widths joined by +, but got '{split}'."
        )
    return tuple(map(int, parts)) if len(parts) > 1 else ()


def recipe_of(settings: UnevenSettings, split: str) -> Recipe:
    """Return the recipe with a split."""
    widths = widths_of(split)
    return replace(settings, widths=widths, parties=len(widths) if widths else int(split))


def run(settings: UnevenSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train and forget at every split."""
    levels = [Level(split, recipe_of(settings, split)) for split in settings.splits]
    lines = Ladder(NAME, settings, say, apart=True).climb(levels)
    return finish(settings, NAME, "split", [level.name for level in levels], lines)


BENCHES.add(
    NAME, Bench("forgetting with many parties, and with uneven ones", UnevenSettings, run, table)
)
