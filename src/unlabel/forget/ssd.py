"""Selective synaptic dampening (Foster, Schoepf and Brintrup, AAAI 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, steady
from unlabel.party.optimiser import expect
from unlabel.train import batches

#: The names of the sums that every party gathers.
EVERY, GONE = "every", "gone"


@METHODS.register("ssd")
@dataclass(frozen=True)
class SelectiveDampening(Method):
    """Shrink the weights that matter far more to the forgotten rows than to all rows.

    With I(D) = mean over batches of D of (d CE(batch) / d w)^2, normalisation as in prediction,
    I_D over all training rows and I_f over the forgotten ones, every party for its own weights:

        where I_f > alpha I_D:    w <- w min(strength I_D / I_f, 1)

    Nothing is trained. It hangs on alpha: too low and the rest goes too, too high and nothing does.

    alpha     how much more a weight must matter
    strength  lambda in the paper
    batch     rows whose mean loss is differentiated at a time
    """

    about: ClassVar[str] = "weights that matter most to the label are dampened; no training"
    discloses: ClassVar[str] = "the forgotten rows, in messages of their own, and their gradients"

    alpha: float = 10.0
    strength: float = 1.0
    batch: int = 64

    def __post_init__(self) -> None:
        expect("alpha", self.alpha, self.alpha >= 0, "0 or more")
        expect("strength", self.strength, self.strength >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 1, "at least 1")

    def needs(self) -> Data:
        """Return that importance is gathered over all rows."""
        return "all"

    def tells(self) -> Tells:
        """Return that the forgotten rows are asked for by themselves, too."""
        rows = "forgotten retained"
        return Tells.of(rows, rows, "Tune Weigh Rewrite", alone=True)

    def sweep(self) -> tuple[Method, ...]:
        """Return lower and higher thresholds."""
        return (self, *(replace(self, alpha=alpha) for alpha in (3.0, 30.0, 100.0)))

    def run(self, work: Work) -> None:
        """Gather both importances, then dampen."""
        work.tune(steady(0.0, 0.0), steady(0.0, 0.0))
        every = torch.cat([work.retained, work.rows]).sort().values
        objective = work.cross_entropy(work.active.labels)
        total, done = len(every) + len(work.rows), 0
        for rows, into in ((every, EVERY), (work.rows, GONE)):
            for piece in batches(rows, self.batch, seed=work.seed, epoch=-1):
                work.weigh(piece, objective(piece), into=into)
                done += len(piece)
                if work.steps % 10 == 0:
                    work.watch(done, total, "importance")
        work.rewrite("dampen", by=GONE, against=EVERY, threshold=self.alpha, strength=self.strength)
