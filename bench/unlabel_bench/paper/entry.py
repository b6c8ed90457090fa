"""A table or figure of the paper as data: what it shows, what measures it, what we have of it.

All of them stand in `entries.json`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from unlabel.config.data import is_file_name
from unlabel.errors import SettingsError, unknown
from unlabel_bench.paper.tables import read

Status = Literal["reproduced", "real data, small form", "stand-in data", "small only"]
#: What a status says, for people.
STATUSES: dict[Status, str] = {
    "reproduced": "recorded on the paper's data, in the copy and split that the part names, "
    "and its model; whether figures agree stands under each",
    "real data, small form": "recorded on the paper's data, with a smaller model and fewer rows or "
    "epochs, which are named",
    "stand-in data": "recorded in part, or on other data, which is named",
    "small only": "runs in its small form; no record of a whole run",
}


#: Which records there are, beside this file: an installed package has no folder of results.
RECORDED = "records.json"


@cache
def recorded() -> frozenset[str]:
    """Return the records that this version of the package comes with, by their paths."""
    return frozenset(read(RECORDED))


@dataclass(frozen=True)
class Run:
    """A bench with its settings.

    name    of the run within its entry
    bench   by name
    words   settings as NAME=VALUE
    sample  the file of small data that is written before it, if it reads one
    """

    name: str
    bench: str
    words: tuple[str, ...] = ()
    sample: str = ""

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
    ours: str = ""
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

    name     by which it is run
    where    what the paper calls it
    labels   by which its source names it, sub-figures too
    title    what it shows, in our words
    parts    what a whole run consists of
    small    what stands for them on two cores, on data that everybody has
    claim    what the paper reads from it
    differs  what is different here, and why
    """

    name: str
    where: str
    labels: tuple[str, ...]
    title: str
    parts: tuple[Part, ...]
    small: tuple[Run, ...]
    claim: str
    differs: str = ""

    def status(self) -> Status:
        """Return the status of the whole: reproduced where every part is, small where none is."""
        statuses = {part.status for part in self.parts}
        return statuses.pop() if len(statuses) == 1 else "stand-in data"

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


def _run(data: dict[str, Any], recipes: dict[str, str]) -> Run:
    words: list[str] = []
    for word in data.get("settings", "").split():
        words += recipes[word[1:]].split() if word.startswith("$") else [word]
    return Run(data["name"], data["bench"], tuple(words), data.get("sample", ""))


def _part(data: dict[str, Any], recipes: dict[str, str], reasons: dict[str, str]) -> Part:
    known = {f.name for f in fields(Part)} & data.keys() - {"reason", "table"}
    return Part(
        run=_run(data, recipes),
        **{name: data[name] for name in known},
        table=tuple(data["table"]) if "table" in data else None,
        reason=re.sub(r"\$(\w+)", lambda match: reasons[match[1]], data.get("reason", "")),
    )


def _entry(data: dict[str, Any], recipes: dict[str, str], reasons: dict[str, str]) -> Entry:
    return Entry(
        **{name: data[name] for name in ("name", "where", "title", "claim")},
        labels=tuple(data["labels"]),
        parts=tuple(_part(part, recipes, reasons) for part in data["parts"]),
        small=tuple(_run(run, recipes) for run in data["small"]),
        differs=data.get("differs", ""),
    )


def _entries() -> dict[str, Entry]:
    """Read all entries; `$NAME` in settings stands for a recipe, in a reason for a shared one."""
    data = read("entries.json")
    return {x["name"]: _entry(x, data["recipes"], data["reasons"]) for x in data["entries"]}


#: All entries by name, tables first and then figures, as the paper numbers them.
ENTRIES = _entries()


def entry_of(name: str) -> Entry:
    """Return an entry by name, or say which there are."""
    if name not in ENTRIES:
        raise SettingsError(unknown("table or figure of the paper", name, ENTRIES))
    return ENTRIES[name]
