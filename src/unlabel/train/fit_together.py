"""Several tops fitted side by side: a step of a small top takes as long to call as to compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import torch
from torch import nn

from unlabel.config import OptimiserSettings
from unlabel.errors import TrainingDiverged
from unlabel.party import ActiveParty, Stream, own_randomness
from unlabel.party.optimisers import learning_rate
from unlabel.party.training_loss import MIXING, TrainingLoss, balanced
from unlabel.progress import Watch, watch_nothing
from unlabel.train.loop import batch_count, batches
from unlabel.train.top_fit import (
    Recipe,
    gathered,
    make_fit_optimiser,
    one_thread,
    quick_dropout,
)

#: Steps between two reports of progress.
LOOK = 100


def fit_together(
    parties: Sequence[ActiveParty], recipes: Sequence[Recipe], watch: Watch = watch_nothing
) -> None:
    """Fit the tops of parties that hold the same rows, each by its recipe: all but seeds agree.

    One step descends the sum of all losses. No weight of a top is in the loss of another, and
    optimisers move each number by itself; so each top becomes what `fit_top` alone would make of
    it, but for the masks of dropout, which come from one stream here.

    watch  called with the steps so far
    """
    tops, device = nn.ModuleList([party.top.module for party in parties]), parties[0].device
    with own_randomness(device), one_thread(), quick_dropout(tops, device):
        Stream(recipes[0].seed, "active/fit").start("dropout", device)
        tops.train()
        _descend(parties, recipes, tops, watch)


def _descend(
    parties: Sequence[ActiveParty],
    recipes: Sequence[Recipe],
    tops: nn.Module,
    watch: Watch,
) -> None:
    shared = recipes[0]
    labels, held = parties[0].labels, parties[0].local_embeddings["main"]
    weights = balanced(labels, len(parties[0].names)) if shared.balance else None
    losses = [TrainingLoss(Stream(each.seed, MIXING), each.mixup, weights) for each in recipes]
    optimiser = make_fit_optimiser(shared, tops)
    rate = shared.optimiser or OptimiserSettings(lr=shared.settings.lr)
    rows = torch.arange(len(labels), device=labels.device)
    size = min(shared.settings.batch, len(rows))
    step = 0
    for epoch in range(1, math.ceil(shared.steps / batch_count(rows, size)) + 1):
        left = shared.steps - step
        planned = [islice(batches(rows, size, seed=r.seed, epoch=epoch), left) for r in recipes]
        for drawn in zip(*(gathered(each, labels, held, None) for each in planned), strict=True):
            if step % LOOK == 0:
                watch(step, shared.steps, f"fitting {len(parties)} tops anew")
            terms = [
                loss.loss(party.apply_top, parts, y, step)[0]
                for party, loss, (_, y, parts) in zip(parties, losses, drawn, strict=True)
            ]
            total = torch.stack(terms).sum()
            optimiser.zero_grad(set_to_none=True)
            total.backward()
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(rate, step, shared.steps)
            optimiser.step()
            step += 1
        if not math.isfinite(total.item()):
            raise TrainingDiverged(f"The loss of the tops is not finite after pass {epoch}.")
