"""Amnesiac unlearning (Graves, Nagisetty and Ganesh, AAAI 2021), in both its forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unlabel.config import one_of
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Disclosure, Method
from unlabel.forget.work import Work, adam
from unlabel.party import REMEMBERED, Stream
from unlabel.train import Forgotten


@METHODS.register("amnesiac")
@dataclass(frozen=True)
class Amnesiac(Method):
    """Teach the forgotten rows random other labels, or take back what they taught.

    relabel   y_i of every forgotten row becomes a random label that stays, once and for all; then
              CE(F(H), y) is descended over all rows, as in training
    subtract  w <- w - sum over the batches of training that held a forgotten row of what that
              batch changed; then the retained rows are trained on. The training must have kept
              the sum (setting `remember`), which told every partner which batches those were.

    With batches in which nearly every label occurs, `subtract` takes nearly all of the training
    back. The published code of the first form trains 10 epochs; 3 is what the comparison in
    vertical federated learning used.

    variant  relabel or subtract
    epochs   passes over the rows
    lr       rate of Adam
    batch    rows a step; 0 is the batch of the training
    """

    about = "the label's rows relearned under random other labels"
    tells_partners = (
        "the forgotten rows, by the size of their gradients; subtract: by leaving them out"
    )

    variant: Literal["relabel", "subtract"] = "relabel"
    epochs: int = 3
    lr: float = 1e-4
    batch: int = 0

    def __post_init__(self) -> None:
        one_of("variant", self.variant, ("relabel", "subtract"))
        self.expect_at_least(epochs=0, lr=0, batch=0)

    @property
    def needs(self) -> Data:
        """All rows, or all but the forgotten ones."""
        return "all" if self.variant == "relabel" else "retained"

    @property
    def disclosure(self) -> Disclosure:
        """The forgotten rows are asked for among all others, or left out."""
        if self.variant == "relabel":
            return Disclosure.of("forgotten retained")
        return Disclosure.of("retained", messages="BeginRequest TransformWeights")

    @property
    def is_control(self) -> bool:
        """Whether nothing is learned and nothing subtracted."""
        return self.variant == "relabel" and (self.lr == 0 or self.epochs == 0)

    @property
    def shows_rows(self) -> bool:
        """A row with a wrong label has a far larger gradient than others."""
        return self.variant == "relabel"

    def run(self, work: Work) -> None:
        """Relabel or subtract, then train."""
        work.use_optimisers(adam(self.lr))
        labels, rows = work.active.labels, work.retained_rows
        if self.variant == "relabel":
            labels, rows = relabelled(work), work.training_rows
        elif set(work.training.remember) == set(work.labels) and work.earlier == Forgotten():
            work.transform_weights("subtract", sum_name=REMEMBERED)
        else:
            raise ForgetError(
                "The training kept no updates of exactly these labels, or an earlier commit "
                "dropped them; train with `remember` set to them, or use variant=relabel."
            )
        work.learn(rows, work.cross_entropy(labels), epochs=self.epochs, batch=self.batch)


def relabelled(work: Work) -> Tensor:
    """Return all labels, with a random one that stays in place of each that is to be forgotten."""
    stay = torch.tensor([n for n in range(work.label_count) if n not in work.forgotten_labels])
    draw = Stream(work.seed, "relabel").generator(0)
    drawn = stay[torch.randint(len(stay), (len(work.forgotten_rows),), generator=draw)]
    labels = work.active.labels.clone()
    labels[work.forgotten_rows] = drawn.to(labels.device)
    return labels
