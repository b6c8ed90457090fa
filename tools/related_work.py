"""Write the tables of docs/related-work.md, between its marks.

A block begins with `<!-- table: NAME -->` and ends with `<!-- end -->`. NAME is a setting of
`related_work.csv`, or `requests` or `clusters` for the recorded figures of what partners can tell.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from unlabel_bench import markdown
from unlabel_bench.markdown import write_page
from unlabel_bench.paper.related_work import SETTINGS, RelatedWork, table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "related-work.md"
RESULTS = ROOT / "results"
BLOCK = re.compile(r"^<!-- table: (\S+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
#: The methods whose gradients are shown, and the request: the paper's own beside ours.
CLUSTERED = ("mixup-ascent", "renormalise")


def fill(text: str, results: Path = RESULTS) -> str:
    """Return the page with every block filled."""
    special = {"requests": requests, "clusters": clusters}

    def block(match: re.Match[str]) -> str:
        name = match[1]
        written = special[name](results) if name in special else methods(name)
        return f"<!-- table: {name} -->\n{written}\n<!-- end -->"

    return BLOCK.sub(block, text)


def methods(setting: str) -> str:
    """Return the methods of a setting, a row each, in the order of the file."""
    if setting not in SETTINGS:
        raise ValueError(f"Expected a setting ({', '.join(SETTINGS)}) but found '{setting}'.")
    heads = ["method", "year", "forgets", "exact?", "protects?", "paper", "in unlabel", "note"]
    rows = [_row(work) for work in table() if work.setting == setting]
    return markdown.table([heads, *rows])


def _row(work: RelatedWork) -> list[str]:
    link = f"[`{work.unlabel}`](methods.md#{work.unlabel})" if work.unlabel else ""
    note = "; ".join(filter(None, [work.note, work.reference]))
    paper = "x" if work.printed else ""
    return [work.name, work.year, work.target, work.kind, work.protects, paper, link, note]


def requests(results: Path) -> str:
    """Return how often a partner names the label of a request, from the recorded bench."""
    record = _read(results / "digits_request_privacy.json")
    rows = [["method", "label named by a partner, %", "by chance, %", "proved bound, nats"]]
    for entry in record["methods"]:
        best, bound = entry["best"], entry["bound"]
        named = f"{100 * best['value']:.1f} ({100 * best['low']:.1f} to {100 * best['high']:.1f})"
        proved = "none" if bound is None else f"{bound['information']:.3g}"
        rows.append([f"`{entry['method']}`", named, f"{100 * entry['chance']:.1f}", proved])
    source = "[digits_request_privacy.md](../results/digits_request_privacy.md)"
    return (
        markdown.table(rows)
        + f"\n\nDigits, {record['methods'][0]['requests']} requests each: {source}."
    )


def clusters(results: Path) -> str:
    """Return how well the received gradients fall into labels, from the recorded bench."""
    record = _read(results / "digits_label_clusters.json")
    rows = [["method", "labels forgotten", "rows sorted by label, %", "by chance, %"]]
    for entry in record["summary"]:
        share = entry["clusters among forgotten"]
        # With one label there is nothing to sort.
        if (
            markdown.plain_name(entry["method"]) in CLUSTERED
            and share is not None
            and "+" in entry["request"]
        ):
            chance = entry["among forgotten by chance"]
            labels = entry["request"].replace("+", ", ")
            rows.append(
                [
                    f"`{markdown.plain_name(entry['method'])}`",
                    labels,
                    _percent(share),
                    _percent(chance),
                ]
            )
    source = "[digits_label_clusters.md](../results/digits_label_clusters.md)"
    return markdown.table(rows) + f"\n\nDigits, gradients that one partner received: {source}."


def _percent(share: Any) -> str:
    return f"{100 * (share['mean'] if isinstance(share, dict) else share):.1f}"


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def main() -> None:
    """Fill the page."""
    written = write_page(PAGE, fill(PAGE.read_text(encoding="utf-8")))
    print(f"{PAGE.relative_to(ROOT)}: {'written' if written else 'as it was'}")


if __name__ == "__main__":
    main()
