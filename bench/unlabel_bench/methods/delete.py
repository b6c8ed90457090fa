"""DELETE (Zhou et al., CVPR 2025): distil the original without the label on its own rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Objective, Work, divergence, sgd


@METHODS.register("delete")
@dataclass(frozen=True)
class Delete(Method):
    """Move the forgotten rows to the original's output with the label masked, renormalised.

    With q(x) that output of the original model, over all forgotten training rows:

        min KL(q(x) || p(x))

    The same target as our default has, on thousands of rows of the label and none of the others,
    without mixing and without holding the rest.

    epochs        passes over the forgotten rows
    lr            rate of SGD
    batch         rows a step; 0 is the batch of the training
    momentum      of SGD
    weight_decay  of SGD
    """

    about = "the label's rows moved to the masked, renormalised output"
    tells_partners = "the forgotten rows, in messages of their own, and their gradients"
    needs = "forgotten"
    rates = ("lr",)
    drifts = True
    disclosure = Disclosure.of("forgotten", alone=True)

    epochs: int = 10
    lr: float = 1e-2
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(epochs=1, lr=0, batch=0)

    def run(self, work: Work) -> None:
        """Ask the original once, then distil."""
        rows = work.forgotten_rows
        target = work.by_row(rows, work.retained_softmax(work.active.logits(rows)))
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))

        def objective(batch: Tensor) -> Objective:
            return lambda e: divergence(target[batch], work.active.apply_top(e))

        work.learn(rows, objective, epochs=self.epochs, batch=self.batch)
