"""How long a training lasts where nobody says so: epochs and patience follow from the data.

With n training rows in batches of b, an epoch has s = ceil(n / b) steps, and

    epochs   = min(MOST, max(LEAST, ceil(STEPS / s)))
    patience = ceil(epochs / 2), or 0 where there are no validation rows

A small table has few steps an epoch, so that 20 epochs are too few to fit it; a large one needs no
more than 20. Where more epochs overfit, early stopping returns to the best version. It waits for
half of the epochs, since a cosine schedule does most of its good in its second half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unlabel.config import AUTO, TrainSettings
from unlabel.data import Rows

#: Steps that a training has at least, unless that takes more than `MOST` epochs.
STEPS = 600
#: The fewest and the most epochs.
LEAST, MOST = 20, 100


def epochs_of(settings: TrainSettings, rows: int) -> int:
    """Return the number of epochs over so many training rows.

    >>> [epochs_of(TrainSettings(), rows) for rows in (100, 609, 3600)]
    [100, 60, 20]
    """
    if settings.epochs != AUTO:
        return settings.epochs
    steps = math.ceil(rows / settings.batch)
    return min(MOST, max(LEAST, math.ceil(STEPS / max(1, steps))))


def patience_of(settings: TrainSettings, rows: Rows) -> int:
    """Return after how many epochs without a better version a training stops; 0 is never."""
    if len(rows.validation) == 0:
        return 0
    if settings.patience != AUTO:
        return settings.patience
    return math.ceil(epochs_of(settings, len(rows.train)) / 2)


def resolve(settings: TrainSettings, rows: Rows) -> TrainSettings:
    """Return the settings with the numbers that `auto` stands for on these rows.

    A run does so once, when it is created, and keeps the numbers: so it trains the same when it is
    resumed, and whatever it has forgotten by then.
    """
    epochs, patience = epochs_of(settings, len(rows.train)), settings.patience
    if patience == AUTO:
        patience = patience_of(settings, rows)
    return replace(settings, epochs=epochs, patience=patience)


def change(settings: TrainSettings, changes: Mapping[str, Any], rows: Rows) -> TrainSettings:
    """Return a run's settings with some of them changed before its training begins.

    Where `auto` chose the patience, it goes with the epochs: other epochs are trained to their end
    unless another patience is given too.
    """
    automatic = replace(settings, epochs=AUTO, patience=AUTO)
    if settings == resolve(automatic, rows):
        settings = automatic
    return resolve(replace(settings, **changes), rows)


def keep(settings: TrainSettings, earlier: TrainSettings) -> TrainSettings:
    """Return the settings with the numbers that an earlier sitting found for `auto`."""
    if settings.epochs != AUTO:
        return settings
    patience = earlier.patience if settings.patience == AUTO else settings.patience
    return replace(settings, epochs=earlier.epochs, patience=patience)
