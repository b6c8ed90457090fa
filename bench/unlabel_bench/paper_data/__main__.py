"""`python -m unlabel_bench.paper_data NAME DIR FOLDER`: data of the paper as plain files.

NAME is a dataset, DIR a checkout or git directory of the repository that docs/paper-data.md names
for it, FOLDER where the files go. What was counted on the way is printed as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unlabel.errors import SettingsError, UnlabelError, unknown
from unlabel.progress import Watch
from unlabel_bench.paper_data import cifar100, covid19, modelnet40, yahoo
from unlabel_bench.paper_data.tree import Tree

CONVERSIONS: dict[str, Callable[[Tree, Path, Watch], dict[str, Any]]] = {
    "cifar100": cifar100.convert,
    "covid19": covid19.convert,
    "modelnet40": modelnet40.convert,
    "yahoo": yahoo.convert,
}
#: Seconds between two lines on progress.
PAUSE = 2.0


def show_progress() -> Watch:
    """Return what writes a line on progress now and then."""
    last = time.monotonic()

    def watch(done: int, total: int, note: str) -> None:
        nonlocal last
        if done == total or time.monotonic() - last > PAUSE:
            last = time.monotonic()
            print(f"{done} of {total} {note}", file=sys.stderr, flush=True)

    return watch


def main(words: list[str]) -> int:
    """Convert one dataset and print what was counted."""
    try:
        if len(words) != 3:
            names = ", ".join(CONVERSIONS)
            raise SettingsError(f"Expected NAME DIR FOLDER, with a NAME of {names}.")
        name, source, out = words
        if name not in CONVERSIONS:
            raise SettingsError(unknown("dataset", name, CONVERSIONS))
        tree, folder = Tree.at(Path(source)), Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        counts = CONVERSIONS[name](tree, folder, show_progress())
    except UnlabelError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"name": name, "commit": tree.commit(), **counts}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
