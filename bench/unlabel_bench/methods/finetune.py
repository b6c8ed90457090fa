"""Fine-tuning: go on training without the label and let it fade."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Work, sgd


@METHODS.register("finetune")
@dataclass(frozen=True)
class Finetune(Method):
    """Descend CE(F(H), y) over the retained rows for a few epochs more.

    Nothing pushes the label out; it fades as far as the others take its place.

    epochs        passes over the retained rows
    lr            rate of SGD, the same in all steps
    batch         rows a step; 0 is the batch of the training
    momentum      of SGD
    weight_decay  of SGD
    """

    about = "training goes on without the label"
    tells_partners = "the forgotten rows, by leaving them out"
    needs = "retained"
    rates = ("lr",)
    disclosure = Disclosure.of("retained")

    epochs: int = 5
    lr: float = 0.01
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(epochs=1, lr=0, batch=0)

    def run(self, work: Work) -> None:
        """Train on."""
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))
        objective = work.cross_entropy(work.active.labels)
        work.learn(work.retained_rows, objective, epochs=self.epochs, batch=self.batch)
