"""DELETE (Zhou et al., CVPR 2025): distil the original without the label on its own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, steady
from unlabel.party.optimiser import expect


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

    about: ClassVar[str] = "the label's rows moved to the masked, renormalised output"
    discloses: ClassVar[str] = "the forgotten rows, in messages of their own, and their gradients"

    epochs: int = 10
    lr: float = 1e-2
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that the label's own rows are enough."""
        return "forgotten"

    def tells(self) -> Tells:
        """Return that the forgotten rows are asked for by themselves."""
        return Tells.of("forgotten", "forgotten", alone=True)

    def sweep(self) -> tuple[Method, ...]:
        """Return lower rates."""
        return (self, *(replace(self, lr=lr) for lr in (1e-4, 1e-3, 3e-3)))

    def control(self) -> Method | None:
        """Return the same run at rate 0: batches of one label move normalisation by themselves."""
        return replace(self, lr=0.0, weight_decay=0.0)

    def is_control(self) -> bool:
        """Return whether nothing is learned at this rate."""
        return self.lr == 0

    def run(self, work: Work) -> None:
        """Ask the original once, then distil."""
        active = work.active
        target = torch.zeros(len(active.labels), work.count, device=active.device)
        target[work.rows] = work.without(active.logits(work.rows))
        settings = steady(self.lr, self.momentum, self.weight_decay)
        work.tune(settings, settings)

        def objective(rows: Tensor) -> Callable[[list[Tensor]], Tensor]:
            def gap(embeddings: list[Tensor]) -> Tensor:
                # KL(q || p) up to the entropy of q, which does not move.
                log_p = active.apply_top(embeddings).log_softmax(1)
                return -(target[rows] * log_p).sum(1).mean()

            return gap

        work.learn(work.rows, objective, epochs=self.epochs, batch=self.batch)
