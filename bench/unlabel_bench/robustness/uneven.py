"""The bench `uneven`: many parties, and parties that hold next to nothing.

Every split is a model of its own, trained from the start, so nothing is shared between levels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from unlabel.errors import SettingsError
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.levels import Circumstance, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, climb

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


def measure(settings: UnevenSettings, say: Say) -> Result:
    """Train and forget at every split."""
    levels = [Circumstance(split, recipe_of(settings, split)) for split in settings.splits]
    return climb(NAME, "split", settings, say, levels, apart=True)


add_bench(NAME, "forgetting with many parties, and with uneven ones", UnevenSettings, measure)
