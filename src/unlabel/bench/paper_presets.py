"""The paper's tables of hyper-parameters beside the presets that this package runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unlabel.bench.measures import read_method, samples_of
from unlabel.bench.registry import BENCHES, Bench
from unlabel.errors import SettingsError
from unlabel.forget.method import settings_of
from unlabel.party.optimiser import one_of

#: What the tables print a column: rates of ascent and recovery, epochs, samples of a forgotten
#: label and of a retained one, batch size.
Row = tuple[float, float, int, int, int, int]
SINGLE: dict[str, Row] = {
    "resnet18-mnist": (2e-7, 2e-7, 10, 40, 3, 32),
    "resnet18-cifar10": (2e-7, 2e-7, 20, 40, 3, 32),
    "resnet18-cifar100": (5e-7, 5e-7, 10, 30, 3, 32),
    "resnet18-modelnet": (5e-7, 5e-7, 4, 30, 3, 32),
    "resnet18-brain-tumor-mri": (6e-6, 6e-6, 4, 15, 3, 32),
    "resnet18-covid19-radiography": (2e-7, 2e-7, 5, 40, 3, 32),
    "vgg16-cifar10": (2e-7, 2e-7, 17, 40, 3, 32),
    "vgg16-cifar100": (1e-7, 1e-7, 9, 30, 3, 32),
    "mixtext-yahoo": (7e-7, 7e-7, 30, 30, 3, 32),
}
MORE: dict[str, Row] = {
    "two-label-resnet18-cifar10": (1e-6, 1e-6, 17, 40, 3, 32),
    "two-label-resnet18-cifar100": (9e-7, 9e-7, 15, 20, 3, 32),
    "two-label-vgg16-cifar10": (1e-6, 1e-6, 17, 40, 3, 32),
    "two-label-vgg16-cifar100": (9e-7, 9e-7, 5, 20, 3, 32),
    "four-label-resnet18-cifar100": (3e-6, 3e-6, 25, 15, 3, 64),
    "four-label-vgg16-cifar100": (1e-6, 1e-6, 17, 15, 3, 64),
}
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


def run(settings: PresetsSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Read every preset of the table as a request would, and compare it with what is printed."""
    summary = []
    for name, theirs in (SINGLE if settings.which == "single" else MORE).items():
        say(name)
        ours = _ours(f"mixup-ascent@{name}")
        printed = dict(zip(HEADS, theirs, strict=True))
        differs = [head for head in HEADS if head != "batch" and ours[head] != printed[head]]
        summary.append({"preset": name, "paper": printed, "ours": ours, "differs": differs})
    return {"summary": summary, "momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY}


def _ours(method: str) -> dict[str, Any]:
    found, samples = settings_of(read_method(method)), samples_of(method)
    if (found["momentum"], found["weight_decay"]) != (MOMENTUM, WEIGHT_DECAY):
        raise SettingsError(
            f"Expected '{method}' to have the paper's momentum {MOMENTUM:g} and weight decay "
            f"{WEIGHT_DECAY:g} but got {found['momentum']:g} and {found['weight_decay']:g}; "
            f"restore the preset."
        )
    values = (
        *(found["lr"], found["recovery_lr"] or found["lr"], found["epochs"]),
        *(samples["few_shot"], samples["retained"], NO_BATCH),
    )
    return dict(zip(HEADS, values, strict=True))


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return a row a preset: what is printed, and ours where it differs."""
    rows = [["preset", *HEADS, "ours"]]
    for entry in result["summary"]:
        cells = [f"{entry['paper'][head]:g}" for head in HEADS]
        ours = ", ".join(f"{head} {entry['ours'][head]}" for head in entry["differs"])
        rows.append([entry["preset"], *cells, ours or f"the same, but {NO_BATCH} at once"])
    return rows


BENCHES.add(
    "paper-presets",
    Bench("the paper's hyper-parameters beside our presets", PresetsSettings, run, table),
)
