"""What the boundary between parties costs: split training against the same network in one piece."""

from __future__ import annotations

import copy
import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import ModelSettings, RunConfig, TrainSettings, expect
from unlabel.data import Features, Rows, split_features
from unlabel.errors import TrainingError
from unlabel.party import ActiveParty, PassiveParty
from unlabel.party.optimisers import make_optimiser
from unlabel.train import Holdings, assemble, batches
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class SplitOverheadSettings:
    """Settings of the bench.

    parties  numbers of passive parties to measure
    model    bottom model
    size     height and width of the images
    rows     rows an epoch
    batch    rows a step
    repeats  epochs measured of each kind, in turns
    """

    parties: tuple[int, ...] = (1, 2, 4, 8)
    model: str = "convnet"
    size: int = 28
    rows: int = 4096
    batch: int = 64
    repeats: int = 11

    def __post_init__(self) -> None:
        expect("repeats", self.repeats, self.repeats >= 1, "at least 1")


def measure(settings: SplitOverheadSettings, say: Say) -> Result:
    """Return the ratio of split to one-piece time for each number of parties.

    Each repeat times one epoch of each kind, one right after the other, and gives one ratio; the
    median of the ratios is reported, since a busy machine slows down both halves of a pair.
    """
    return {"ratios": {str(k): _measure(settings, k, say) for k in settings.parties}}


def _measure(settings: SplitOverheadSettings, parties: int, say: Say) -> Any:
    holdings = _holdings(settings, parties)
    config = holdings.config
    active, _ = assemble(holdings)
    _, twins = assemble(holdings)  # the same initial weights, to be trained in one piece
    rows = holdings.rows.train
    active.prepare(rows, steps=0)
    for twin in twins.values():
        twin.bottom.prepare(rows, steps=0)
    whole = OnePiece(list(twins.values()), active)
    optimiser = make_optimiser(config.train, whole.parameters())
    times: dict[str, list[float]] = {"split": [], "whole": []}
    for repeat in range(settings.repeats + 1):
        say(f"K = {parties}: repeat {repeat} of {settings.repeats}")
        order = list(batches(rows, settings.batch, seed=0, epoch=repeat))
        turns = {
            "split": partial(_split_epoch, active, order),
            "whole": partial(_whole_epoch, whole, optimiser, holdings.labels, order),
        }
        # Whoever goes second finds the caches as the other left them, so they take turns.
        for kind in sorted(turns, reverse=repeat % 2 == 1):
            seconds = _timed(turns[kind])
            if repeat > 0:  # the first repeat warms up
                times[kind].append(seconds)
    _expect_equal(whole, active)
    ratios = [s / w for s, w in zip(times["split"], times["whole"], strict=True)]
    return {
        "ratio": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "repeats": settings.repeats,
    }


class OnePiece(nn.Module):
    """All bottoms and the top as one ordinary network, with no boundary inside."""

    def __init__(self, parties: list[PassiveParty], active: ActiveParty) -> None:
        super().__init__()
        self.bottoms = nn.ModuleList(party.bottom.module for party in parties)
        self.top = copy.deepcopy(active.top.module)
        self._bottoms = [party.bottom for party in parties]

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of rows."""
        embeddings = []
        for module, bottom in zip(self.bottoms, self._bottoms, strict=True):
            x = bottom.tables["main"].batch(rows, augment=False)
            assert bottom.scaling is not None
            embeddings.append(module(bottom.scaling.apply(x)))
        logits: Tensor = self.top(embeddings)
        return logits


def _split_epoch(active: ActiveParty, order: list[Tensor]) -> None:
    for step, rows in enumerate(order):
        active.step(rows, step)


def _whole_epoch(
    whole: OnePiece, optimiser: torch.optim.Optimizer, labels: Tensor, order: list[Tensor]
) -> None:
    """Train as split training does, counting loss and correct rows, but without a boundary."""
    whole.train()
    for rows in order:
        logits, target = whole(rows), labels[rows]
        loss = F.cross_entropy(logits, target)
        if not math.isfinite(loss.item()):
            raise TrainingError("The loss is not finite.")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        (logits.detach().argmax(1) == target).sum()


def _expect_equal(whole: OnePiece, active: ActiveParty) -> None:
    """Raise unless both ways of training have come to the same weights."""
    pairs = zip(whole.top.parameters(), active.top.module.parameters(), strict=True)
    if not all(torch.equal(one, other) for one, other in pairs):
        raise TrainingError("Split training and one-piece training have come to other weights.")


def _timed(work: Callable[[], None]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _holdings(settings: SplitOverheadSettings, parties: int) -> Holdings:
    rng = np.random.default_rng(0)
    shape = (settings.rows, 1, settings.size, settings.size)
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    y = rng.integers(0, 10, settings.rows)
    names = tuple(map(str, range(10)))
    parts = split_features(x, "image", parties)
    every = torch.arange(settings.rows)
    return Holdings(
        config=RunConfig(
            data="noise",
            parties=parties,
            model=ModelSettings(bottom=settings.model),
            train=TrainSettings(batch=settings.batch, schedule="constant"),
        ),
        features={name: Features(part) for name, part in parts.items()},
        labels=torch.from_numpy(y),
        names=names,
        ids=every.numpy().astype(str),
        rows=Rows(every, every[:0], every),
    )


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the ratios as rows for people."""
    lines = [["passive parties", "split / one piece", "lowest", "highest"]]
    for parties, ratios in result["ratios"].items():
        figures = [f"{ratios[name]:.3f}" for name in ("ratio", "lowest", "highest")]
        lines.append([parties, *figures])
    return lines


BENCHES.add(
    "split-overhead",
    Bench(
        "one epoch of split training against the same network in one piece",
        SplitOverheadSettings,
        measure,
        table,
    ),
)
