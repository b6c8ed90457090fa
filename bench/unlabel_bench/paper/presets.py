"""The paper's tables of hyper-parameters beside the presets that this package runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from unlabel.config import one_of
from unlabel.errors import SettingsError
from unlabel.forget.method import settings_of
from unlabel_bench.measures import read_method, samples_of
from unlabel_bench.paper.tables import read
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: The same in every column.
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
HEADS = ("rate", "recovery rate", "epochs", "forgotten samples", "retained samples", "batch")
#: How the method has no batches: its algorithm takes all pairs of samples at once.
NO_BATCH = "all pairs"


@dataclass(frozen=True)
class PresetsSettings:
    """Settings of the bench.

    which  table: single, or more for two and four labels
    """

    which: str = "single"

    def __post_init__(self) -> None:
        one_of("which", self.which, ("single", "more"))


def measure(settings: PresetsSettings, say: Say) -> Result:
    """Read every preset of the table as a request would, and compare it with what is printed."""
    summary = []
    for name, printed in printed_presets(settings.which).items():
        say(name)
        ours = _ours(f"mixup-ascent@{name}")
        differs = [head for head in HEADS if head != "batch" and ours[head] != printed[head]]
        summary.append({"preset": name, "paper": printed, "ours": ours, "differs": differs})
    return {"summary": summary, "momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY}


def printed_presets(which: str) -> dict[str, dict[str, Any]]:
    """Return the rows of one of the paper's tables, by preset."""
    return {
        row["preset"]: {head: json.loads(row[head]) for head in HEADS}
        for row in read("presets.csv")
        if row["table"] == which
    }


def _ours(method: str) -> dict[str, Any]:
    settings, samples = settings_of(read_method(method)), samples_of(method)
    if (settings["momentum"], settings["weight_decay"]) != (MOMENTUM, WEIGHT_DECAY):
        raise SettingsError(
            f"Expected '{method}' to have the paper's momentum {MOMENTUM:g} and weight decay "
            f"{WEIGHT_DECAY:g} but got {settings['momentum']:g} and {settings['weight_decay']:g}; "
            f"restore the preset."
        )
    values = (
        *(settings["lr"], settings["recovery_lr"] or settings["lr"], settings["epochs"]),
        *(samples["few_shot"], samples["retained"], NO_BATCH),
    )
    return dict(zip(HEADS, values, strict=True))


def table(result: Result) -> list[list[str]]:
    """Return a row a preset: what is printed, and ours where it differs."""
    rows = [["preset", *HEADS, "ours"]]
    for entry in result["summary"]:
        cells = [f"{entry['paper'][head]:g}" for head in HEADS]
        ours = ", ".join(f"{head} {entry['ours'][head]}" for head in entry["differs"])
        rows.append([entry["preset"], *cells, ours or f"the same, but {NO_BATCH} at once"])
    return rows


BENCHES.add(
    "paper-presets",
    Bench("the paper's hyper-parameters beside our presets", PresetsSettings, measure, table),
)
