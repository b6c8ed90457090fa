"""Write the recorded figures of robustness into docs/robustness, between the marks of its pages.

A block begins with `<!-- figures: NAME -->` and ends with `<!-- end -->`; NAME begins with
`robustness_`, NAME.json in results/ is where its figures come from, and NAME.png beside it the
picture. What is not there is said so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from unlabel_bench.markdown import write_page
from unlabel_bench.robustness.summary import block

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "robustness"
RESULTS = ROOT / "results"
BLOCK = re.compile(
    r"^<!-- figures: (robustness_\S+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL
)
NOTHING = "No figures are recorded yet."


def fill(text: str, folder: Path = RESULTS) -> str:
    """Return a page with every block filled from the files in a folder."""

    def written(match: re.Match[str]) -> str:
        name = match[1]
        figures = NOTHING
        if (folder / f"{name}.json").is_file():
            result = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            drawn = (folder / f"{name}.png").is_file()
            command = f"\n\nMade by `{result['command']}`." if "command" in result else ""
            figures = block(result, f"../../results/{name}.png" if drawn else "") + command
        return f"<!-- figures: {name} -->\n{figures}\n<!-- end -->"

    return BLOCK.sub(written, text)


def main() -> None:
    """Fill every page."""
    for page in sorted(PAGES.glob("*.md")):
        if write_page(page, fill(page.read_text(encoding="utf-8"))):
            print(f"Wrote {page.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
