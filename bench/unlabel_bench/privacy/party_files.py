"""What lies in a party's folder after a request: sizes, counts, and words that name a label.

A request may be hidden in every message and still be told by a file: a ledger whose note is a
letter longer, a version of another size, a line more in a transcript.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel.errors import DataError

#: Files that are read; of all others only the size is looked at.
READ = (".json", ".jsonl", ".log", ".txt")


@dataclass(frozen=True)
class PartyFiles:
    """What an attacker reads in a party's files.

    figures  sizes and counts, by name
    texts    every piece of text that stands in them, numbers left out
    """

    figures: dict[str, float]
    texts: tuple[str, ...]


def files_view(folder: Path, also: Sequence[Path] = ()) -> PartyFiles:
    """Return what a party's subfolder of a run tells, and files that all parties are given.

    folder  RUN/PARTY: ledger, transcript, versions, what is staged, logs
    also    for example the run's certificate
    """
    if not folder.is_dir():
        raise DataError(f"Expected the folder of a party but found none at '{folder}'.")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = [(path.relative_to(folder).as_posix(), path) for path in files]
    named += [(path.name, path) for path in also]
    figures: dict[str, float] = {"files": float(len(named))}
    texts: list[str] = []
    for name, path in named:
        figures[f"size {name}"] = float(path.stat().st_size)
        if path.suffix not in READ:
            continue
        content = path.read_text(encoding="utf-8", errors="replace")
        lines = content.splitlines() if path.suffix != ".json" else [content]
        figures[f"lines {name}"] = float(len(content.splitlines()))
        for line in lines:
            values = list(walk(line))
            texts += [value for _, value in values if isinstance(value, str)]
            for key, value in values:
                place = f"length {name} {key}"
                figures[place] = figures.get(place, 0.0) + len(str(value))
    return PartyFiles(figures, tuple(texts))


def walk(text: str) -> Iterator[tuple[str, Any]]:
    """Yield every value of a JSON text, with the key it stands under.

    Text that is JSON itself, as a note in a message is, is looked into; what is no JSON is one
    value.

    >>> list(walk('{"note": "{\\\\"labels\\\\": [\\\\"cat\\\\"]}", "at": 3}'))
    [('labels', 'cat'), ('at', 3)]
    """
    yield from _walk("", text)


def _walk(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(str(name), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(key, inner)
    elif isinstance(value, str) and value[:1] in ("{", "["):
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            yield key, value
        else:
            yield from _walk(key, inner)
    else:
        yield key, value


def mentions(texts: Sequence[str], names: Sequence[str]) -> list[float]:
    """Return how often each label's name is a whole value among texts.

    >>> mentions(["cat", "3f", "cat"], ["dog", "cat"])
    [0.0, 2.0]
    """
    return [float(sum(text == name for text in texts)) for name in names]
