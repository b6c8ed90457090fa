"""Write docs/reproduction.md from the records in results/ and the paper's tables and figures.

It also notes in the package which records there are, so that an installed one can tell the status
of each table and figure without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unlabel_bench import markdown
from unlabel_bench.drawing import draw as draw_picture
from unlabel_bench.markdown import write_page
from unlabel_bench.paper.entry import ENTRIES, RECORDED, STATUSES, Entry, recorded
from unlabel_bench.paper.figures import FIGURES
from unlabel_bench.paper.page import provenance_in_words, section
from unlabel_bench.paper.tables import CITATION
from unlabel_bench.registry import BENCHES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
NOTED = ROOT / "bench" / "unlabel_bench" / "paper" / RECORDED
#: Records of what the paper names as a use of vertical learning and does not measure.
PEOPLE = "results/people_supervised.json"


def there(entries: Iterable[Entry], root: Path = ROOT) -> list[str]:
    """Return the records of the entries that are there, by their paths."""
    named = {part.record for entry in entries for part in entry.parts if part.record}
    return sorted(name for name in named if (root / name).is_file())


def records(entries: Iterable[Entry], root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return what the records hold, by path; pages are no records of a measurement."""
    names = [name for name in there(entries, root) if name.endswith(".json")]
    return {name: json.loads((root / name).read_text(encoding="utf-8")) for name in names}


def text(root: Path = ROOT) -> str:
    """Return the page."""
    entries = ENTRIES.values()
    recorded_results = records(entries, root)
    parts = [
        "# Reproduction",
        "Written by `make reproduction` from `results/`; a test fails when it is out of date.",
        f"Every table and figure of: {CITATION}. Ours stand beside the paper's, mean ± standard "
        f"deviation over seeds, in percent; what differs is said, with the reason where we know "
        f"it. `unlabel bench paper NAME` measures one again, `--small` a small form of it on two "
        f"cores; `unlabel bench paper --list` has them all. Data that no client fetches are given "
        f"with `--data PART=FILE`.",
        f"{markdown.DEFINITIONS}. For our default "
        "method, in the form that its name says, each record is held against three aims: the "
        "retained accuracy loses at most one point against the original, the forgotten accuracy "
        "is at most 1 %, and the attack's success lies between half and the whole of that on a "
        "retrained model's. The machine and commit are those of the figures; a command is that of "
        "the last run, which may only have drawn the page anew.",
        "\n".join(f"- **{status}**: {meaning}" for status, meaning in STATUSES.items()),
        markdown.table([["where", "name", "what", "status", "parts"], *map(_line, entries)]),
        *(
            piece
            for entry in entries
            for piece in (section(entry, recorded_results), *_picture(entry, recorded_results))
        ),
        *_people(root),
    ]
    return "\n\n".join(parts) + "\n"


def _line(entry: Entry) -> list[str]:
    counts = {
        status: sum(part.status == status for part in entry.parts)
        for status in STATUSES
    }  # fmt: skip
    parts = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return [entry.where, f"`{entry.name}`", entry.title, f"**{entry.status()}**", parts]


def _summaries(entry: Entry, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the summaries of an entry's records, where all are there and a figure joins them."""
    if entry.name not in FIGURES or any(part.record not in results for part in entry.parts):
        return {}
    return {part.name: results[part.record]["summary"] for part in entry.parts}


def _picture(entry: Entry, results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the figure that joins an entry's records."""
    if not _summaries(entry, results):
        return []
    return [f"![{entry.title} ({entry.where})](../{_drawn(entry)})"]


def _drawn(entry: Entry) -> str:
    return f"results/paper_{entry.name}.png"


def draw(root: Path = ROOT) -> None:
    """Draw the figures that join several records."""
    results = records(ENTRIES.values(), root)
    for entry in ENTRIES.values():
        if summaries := _summaries(entry, results):
            draw_picture(FIGURES[entry.name](summaries), root / _drawn(entry))


def _people(root: Path) -> list[str]:
    title = "## Beyond the paper: labels of people in tables"
    if not (root / PEOPLE).is_file():
        return [title, "Not recorded."]
    record = json.loads((root / PEOPLE).read_text(encoding="utf-8"))
    measured = provenance_in_words(record, record)
    table = markdown.table(BENCHES.get("people").table(record))
    return [title, table, f"[`{PEOPLE}`](../{PEOPLE}). {measured}"]


def main() -> None:
    """Note the records, then draw the figures and write the page."""
    write_page(NOTED, json.dumps(there(ENTRIES.values()), indent=2) + "\n")
    recorded.cache_clear()
    draw()
    written = write_page(PAGE, text())
    print(f"{PAGE.relative_to(ROOT)}: {'written' if written else 'as it was'}")


if __name__ == "__main__":
    main()
