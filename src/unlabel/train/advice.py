"""What a training's owner should do about it: train longer, hold it back, or look at the data.

Every sentence is a guess from figures that the training has anyway, and from a logistic regression
on the label holder's own features. Nobody is asked anything for it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import mean

import numpy as np
import torch
from torch import Tensor

from unlabel.config import TrainSettings
from unlabel.data import Features, Rows
from unlabel.train.epochs import patience_of
from unlabel.train.loop import batch_count
from unlabel.train.progress import Epoch, Progress

#: Falls of the training loss and of the validation loss, from the second quarter of the epochs to
#: the fourth, that show a model which still learns. On 13 tables (4 seeds; 5, 10 and 20 epochs),
#: and tried on no others: those whose validation loss fell by less were at most a point of accuracy
#: better at twice the epochs, and mostly worse.
FALLING, FALLING_TOO = 0.1, 0.05
#: So few steps hardly move a model, so that its losses have not begun to fall: on the same tables
#: it then predicted little else than the most frequent label.
FEW_STEPS = 100
#: A model that knows nearly all its training rows has nothing left to learn from more epochs.
LEARNED = 0.99
#: How far the training accuracy may be above the validation accuracy, sampling error aside. A gap
#: of some points is usual for a good model of a small table.
GAP = 0.1
#: One-sided 5 % of the normal distribution: what chance alone makes of two equal models.
DEVIATIONS = 1.645
#: Most rows x columns x labels of the logistic regression, so that it takes part of a second. With
#: fewer than `FEWEST` training rows a label under that limit nothing is said.
MOST, FEWEST = 2_000_000, 10


def advise(
    progress: Progress,
    settings: TrainSettings,
    rows: Rows,
    labels: Tensor,
    features: Features | None = None,
) -> tuple[str, ...]:
    """Return what there is to say of a finished training; nothing where it went well.

    rows      that it trained on and validated by
    labels    of all rows
    features  the label holder's own, where it has any
    """
    if not progress.history:
        return ()
    steps = len(progress.history) * batch_count(rows.train, settings.batch)
    early = undertrained(progress.history, settings, steps)
    late = overfitted(progress, settings, rows)
    below = ""
    # Of a model that has hardly learned, that others do better says nothing more.
    if features is not None and not early:
        below = below_own_features(progress, settings, rows, labels, features)
    return tuple(sentence for sentence in (early, late, below) if sentence)


def undertrained(history: Sequence[Epoch], settings: TrainSettings, steps: int) -> str:
    """Say where a model still learned when its training ended, or had hardly begun to.

    With L1 .. L4 the mean losses of the quarters of the epochs: (L2 - L4) / L2 of the training loss
    is above `FALLING` and that of the validation loss above `FALLING_TOO`, no quarter had a lower
    validation loss than the last, and not all training rows are known yet. Quarters and not single
    epochs, since single validation losses jump; the second and not the third, since a falling rate
    makes the last epochs alike however much is left to learn.

    steps  that were taken in all; fewer than `FEW_STEPS` are too few whatever the losses do
    """
    part = len(history) // 4 or 1
    quarters = [history[max(0, end - part) : end] for end in range(len(history), 0, -part)][:4]
    if history[-1].accuracy >= LEARNED:
        return ""
    count = len(history)
    epochs = max(2 * count, math.ceil(FEW_STEPS * count / max(1, steps)))
    longer = f"Train longer (with `epochs` at {epochs}), or raise `lr` (now {settings.lr:g})."
    if _still_falls(quarters):
        return (
            f"The model is probably undertrained: its losses still fell near the end of its "
            f"{count} epochs. {longer}"
        )
    if steps < FEW_STEPS:
        return (
            f"The model is probably undertrained: it was trained for {steps} steps only. {longer}"
        )
    return ""


def _still_falls(quarters: Sequence[Sequence[Epoch]]) -> bool:
    """Tell whether losses fell to the end; the quarters come last first."""
    if len(quarters) < 2:
        return False
    earlier = quarters[min(2, len(quarters) - 1)]
    before, after = (mean(epoch.loss for epoch in some) for some in (earlier, quarters[0]))
    if before <= 0 or 1 - after / before <= FALLING:
        return False
    losses = [[e.validation_loss for e in quarter] for quarter in quarters]
    known = [mean(loss for loss in some if loss is not None) for some in losses if None not in some]
    if len(known) < len(quarters):
        return True
    lowest = known[0] < min(known[1:])
    return lowest and 1 - known[0] / known[min(2, len(known) - 1)] > FALLING_TOO


def overfitted(progress: Progress, settings: TrainSettings, rows: Rows) -> str:
    """Say where a model knows its training rows far better than others.

    With accuracies p on n training rows and q on m validation rows: p - q is larger than `GAP` and
    than `DEVIATIONS` times sqrt(p (1 - p) / n + q (1 - q) / m), its standard error.
    """
    kept = _kept(progress, settings, rows)
    p, q = kept.accuracy, kept.validation_accuracy
    if q is None:
        return ""
    error = math.sqrt(_variance(p, len(rows.train)) + _variance(q, len(rows.validation)))
    if p - q <= GAP + DEVIATIONS * error:
        return ""
    stop = "" if settings.patience else "stop early (`patience: 10`), "
    return (
        f"The model is probably overfitted: its accuracy is {100 * p:.1f} % on training rows and "
        f"{100 * q:.1f} % on validation rows. To hold it back, {stop}raise `weight_decay` (now "
        f"{settings.weight_decay:g}), take a smaller model, or bring more rows."
    )


def below_own_features(
    progress: Progress, settings: TrainSettings, rows: Rows, labels: Tensor, features: Features
) -> str:
    """Say where a logistic regression on the label holder's own features does better.

    On the same m validation rows, with accuracies q of the federation and r of the regression:
    r - q is larger than `DEVIATIONS` times sqrt((q (1 - q) + r (1 - r)) / m). The two agree on most
    rows, so that this is more than their real standard error, and chance raises no alarm.
    """
    kept = _kept(progress, settings, rows)
    q, m = kept.validation_accuracy, len(rows.validation)
    # Numbers of words are names, and sums of names mean nothing.
    values = features.values
    is_words = not values.is_floating_point() and values.dtype != torch.uint8
    if q is None or q == 1 or is_words:
        return ""
    r = _regression(features, labels, rows)
    if r is None or r - q <= DEVIATIONS * math.sqrt(_variance(q, m) + _variance(r, m)):
        return ""
    return (
        f"The federation is below a logistic regression on the label holder's own features alone: "
        f"{100 * q:.1f} % against {100 * r:.1f} % of the validation rows. Try a lower `lr` (now "
        f"{settings.lr:g}) or other models, and check that the parties' rows belong together."
    )


def _regression(features: Features, labels: Tensor, rows: Rows) -> float | None:
    """Return the validation accuracy of a logistic regression, None where it has too few rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    count = len(torch.unique(labels[rows.train]))
    most = MOST // (math.prod(features.shape) * count)
    if count < 2 or min(most, len(rows.train)) < FEWEST * count:
        return None
    train, held = rows.train[:: math.ceil(len(rows.train) / most)], rows.validation
    known, truth = labels[train].cpu().numpy(), labels[held].cpu().numpy()
    if len(np.unique(known)) < 2:
        return None
    values = features.values
    x, asked = (
        values.index_select(0, part.to(values.device)).flatten(1).double().cpu().numpy()
        for part in (train, held)
    )
    seen = np.isfinite(x)
    present = np.maximum(seen.sum(0), 1)
    middle = np.where(seen, x, 0).sum(0) / present
    spread = np.sqrt(np.where(seen, (x - middle) ** 2, 0).sum(0) / present)
    spread[spread == 0] = 1
    # Missing numbers stand at the mean, as in the federation's own scaling.
    x, asked = (np.nan_to_num((part - middle) / spread) for part in (x, asked))
    with warnings.catch_warnings():
        # A fit that is nearly at its end is as good for this.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=50).fit(x, known)
    return float((model.predict(asked) == truth).mean())


def _kept(progress: Progress, settings: TrainSettings, rows: Rows) -> Epoch:
    """Return the epoch whose weights were kept: the last, or the best where stopping was early."""
    if patience_of(settings, rows) and progress.best_epoch:
        return progress.history[progress.best_epoch - 1]
    return progress.history[-1]


def _variance(share: float, count: int) -> float:
    """Return the variance of a share that was counted on so many rows.

    A row more and a row less (Laplace), so that a share of 0 or 1 is not without error.
    """
    smooth = (share * count + 1) / (count + 2)
    return smooth * (1 - smooth) / max(1, count)
