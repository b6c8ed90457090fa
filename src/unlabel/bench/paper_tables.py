"""The figures that the paper prints for its methods, to stand beside ours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

CITATION = (
    "Gu, Tae, Fan and Chan, Towards Privacy-Guaranteed Label Unlearning in Vertical Federated "
    "Learning: Few-Shot Forgetting without Disclosure, ICLR 2026"
)
#: The paper's tables by the number of labels that a request names.
SCENARIOS = {1: "single", 2: "two", 4: "four"}
#: What the paper calls a method of ours; others have the same name there and here.
THEIR_NAMES = {"mixup-ascent": "ours", "original": "baseline"}


@dataclass(frozen=True)
class Printed:
    """A figure in percent as it is printed; the deviation is None where there is none."""

    mean: float
    deviation: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.deviation is None else f" ± {self.deviation:.2f}")


def printed(labels: int, model: str, data: str, method: str) -> dict[str, Printed]:
    """Return the paper's figures (D_r, y_u, ASR) for a method of ours; none where it has none.

    >>> str(printed(1, "resnet18", "cifar10", "retrain")["D_r"])
    '91.26 ± 0.12'
    """
    theirs = THEIR_NAMES.get(method, method)
    return _tables().get((SCENARIOS.get(labels, ""), model, data, theirs), {})


def printed_lambda(method: str) -> dict[str, Printed]:
    """Return the paper's figures for the shares that a method names; none at another rate.

    >>> str(printed_lambda("mixup-ascent@resnet18-cifar10:lambdas=0.2/0.5")["D_r"])
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
    text = files("unlabel.bench").joinpath("paper_tables.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found: dict[tuple[str, str, str, str], dict[str, Printed]] = {}
    for row in csv.DictReader(lines):
        key = (row["scenario"], row["model"], row["dataset"], row["method"])
        deviation = float(row["std"]) if row["std"] else None
        found.setdefault(key, {})[row["metric"]] = Printed(float(row["mean"]), deviation)
    return found
