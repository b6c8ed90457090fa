"""The paper's table of models, beside the layers that ours really have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from unlabel.bench.registry import BENCHES, Bench
from unlabel.errors import ModelError
from unlabel.models import TextSettings, build_bottom, build_top, default_top

#: What a party's half of an image is, and a text of some tokens.
HALF, TOKENS = (3, 32, 16), (16,)
#: The paper's models: its name, ours, layers of the passive party and of the active one.
PRINTED = (
    ("ResNet18", "resnet18", "20 Conv", "1 FC"),
    ("Vgg16", "vgg16", "13 Conv", "3 FC"),
    ("MixText", "bert", "12 Brt", "4 FC"),
)
#: What the table says of each request: labels by dataset.
REQUESTS = (
    ("single", "MNIST, CIFAR10, CIFAR100, ModelNet, COVID-19 Radiography: 0; Brain Tumor MRI: 2; "
     "Yahoo Answer: 6"),
    ("two", "CIFAR10, CIFAR100: 0, 2"),
    ("four", "CIFAR100: 0, 2, 5, 7"),
)  # fmt: skip


@dataclass(frozen=True)
class LayersSettings:
    """Settings of the bench.

    width  of the hidden states of the encoder that is built to be counted
    """

    width: int = 48


def run(settings: LayersSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Build every model and count its layers."""
    summary = []
    for called, ours, passive, active in PRINTED:
        say(ours)
        top = build_top(default_top(ours), 8, 4)
        summary.append(
            {
                "model": called,
                "ours": ours,
                "paper": {"passive": passive, "active": active},
                "counted": {
                    "passive": _passive(ours, settings.width),
                    "active": f"{_linear(top)} FC",
                },
            }
        )
    return {"summary": summary, "requests": [list(row) for row in REQUESTS]}


def _passive(name: str, width: int) -> str:
    """Return the layers of a bottom in the paper's words, or why it cannot be built here."""
    text = TextSettings(width=width, vocabulary=100)
    try:
        bottom = build_bottom(name, TOKENS if name == "bert" else HALF, text=text)
    except ModelError as error:
        return f"not built: {error}"
    convolutions = sum(isinstance(part, nn.Conv2d) for part in bottom.modules())
    if convolutions:
        return f"{convolutions} Conv"
    # A layer of an encoder is what stands in its one list of equal blocks.
    blocks = [part for part in bottom.modules() if isinstance(part, nn.ModuleList)]
    return f"{max(map(len, blocks), default=0)} Brt"


def _linear(top: nn.Module) -> int:
    return sum(isinstance(part, nn.Linear) for part in top.modules())


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return a row a model."""
    rows = [["model", "ours", "passive, paper", "passive, ours", "active, paper", "active, ours"]]
    for entry in result["summary"]:
        sides = [entry[who][side] for side in ("passive", "active") for who in ("paper", "counted")]
        rows.append([entry["model"], entry["ours"], *sides])
    return rows


BENCHES.add(
    "paper-layers",
    Bench("the paper's models beside the layers of ours", LayersSettings, run, table),
)
