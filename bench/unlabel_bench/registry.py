"""Benches by name: each is a dataclass of settings and a function from them to plain data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unlabel.data import SOURCES
from unlabel.files import write_atomically
from unlabel.forget import METHODS
from unlabel.registry import Registry
from unlabel_bench.drawing import Picture, draw, expect_plots

Result = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """A measurement with a name.

    about     one line for people
    settings  the dataclass of its settings; its fields become the flags of the command
    measure   is given the settings and a function to report progress to; returns plain data
    table     the result as rows for people, the first row being the heading
    page      the result as a page in Markdown, where the settings have a `page`
    picture   the result as a picture, where the settings have a `picture`

    Table, page and picture are made from the result and its `settings` alone, so a recorded one
    can be written and drawn again.
    """

    about: str
    settings: type[Any]
    measure: Callable[[Any, Say], Result]
    table: Callable[[Result], list[list[str]]]
    page: Callable[[Result], str] | None = None
    picture: Callable[[Result], Picture] | None = None

    def run(self, settings: Any, say: Say) -> Result:
        """Measure, and write the page and the picture that the settings name."""
        page, picture = (getattr(settings, name, "") for name in ("page", "picture"))
        expect_plots(picture)
        result = self.measure(settings, say)
        shown = {**result, "settings": asdict(settings)}
        if picture and self.picture:
            draw(self.picture(shown), Path(picture))
        if page and self.page:
            write_atomically(Path(page), self.page(shown).encode())
        return result


FOLDERS = ("adversary", "blind", "comparison", "paper", "privacy", "robustness", "speed")
#: Fuzzing, hostile parties and faults are tests that can also be recorded: they lie in the clone.
TESTS = Path(__file__).resolve().parents[2] / "tests"


def packages() -> list[str]:
    """Return the packages whose files register benches."""
    names = [f"unlabel_bench.{folder}" for folder in FOLDERS]
    if (TESTS / "stress").is_dir():
        if str(TESTS) not in sys.path:
            sys.path.append(str(TESTS))
        names.append("stress")
    return names


BENCHES: Registry[Bench] = Registry("bench", package=packages())
# Where the bench runs from source there are no entry points that name these.
METHODS.search("unlabel_bench.methods")
SOURCES.search("unlabel_bench.sources")
