"""The figures that the paper prints for its methods, and why ours differ from them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from unlabel_bench.markdown import FIGURES, SYMBOLS, plain_name

CITATION = (
    "Gu, Tae, Fan and Chan, Towards Privacy-Guaranteed Label Unlearning in Vertical Federated "
    "Learning: Few-Shot Forgetting without Disclosure, ICLR 2026"
)
#: The paper's tables by the number of labels that a request names.
SCENARIOS = {1: "single", 2: "two", 4: "four"}
#: What the paper calls a method of ours; others have the same name there and here.
THEIR_NAMES = {"mixup-ascent": "ours", "original": "baseline"}
#: What the paper calls data of ours: sources of the bench, and the files that `paper_data` makes.
THEIR_DATA = {
    "brain-tumor-mri": "brain mri",
    "brain_tumor_64.npz": "brain mri",
    "cifar100.npz": "cifar100",
    "covid19-radiography": "covid-19 radiography",
    "covid19_64.npz": "covid-19 radiography",
    "modelnet40_views32.npz": "modelnet",
}
#: Points from which a difference is explained.
FEW = 5.0
UNKNOWN = "We do not know why."


@dataclass(frozen=True)
class Printed:
    """A figure in percent as it is printed; the deviation is None where there is none."""

    mean: float
    deviation: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.deviation is None else f" ± {self.deviation:.2f}")


def read(name: str) -> Any:
    """Return a data file of the paper: JSON, or the rows of a CSV file without its comments."""
    text = files("unlabel_bench.paper").joinpath(name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        return json.loads(text)
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def printed(labels: int, model: str, data: str, method: str) -> dict[str, Printed]:
    """Return the paper's figures for a method of ours, by name; none where it has none.

    >>> str(printed(1, "resnet18", "cifar10", "retrain")["retained"])
    '91.26 ± 0.12'
    """
    theirs = THEIR_NAMES.get(method, method)
    known = THEIR_DATA.get(data, data)
    return _tables().get((SCENARIOS.get(labels, ""), model, known, theirs), {})


def printed_lambda(method: str) -> dict[str, Printed]:
    """Return the paper's figures for the shares that a method names; none at another rate.

    >>> str(printed_lambda("mixup-ascent@resnet18-cifar10:lambdas=0.2/0.5")["retained"])
    '89.11 ± 0.11'
    """
    head, *words = method.split(":")
    shares = [word.removeprefix("lambdas=") for word in words if word.startswith("lambdas=")]
    if not shares or len(words) > 1 or not head.startswith("mixup-ascent@"):
        return {}
    return _tables().get(("lambda", "resnet18", "cifar10", shares[0].replace("/", " ")), {})


def printed_leakage(data: str, method: str) -> Printed | None:
    """Return the paper's share of private rows that are found, in percent."""
    theirs = THEIR_NAMES.get(method, method)
    return _tables().get(("leakage", "resnet18", data, theirs), {}).get("members")


@cache
def _tables() -> dict[tuple[str, str, str, str], dict[str, Printed]]:
    tables: dict[tuple[str, str, str, str], dict[str, Printed]] = {}
    for row in read("tables.csv"):
        key = (row["scenario"], row["model"], row["dataset"], row["method"])
        deviation = float(row["std"]) if row["std"] else None
        name = SYMBOLS.get(row["metric"], row["metric"])
        tables.setdefault(key, {})[name] = Printed(float(row["mean"]), deviation)
    return tables


def differences(
    result: Mapping[str, Any], theirs: Mapping[str, Mapping[str, Printed]]
) -> list[str]:
    """Return a line for each method whose mean differs from the paper's by more than a few points.

    theirs  the paper's figures a method
    """
    lines = []
    for entry in result["summary"]:
        known = {} if entry["tuned"] else theirs.get(entry["method"], {})
        apart = [
            f"{FIGURES[name]} {entry[name]['mean']:.1f} (paper {value.mean:.1f})"
            for name, value in known.items()
            if entry[name] and abs(entry[name]["mean"] - value.mean) > FEW
        ]
        if apart:
            reason = _reason(entry["method"], result["about"]["data"])
            lines.append(f"- `{entry['method']}`: {', '.join(apart)}. {reason}")
    return lines


def _reason(method: str, data: str) -> str:
    """Return what we know of a method's difference: on these data, or on any.

    `mixup-ascent@` has the reason of the method's presets.
    """
    reasons: dict[str, dict[str, str]] = read("differences.json")
    name = plain_name(method) + ("@" if "@" in method else "")
    return reasons.get(data, {}).get(name) or reasons["any"].get(name, UNKNOWN)
