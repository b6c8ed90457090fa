"""Fine-tuning: go on training without the label and let it fade."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, steady
from unlabel.party.optimiser import expect


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

    about: ClassVar[str] = "training goes on without the label"
    discloses: ClassVar[str] = "the forgotten rows, by leaving them out"

    epochs: int = 5
    lr: float = 0.01
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that all other rows are trained on."""
        return "retained"

    def tells(self) -> Tells:
        """Return that every row but the forgotten ones is asked for."""
        return Tells.of("retained", "retained")

    def is_control(self) -> bool:
        """Return whether nothing is learned at this rate."""
        return self.lr == 0

    def sweep(self) -> tuple[Method, ...]:
        """Return lower and higher rates."""
        return (self, *(replace(self, lr=lr) for lr in (0.003, 0.03, 0.1)))

    def run(self, work: Work) -> None:
        """Train on."""
        settings = steady(self.lr, self.momentum, self.weight_decay)
        work.tune(settings, settings)
        objective = work.cross_entropy(work.active.labels)
        work.learn(work.retained, objective, epochs=self.epochs, batch=self.batch)
