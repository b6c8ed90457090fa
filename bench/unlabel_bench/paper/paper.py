"""Every table and figure of the paper by name: measured whole, or small on two cores.

Nothing is measured here: an entry names benches and their settings, and this runs them, puts
their files beside each other, and sets their figures beside the paper's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from unlabel.errors import DataError, SettingsError, unknown
from unlabel.files import write_atomically
from unlabel.words import parse_settings
from unlabel_bench.drawing import can_draw, draw
from unlabel_bench.paper.entry import ENTRIES, Entry, Part, Run, entry_of
from unlabel_bench.paper.figures import FIGURES
from unlabel_bench.paper.page import page
from unlabel_bench.paper.small_data import write_small
from unlabel_bench.registry import BENCHES, Bench, Result, Say

ALL = "all"
#: Models whose steps are worth fewer bits and fewer launches, and the settings that make them so
#: where there is a GPU.
DEEP, GPU = {"model=resnet18", "model=vgg16"}, ("precision=bf16", "graphs=true")
#: Files that stand beside the JSON, by the setting that names them.
BESIDE = {"records": ".jsonl", "page": ".md", "picture": ".png"}


@dataclass(frozen=True)
class PaperSettings:
    """Settings of the bench.

    entry   a table or figure of the paper by name, or all of them
    small   measure its small form, on data that everybody has
    parts   some of its parts, by name; all of them if not given
    seeds   how many seeds, where the bench has some; 0 is as many as the entry says
    folder  where the files of the data lie; no part of what is recorded
    given   data of parts as PART=FILE, or PART=FOLDER; only their names are recorded
    more    settings for every run, as NAME=VALUE between semicolons
    out     JSON file beside which records, pages and pictures are kept
    """

    entry: str = ALL
    small: bool = False
    parts: tuple[str, ...] = ()
    seeds: int = 0
    folder: str = ""
    given: tuple[str, ...] = ()
    more: str = ""
    out: str = ""


def measure(settings: PaperSettings, say: Say) -> Result:
    """Measure an entry, or all; return what was found and how long it took."""
    if settings.entry == ALL:
        return _all(settings, say)
    entry = entry_of(settings.entry)
    runs = planned(entry, settings)
    started = time.monotonic()
    parts: list[dict[str, Any]] = []
    for one in runs:
        begun = time.monotonic()
        bench = BENCHES.get(one.bench)
        chosen = parse_settings(
            bench.settings, one.chosen(*_beside(bench, one, settings, len(runs)))
        )
        result = bench.run(chosen, lambda text, of=one.name: say(f"{of}: {text}"))  # type: ignore[misc]
        seconds = time.monotonic() - begun
        words = [word for word in one.chosen() if not word.startswith("folder=")]
        parts.append(
            {
                "part": one.name,
                "bench": one.bench,
                "settings": words,
                "took_seconds": seconds,
                "result": result,
            }
        )
    result = {
        "entry": entry.name,
        "where": entry.where,
        "title": entry.title,
        "status": entry.status(),
        "small": settings.small,
        "took_seconds": time.monotonic() - started,
        "parts": parts,
    }
    if settings.out:
        write_atomically(Path(settings.out).with_suffix(".md"), page(entry, result).encode())
        if entry.name in FIGURES and can_draw():
            summaries = {part["part"]: part["result"]["summary"] for part in parts}
            path = Path(_beside_all(settings.out, "figure")).with_suffix(".png")
            draw(FIGURES[entry.name](summaries), path)
    return result


def _all(settings: PaperSettings, say: Say) -> Result:
    """Measure one entry after another, each into files of its own."""
    if settings.parts or settings.given:
        raise SettingsError("Expected `parts` and `given` of one entry but got them for all.")
    started, results = time.monotonic(), []
    for name in ENTRIES:
        chosen = replace(settings, entry=name, out=_beside_all(settings.out, name))
        results.append(measure(chosen, lambda text, of=name: say(f"{of}, {text}")))  # type: ignore[misc]
    return {
        "entry": ALL,
        "small": settings.small,
        "entries": results,
        "took_seconds": time.monotonic() - started,
    }


def _beside_all(out: str, name: str) -> str:
    """Return the file of one of several, beside the one for all.

    >>> _beside_all("out/paper.json", "lambda")
    'out/paper-lambda.json'
    """
    return str(Path(out).with_name(f"{Path(out).stem}-{name}.json")) if out else ""


def _beside(bench: Bench, one: Run, settings: PaperSettings, many: int) -> list[str]:
    """Return where a run keeps its records, page and picture; resuming starts from the records."""
    if not settings.out:
        return []
    known = {field.name for field in fields(bench.settings)}
    # The page of the entry itself has the plain name.
    home = Path(_beside_all(settings.out, one.name) if many > 1 else settings.out)
    page = Path(_beside_all(settings.out, one.name))
    return [
        f"{name}={(page if name == 'page' else home).with_suffix(ending)}"
        for name, ending in BESIDE.items()
        if name in known and (name != "picture" or can_draw())
    ]


def planned(entry: Entry, settings: PaperSettings) -> list[Run]:
    """Return the runs of an entry with all their settings; what cannot work is refused here."""
    given = _given(entry, settings)
    if settings.small:
        runs = [_small(one) for one in entry.small]
    else:
        chosen = _chosen(entry, settings.parts)
        missing = [part for part in chosen if not _at_hand(part, given, settings.folder)]
        if missing:
            raise DataError(_missing(entry, missing[0], len(missing)))
        runs = [_whole(part, given, settings.folder) for part in chosen]
    more = tuple(filter(None, settings.more.split(";")))
    return [_tuned(one, settings.seeds, more) for one in runs]


def _chosen(entry: Entry, names: Sequence[str]) -> list[Part]:
    known = {part.name: part for part in entry.parts}
    for name in names:
        if name not in known:
            raise SettingsError(unknown(f"part of '{entry.name}',", name, known))
    return [known[name] for name in names] if names else list(entry.parts)


def _given(entry: Entry, settings: PaperSettings) -> dict[str, Path]:
    """Return the files that were given for parts."""
    known, files = {part.name for part in entry.parts}, {}
    for word in settings.given:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise SettingsError(f"Expected data as PART=FILE but got '{word}'.")
        if name not in known:
            raise SettingsError(unknown(f"part of '{entry.name}',", name, known))
        if not Path(path).exists():
            raise DataError(f"File '{path}' for part '{name}' does not exist: check the path.")
        files[name] = Path(path)
    if settings.small and (files or settings.parts):
        raise SettingsError(
            "Expected no `parts` and `given` where `small` is true: it has its own."
        )
    return files


def _at_hand(part: Part, given: dict[str, Path], folder: str) -> bool:
    """Return whether the data of a part can be read or fetched."""
    if part.name in given or not part.wanted:
        return True
    if part.file:
        return bool(folder) and (Path(folder) / part.file).is_file()
    return bool(folder)


def _missing(entry: Entry, part: Part, many: int) -> str:
    rest = f" ({many - 1} more parts lack theirs)" if many > 1 else ""
    folder = f", or the folder of '{part.official}'" if part.official and part.file else ""
    small = " and ".join(dict.fromkeys(one.name for one in entry.small))
    return (
        f"Part '{part.name}' of '{entry.name}' needs {part.wanted}{folder}{rest}: give it with "
        f"--data {part.name}=PATH or --folder DIR, choose others with --part, or take --small, "
        f"which measures {small}."
    )


def _whole(part: Part, given: dict[str, Path], folder: str) -> Run:
    """Return the whole run of a part, on the data that was given for it."""
    words = []
    if torch.cuda.is_available() and "device" in _known(part.run):
        words += ["device=auto", *(GPU if DEEP & {*part.run.chosen()} else ())]
    place = given.get(part.name)
    if place is not None and place.is_dir():
        words += [f"folder={place}", *([f"data={part.official}"] if part.official else [])]
    elif place is not None:
        words += [f"data={place.name}", f"folder={place.parent}"]
    elif folder and part.wanted:
        words += [f"folder={folder}"]
    return replace(one := _small(part.run), words=one.chosen(*words))


def _small(one: Run) -> Run:
    """Return a run with the file it reads, which is made first."""
    if not one.sample:
        return one
    folder = write_small(one.sample)
    return replace(one, words=one.chosen(f"data={one.sample}", f"folder={folder}"))


def _known(one: Run) -> dict[str, Any]:
    """Return the types of the settings that the bench of a run has, by name."""
    return {field.name: field.type for field in fields(BENCHES.get(one.bench).settings)}


def _tuned(one: Run, seeds: int, more: Sequence[str]) -> Run:
    """Return a run with a number of seeds and further settings, where its bench has them."""
    known = _known(one)
    words = [f"seeds={seeds}"] if seeds and known.get("seeds") in (int, "int") else []
    words += [word for word in more if word.partition("=")[0] in known]
    return replace(one, words=one.chosen(*words))


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the rows of every part; of all entries, how long each took."""
    if result["entry"] == ALL:
        rows = [["name", "where", "status", "seconds"]]
        for each in result["entries"]:
            seconds = f"{each['took_seconds']:.1f}"
            rows.append([each["entry"], each["where"], each["status"], seconds])
        return rows
    tables = [BENCHES.get(x["bench"]).table(x["result"]) for x in result["parts"]]
    if len(tables) == 1:
        return tables[0]
    width = max(len(row) for rows in tables for row in rows)
    named: list[list[str]] = []
    for part, rows in zip(result["parts"], tables, strict=True):
        # The heading of the first stands for all, which are of one bench.
        body = rows if not named else rows[1:]
        named += [[part["part"] if n or named else "part", *row] for n, row in enumerate(body)]
    return [[*row, *[""] * (width + 1 - len(row))] for row in named]


BENCHES.add(
    "paper",
    Bench("a table or figure of the paper by name, whole or small", PaperSettings, measure, table),
)
