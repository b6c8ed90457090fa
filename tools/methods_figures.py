"""Write the recorded figures of the comparison into docs/methods.md, between its marks.

A block begins with `<!-- figures: NAME -->` and ends with `<!-- end -->`; NAME is a method, or
`files` for where the figures come from. Files of results that are not there are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unlabel_bench import markdown
from unlabel_bench.markdown import FIGURES, plain_name, where, write_page
from unlabel_bench.summary import RETRAINED, find

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "methods.md"
RESULTS = ROOT / "results"
#: The comparisons that the page shows, in its order.
FILES = (
    "cifar10_resnet18_single.json",
    "cifar10_resnet18_two.json",
    "cifar10_vgg16_single.json",
    "cifar10_vgg16_two.json",
    "fashion_mnist_single.json",
    "cifar10_resnet18_rivals.json",
    "cifar100_single.json",
    "modelnet40_single.json",
    "covid19_single.json",
)
#: Names of data and models for people.
NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100.npz": "CIFAR-100",
    "covid19_64.npz": "COVID-19 Radiography",
    "modelnet40_views32.npz": "ModelNet40",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "resnet18": "ResNet18",
    "vgg16": "VGG16",
}
BLOCK = re.compile(r"^<!-- figures: (\S+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
NOTHING = "No figures are recorded yet."

Result = dict[str, Any]


def fill(text: str, folder: Path = RESULTS) -> str:
    """Return the page with every block filled from the files in a folder."""
    results = {name: _read(folder / name) for name in FILES if (folder / name).is_file()}
    special: dict[str, Callable[[], str]] = {
        "files": lambda: _files(results),
    }

    def block(match: re.Match[str]) -> str:
        name = match[1]
        written = special[name]() if name in special else _method(name, results)
        return f"<!-- figures: {name} -->\n{written}\n<!-- end -->"

    return BLOCK.sub(block, text)


def _read(path: Path) -> Result:
    result: Result = json.loads(path.read_text(encoding="utf-8"))
    return result


def request_in_words(result: Result) -> str:
    """Return what was asked of which model.

    >>> about = {"data": "cifar10", "model": "resnet18", "parties": 2}
    >>> request_in_words({"about": about, "request": "0+2"})
    'CIFAR-10, ResNet18 x 2, labels 0 and 2'
    """
    about = result["about"]
    data, model = (NAMES.get(about[key], about[key]) for key in ("data", "model"))
    *first, last = result["request"].split("+")
    labels = f"labels {', '.join(first)} and {last}" if first else f"label {last}"
    return f"{data}, {model} x {about['parties']}, {labels}"


def _method(name: str, results: dict[str, Result]) -> str:
    """Return the table of one method: a row a file, and one more where tuning chose otherwise."""
    attack = FIGURES["asr"]
    heads = ["run", "settings", *FIGURES.values(), f"{attack}, retrained", "linear", "nearest", "s"]
    rows = []
    for result in results.values():
        retrained = find(result["summary"], RETRAINED)
        aim = markdown.figure(retrained["asr"]) if retrained else ""
        for entry in result["summary"]:
            shown = plain_name(entry["method"])
            if shown == name or (name == RETRAINED and shown == "original"):
                rows.append([request_in_words(result), *_cells(entry, result, aim)])
    return markdown.table([heads, *rows]) if rows else NOTHING


def _cells(entry: Result, result: Result, aim: str) -> list[str]:
    return [
        _settings(entry, result),
        *(markdown.figure(entry[figure]) for figure in ("retained", "forgotten", "asr")),
        aim,
        *(markdown.figure(entry[figure]) for figure in ("residual_linear", "residual_nearest")),
        _seconds(entry["seconds"]),
    ]


def _settings(entry: Result, result: Result) -> str:
    """Return a method's settings in words, whether they were tuned, and how often it failed."""
    plain = plain_name(entry["method"])
    if plain == "original":
        return "before forgetting"
    head, *words = entry["method"].split(":")
    preset = head.removeprefix(plain).removeprefix("@")
    words_of = [f"preset `{preset}`"] if preset else []
    words_of += [f"`{' '.join(words)}`"] if words else []
    text = " ".join(words_of) or "default"
    chosen = {choice["method"]: choice["published_won"] for choice in result["choices"]}
    if entry["tuned"]:
        text = f"tuned: {text}"
    elif chosen.get(entry["method"]):
        text += ", tuned the same"
    if entry["failed"]:
        text += f"; failed {len(entry['failed'])} of {len(entry['failed']) + entry['runs']}"
    return text


def _seconds(spread: dict[str, float] | None) -> str:
    if spread is None:
        return ""
    return markdown.figure(spread, 1 if spread["mean"] >= 10 else 2 if spread["mean"] >= 1 else 3)


def _files(results: dict[str, Result]) -> str:
    """Return where the figures come from."""
    if not results:
        return NOTHING
    rows = [["file", "run", "seeds", "epochs of training", "machine"]]
    for name, result in results.items():
        about = result["about"]
        machine = where(result)
        rows.append(
            [
                f"[{name}](../results/{name})",
                request_in_words(result),
                str(about["seeds"]),
                str(about["epochs"]),
                machine,
            ]
        )
    return markdown.table(rows)


def main() -> None:
    """Fill the page."""
    written = write_page(PAGE, fill(PAGE.read_text(encoding="utf-8")))
    print(f"{PAGE.relative_to(ROOT)}: {'written' if written else 'as it was'}")


if __name__ == "__main__":
    main()
