"""Amnesiac unlearning (Graves, Nagisetty and Ganesh, AAAI 2021), in both its forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, adam
from unlabel.party import REMEMBERED, Stream
from unlabel.party.optimiser import expect, one_of


@METHODS.register("amnesiac")
@dataclass(frozen=True)
class Amnesiac(Method):
    """Teach the forgotten rows random other labels, or take back what they taught.

    relabel   y_i of every forgotten row becomes a random label that stays, once and for all; then
              CE(F(H), y) is descended over all rows, as in training
    subtract  w <- w - sum over the batches of training that held a forgotten row of what that
              batch changed; then the retained rows are trained on. The training must have kept
              the sum (setting `remember`), and told every partner which batches those were.

    With batches in which nearly every label occurs, `subtract` takes nearly all of the training
    back. The published code of the first form trains 10 epochs; 3 is what the comparison in
    vertical federated learning used.

    variant  relabel or subtract
    epochs   passes over the rows
    lr       rate of Adam
    batch    rows a step; 0 is the batch of the training
    """

    about: ClassVar[str] = "the label's rows relearned under random other labels"
    discloses: ClassVar[str] = (
        "the forgotten rows, by the size of their gradients; subtract: by leaving them out"
    )

    variant: Literal["relabel", "subtract"] = "relabel"
    epochs: int = 3
    lr: float = 1e-4
    batch: int = 0

    def __post_init__(self) -> None:
        one_of("variant", self.variant, ("relabel", "subtract"))
        expect("epochs", self.epochs, self.epochs >= 0, "0 or more")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that all rows are trained on, or all others."""
        return "all" if self.variant == "relabel" else "retained"

    def tells(self) -> Tells:
        """Return that the forgotten rows are asked for among all others, or left out."""
        if self.variant == "relabel":
            return Tells.of("forgotten retained", "forgotten retained")
        return Tells.of("retained", "retained", "Tune Rewrite")

    def is_control(self) -> bool:
        """Return whether nothing is learned and nothing subtracted."""
        return self.variant == "relabel" and (self.lr == 0 or self.epochs == 0)

    def shows_rows(self) -> bool:
        """Return that a row with a wrong label has a far larger gradient than others."""
        return self.variant == "relabel"

    def sweep(self) -> tuple[Method, ...]:
        """Return higher rates."""
        return (self, *(replace(self, lr=lr) for lr in (3e-4, 1e-3, 3e-3)))

    def run(self, work: Work) -> None:
        """Relabel or subtract, then train."""
        work.tune(adam(self.lr), adam(self.lr))
        labels, rows = work.active.labels, work.retained
        if self.variant == "relabel":
            labels = relabelled(work)
            rows = torch.cat([work.retained, work.rows]).sort().values
        elif set(work.training.remember) == set(work.labels) and work.first:
            work.rewrite("subtract", by=REMEMBERED)
        else:
            raise ForgetError(
                "The training kept no updates of exactly these labels, or an earlier commit "
                "dropped them; train with `remember` set to them, or use variant=relabel."
            )
        work.learn(rows, work.cross_entropy(labels), epochs=self.epochs, batch=self.batch)


def relabelled(work: Work) -> Tensor:
    """Return all labels, with a random one that stays in place of each that is to be forgotten."""
    stay = torch.tensor([n for n in range(work.count) if n not in work.gone])
    draw = Stream(work.seed, "relabel").generator(0)
    drawn = stay[torch.randint(len(stay), (len(work.rows),), generator=draw)]
    labels = work.active.labels.clone()
    labels[work.rows] = drawn.to(labels.device)
    return labels
