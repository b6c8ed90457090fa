"""A small federation, and the same network in one piece for plain autograd to work on."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from unlabel.config import ModelSettings, RunConfig, TrainSettings
from unlabel.data import Features, Rows
from unlabel.federation import Federation
from unlabel.models.tops import Top
from unlabel.train import Holdings, batches

Kind = Literal["table", "image"]

NAMES = ("ash", "birch", "cedar", "dogwood", "elm")
SEED = 3
TRAIN, PUBLIC, ROWS = 70, 30, 110
KEY = "5e" * 32


def table_bottom(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(prod(shape), 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4)
    )


def image_bottom(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.Tanh(),
        nn.Flatten(), nn.Linear(3 * shape[1] * shape[2], 4),
    )  # fmt: skip


def two_layers(inputs: int, labels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, labels))


def widths(kind: Kind, parts: int) -> list[int]:
    """Return how many columns each part has: as good as even, the first ones wider."""
    whole = 9 if kind == "table" else 12
    return [whole // parts + (part < whole % parts) for part in range(parts)]


def features(kind: Kind) -> Tensor:
    """Return rows whose labels, row mod 5, can be learned but not perfectly."""
    rng = np.random.default_rng(11)
    shape = (9,) if kind == "table" else (1, 4, 12)
    centres = rng.normal(0, 1.0, (len(NAMES), *shape))
    x = centres[np.arange(ROWS) % len(NAMES)] + rng.normal(0, 1.0, (ROWS, *shape))
    if kind == "table":
        return torch.from_numpy((3 * x + np.arange(9)).astype(np.float32))
    return torch.from_numpy(np.clip(128 + 45 * x, 0, 255).astype(np.uint8))


def federation(
    kind: Kind = "table",
    parties: int = 3,
    active_part: bool = False,
    *,
    folder: Path | None = None,
    bottom: str = "",
    top: str = "forget.one_piece:two_layers",
    **train: Any,
) -> Federation:
    """Return a federation that has not trained yet: 70 rows to train, 30 public, 10 to test."""
    names = [*(["active"] if active_part else []), *(f"passive-{n + 1}" for n in range(parties))]
    parts = features(kind).split(widths(kind, len(names)), -1)
    every = torch.arange(ROWS)
    holdings = Holdings(
        config=RunConfig(
            data="small",
            parties=parties,
            active_part=active_part,
            model=ModelSettings(bottom=bottom or f"forget.one_piece:{kind}_bottom", top=top),
            train=TrainSettings(
                **{"batch": 16, "epochs": 3, "lr": 0.05, "seed": SEED, "validation": 0.0, **train}
            ),
        ),
        features={n: Features(p.contiguous()) for n, p in zip(names, parts, strict=True)},
        labels=every % len(NAMES),
        names=NAMES,
        ids=every.numpy().astype(str),
        rows=Rows(
            every[:TRAIN],
            every[:0],
            every[TRAIN + PUBLIC :],
            public=every[TRAIN : TRAIN + PUBLIC],
        ),
    )
    return Federation.of(holdings, folder)


class OnePiece(nn.Module):
    """All bottoms and the head in one module, which cuts its input into the parties' parts."""

    def __init__(self, fed: Federation, kind: Kind) -> None:
        super().__init__()
        own = {"active": fed.active.bottom.module} if fed.active.bottom is not None else {}
        modules = {**own, **{n: p.bottom.module for n, p in fed.passives.items()}}
        self.names = list(modules)
        self.bottoms = nn.ModuleList(copy.deepcopy(module) for module in modules.values())
        self.head = copy.deepcopy(head_of(fed))
        self.widths = widths(kind, len(modules))
        self.kind: Kind = kind

    def forward(self, x: Tensor) -> Tensor:
        parts = x.split(self.widths, -1)
        pairs = zip(self.bottoms, parts, strict=True)
        logits: Tensor = self.head(torch.cat([bottom(part) for bottom, part in pairs], 1))
        return logits

    def scale(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return all rows standardised by the named ones, and the deviations, part by part."""
        scaled, deviations = [], []
        for part in features(self.kind).double().split(self.widths, -1):
            axes = [0, *range(2, part.dim())]
            mean = part[rows].mean(axes, keepdim=True)
            std = part[rows].var(axes, correction=0, keepdim=True).sqrt()
            scaled.append(((part - mean) / std).float())
            deviations.append(std.expand_as(part[:1]))
        return torch.cat(scaled, -1), torch.cat(deviations, -1).float()

    def expect_equal(self, fed: Federation, rtol: float = 1e-5, atol: float = 2e-6) -> None:
        """Every weight and every statistic of every party is the same to rounding."""
        whole = self.state_dict()
        for name, value in parts_of(fed, self.names).items():
            torch.testing.assert_close(value, whole.pop(name), rtol=rtol, atol=atol, msg=name)
        assert not whole


def head_of(fed: Federation) -> nn.Module:
    """Return the top model without the joining of the embeddings before it."""
    top = fed.active.top.module
    assert isinstance(top, Top)
    return top.head


def parts_of(fed: Federation, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the parties' weights under the names they have in one piece."""
    found = {f"head.{k}": v for k, v in head_of(fed).state_dict().items()}
    for number, name in enumerate(names):
        bottom = fed.active.bottom if name == "active" else fed.passives[name].bottom
        assert bottom is not None
        state = bottom.module.state_dict()
        found |= {f"bottoms.{number}.{k}": v for k, v in state.items()}
    return {k: v.detach() for k, v in found.items()}


def orders(rows: Tensor, size: int, epochs: int = 1, first: int = 0) -> Iterator[Tensor]:
    """Yield the batches of the epochs of a request, which are numbered from -1 downwards."""
    for epoch in range(first, first + epochs):
        yield from batches(rows, size, seed=SEED, epoch=-1 - epoch)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
