"""Write docs/gallery.md: every picture of results/ and docs/img with a caption and its command."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from unlabel_bench.markdown import counted, labels_in_words, plain_name, write_page
from unlabel_bench.paper.page import command_of
from unlabel_bench.registry import BENCHES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gallery.md"
ENDINGS = (".png", ".svg")
#: What draws the pictures of the docs that no bench draws.
COMMANDS = {
    "demo.svg": "unlabel demo --picture demo.svg",
    "report.png": "unlabel report runs/digits",
    "scoreboard.png": "unlabel bench scoreboard",
    "paper_parties.png": "make reproduction",
    "paper_modules.png": "make reproduction",
}
EVERY = " by every method"
#: Methods that a heading names; of more it says how many.
FEW = 6
IMAGE = re.compile(r"!\[([^\]]+)\]\(([^)]+)\)")


def text(root: Path = ROOT) -> str:
    """Return the page."""
    captions = _captions(root)
    parts = [
        "# Gallery",
        "Written by `make reproduction`; a test fails when it is out of date. Each picture stands "
        "with the command that draws it; the figures behind it are in the file of the same name.",
    ]
    records = {path: _record(path) for path in pictures(root)}
    shown = {path: captions.get(path.name) or _caption(path, r) for path, r in records.items()}
    repeated = {caption for caption, count in Counter(shown.values()).items() if count > 1}
    for path, record in records.items():
        name, caption = path.relative_to(root).as_posix(), shown[path]
        caption += f": {path.stem.replace('_', ' ')}" if caption in repeated else ""
        parts += [f"## {caption}", f"![{caption}]({_link(name)})"]
        command = COMMANDS.get(path.name) or (command_of(record) if record else "")
        parts += [f"`{command}`"] if command else []
    return "\n\n".join(parts) + "\n"


def pictures(root: Path = ROOT) -> list[Path]:
    """Return every picture, those of the docs first."""
    folders = (root / "docs" / "img", root / "results")
    return [
        path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in ENDINGS
    ]


def _captions(root: Path) -> dict[str, str]:
    """Return what the pages say of the pictures they show, by the name of the file."""
    pages = [
        root / "README.md",
        root / "results" / "README.md",
        *sorted((root / "docs").glob("*.md")),
    ]
    captions: dict[str, str] = {}
    for page in pages:
        if page.name != PAGE.name and page.is_file():
            for caption, path in IMAGE.findall(page.read_text(encoding="utf-8")):
                captions.setdefault(Path(path).name, caption)
    return captions


def _record(path: Path) -> dict[str, Any] | None:
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return None
    record: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    return record


def _caption(path: Path, record: dict[str, Any] | None) -> str:
    """Return a caption for a picture that no page shows: its bench, and what it was run on."""
    if record is None:
        return path.stem.replace("_", " ")
    about = str(record.get("title") or BENCHES.get(record["bench"]).about)
    ran = record.get("settings", {})
    words = [str(ran[name]) for name in ("data", "model") if isinstance(ran.get(name), str)]
    if isinstance(ran.get("parties"), int):
        words.append(counted(ran["parties"], "party").replace("partys", "parties"))
    labels = ran.get("labels") or []
    words += [labels_in_words("+".join(map(str, labels)))] if labels else []
    listed = ""
    # Which methods a bench takes for "every" depends on its date; the record has those it ran.
    if EVERY in about:
        names = list(dict.fromkeys(map(plain_name, record["methods"])))
        about = about.replace(EVERY, f" by {counted(len(names), 'method')}")
        listed = f"; {', '.join(names)}" if len(names) <= FEW else ""
    run = ", ".join(words) + listed
    return f"{about[0].upper()}{about[1:]}" + (f" ({run})" if run else "")


def _link(name: str) -> str:
    return name.removeprefix("docs/") if name.startswith("docs/") else f"../{name}"


def main() -> None:
    """Write the page."""
    written = write_page(PAGE, text())
    print(f"{PAGE.relative_to(ROOT)}: {'written' if written else 'as it was'}")


if __name__ == "__main__":
    main()
