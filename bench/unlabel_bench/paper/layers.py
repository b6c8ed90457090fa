"""The paper's table of models, beside the layers that ours really have."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from unlabel.config import TextSettings
from unlabel.errors import ModelError
from unlabel.models import build_bottom, build_top, default_top
from unlabel_bench.paper.tables import read
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: What a party's half of an image is, and a text of some tokens.
HALF, TOKENS = (3, 32, 16), (16,)


@dataclass(frozen=True)
class LayersSettings:
    """Settings of the bench.

    width  of the hidden states of the encoder that is built to be counted
    """

    width: int = 48


def measure(settings: LayersSettings, say: Say) -> Result:
    """Build every model and count its layers."""
    summary = []
    table = read("models.json")
    for row in table["models"]:
        ours = row["ours"]
        say(ours)
        top = build_top(default_top(ours), 8, 4)
        summary.append(
            {
                "model": row["model"],
                "ours": ours,
                "paper": {"passive": row["passive"], "active": row["active"]},
                "counted": {
                    "passive": _passive(ours, settings.width),
                    "active": f"{_linear(top)} FC",
                },
            }
        )
    return {"summary": summary, "requests": table["requests"]}


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


def table(result: Result) -> list[list[str]]:
    """Return a row a model."""
    rows = [["model", "ours", "passive, paper", "passive, ours", "active, paper", "active, ours"]]
    for entry in result["summary"]:
        sides = [entry[who][side] for side in ("passive", "active") for who in ("paper", "counted")]
        rows.append([entry["model"], entry["ours"], *sides])
    return rows


BENCHES.add(
    "paper-layers",
    Bench("the paper's models beside the layers of ours", LayersSettings, measure, table),
)
