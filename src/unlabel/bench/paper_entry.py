"""A table or figure of the paper as data: what it shows, what measures it, what we have of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from unlabel.data.dataset import is_file_name
from unlabel.registry import Registry

Status = Literal["reproduced", "stand-in data", "small only"]
#: What a status says, for people.
STATUSES: dict[Status, str] = {
    "reproduced": "recorded on the paper's data and model",
    "stand-in data": "recorded in part, or on other data, which is named",
    "small only": "runs in its small form; no record of a whole run",
}


#: Which records there are, beside this file: an installed package has no folder of results.
RECORDED = "paper_records.json"


@cache
def recorded() -> frozenset[str]:
    """Return the records that this version of the package comes with, by their paths."""
    text = files("unlabel.bench").joinpath(RECORDED).read_text(encoding="utf-8")
    return frozenset(json.loads(text))


@dataclass(frozen=True)
class Run:
    """A bench with its settings.

    name   of the run within its entry
    bench  by name
    words  settings as NAME=VALUE
    made   the file of small data that is made before it, if it reads one
    """

    name: str
    bench: str
    words: tuple[str, ...] = ()
    made: str = ""

    def chosen(self, *more: str) -> tuple[str, ...]:
        """Return the settings with others after them; the last of each name counts.

        >>> Run("k", "runtime", ("seed=0", "repeats=2")).chosen("seed=1")
        ('seed=1', 'repeats=2')
        """
        last = {word.partition("=")[0]: word for word in (*self.words, *more)}
        return tuple(last.values())


@dataclass(frozen=True)
class Part:
    """A row of a table, or a curve of a figure: one model on one dataset.

    run       the whole measurement
    model     as the paper calls it
    theirs    the paper's dataset
    ours      what we measure on: the same, or a stand-in by its own name, or nothing
    possible  its status once it is recorded
    record    file in which the measurement is kept, from the root of the repository
    table     where the paper prints its figures: number of labels, model, dataset; None without
    wanted    what a user is to give where the data cannot be fetched
    official  the built-in dataset of the paper, which a user may give as a folder instead
    reason    why an aim is missed by the record, where one is
    """

    run: Run
    model: str
    theirs: str
    ours: str
    possible: Status = "small only"
    record: str = ""
    table: tuple[int, str, str] | None = None
    wanted: str = ""
    official: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """The part's name within its entry."""
        return self.run.name

    @property
    def status(self) -> Status:
        """What we have of it: what is possible, where it is recorded."""
        return self.possible if self.record in recorded() else "small only"

    @property
    def file(self) -> str:
        """The name of the file with the data; empty where the dataset is built in."""
        data = next((w for w in self.run.chosen() if w.startswith("data=")), "")
        name = data.removeprefix("data=")
        return name if is_file_name(name) else ""


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper.

    name    by which it is run
    where   what the paper calls it
    labels  by which its source names it, sub-figures too
    title   what it shows, in our words
    parts   what a whole run consists of
    small   what stands for them on two cores, on data that everybody has
    claim   what the paper reads from it
    told    what differs here, and why
    """

    name: str
    where: str
    labels: tuple[str, ...]
    title: str
    parts: tuple[Part, ...]
    small: tuple[Run, ...]
    claim: str
    told: str = ""

    def status(self) -> Status:
        """Return the status of the whole: reproduced where every part is, small where none is."""
        found = {part.status for part in self.parts}
        return found.pop() if len(found) == 1 else "stand-in data"

    def as_data(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return {
            "name": self.name,
            "where": self.where,
            "title": self.title,
            "status": self.status(),
            "claim": self.claim,
            "parts": [
                {
                    "name": part.name,
                    "model": part.model,
                    "paper_data": part.theirs,
                    "our_data": part.ours,
                    "status": part.status,
                    "record": part.record,
                    "bench": part.run.bench,
                    "settings": list(part.run.chosen()),
                    "wanted": part.wanted,
                }
                for part in self.parts
            ],
            "small": [
                {"name": run.name, "bench": run.bench, "settings": list(run.chosen())}
                for run in self.small
            ],
        }


ENTRIES: Registry[Entry] = Registry("table or figure of the paper", package="unlabel.bench")


def add(entry: Entry) -> Entry:
    """Register an entry under its name."""
    return ENTRIES.add(entry.name, entry)


def in_order() -> list[Entry]:
    """Return all entries, tables first and then figures, as the paper numbers them."""
    found = [ENTRIES.get(name) for name in ENTRIES.names()]
    return sorted(found, key=lambda entry: _place(entry.where))


def _place(where: str) -> tuple[bool, int]:
    kind, number = where.split(" ")
    return kind != "Table", int(number)
