"""Federations small enough to compare with an independent computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unlabel.config import ModelSettings, RunConfig, TrainSettings
from unlabel.data import Features, Rows, split_features
from unlabel.train import Holdings

LABELS = 4


def small_holdings(
    parties: int,
    *,
    bottom: str = "small_models:plain_bottom",
    top: str = "linear",
    active_part: bool = False,
    rows: int = 48,
    augment: str = "none",
    **train: Any,
) -> Holdings:
    """Return random 6 x 16 images between parties: 32 rows to train, 8 to validate, 8 to test."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 256, (rows, 1, 6, 16), dtype=np.uint8)
    y = rng.integers(0, LABELS, rows)
    names = tuple("abcd")
    parts = split_features(x, "image", parties, active_part=active_part)
    cut = rows * 2 // 3
    every = torch.arange(rows)
    return Holdings(
        config=RunConfig(
            data="noise",
            parties=parties,
            active_part=active_part,
            model=ModelSettings(bottom=bottom, top=top),
            train=TrainSettings(**{"batch": 8, "epochs": 2, **train}),
        ),
        features={name: Features(part, augment=augment) for name, part in parts.items()},  # type: ignore[arg-type]
        labels=torch.from_numpy(y),
        names=names,
        ids=every.numpy().astype(str),
        rows=Rows(every[:cut], every[cut : cut + rows // 6], every[cut + rows // 6 :]),
    )
