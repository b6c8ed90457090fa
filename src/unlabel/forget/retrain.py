"""The reference: the training recipe once more, without the forgotten rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work
from unlabel.party.optimiser import expect
from unlabel.train import batch_count, batches
from unlabel.train.epochs import epochs_of


@METHODS.register("retrain")
@dataclass(frozen=True)
class Retrain(Method):
    """Begin again from the weights before any training, and train on the retained rows.

    Scaling, order of the rows, crops, dropout and rates are those of a training that never met
    the forgotten labels: with the same seed it ends in the very same weights. Every other method
    is measured by it.

    epochs  passes over the rows; 0 is as many as the training had (early stopping is not repeated)
    """

    about: ClassVar[str] = "the reference: trained again without the label"
    discloses: ClassVar[str] = "the forgotten rows, all of them, by leaving them out"

    epochs: int = 0

    def __post_init__(self) -> None:
        expect("epochs", self.epochs, self.epochs >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that all other rows are trained on."""
        return "retained"

    def tells(self) -> Tells:
        """Return that every row but the forgotten ones is asked for."""
        return Tells.of("retained", "retained", "Tune Rewrite Prepare")

    def run(self, work: Work) -> None:
        """Train."""
        training, rows = work.training, work.retained
        epochs = self.epochs or epochs_of(training, len(rows))
        a_pass = batch_count(rows, work.batch)
        work.tune(training, training, steps=epochs * a_pass)
        work.rewrite("begin")
        work.active.prepare(rows, epochs * a_pass)
        for epoch in range(1, epochs + 1):
            planned = list(batches(rows, work.batch, seed=work.seed, epoch=epoch))
            for place, batch in enumerate(planned):
                work.active.ask_ahead(planned[place:], work.steps)
                loss = work.move(batch, work.lesson(batch), mode="train", table="main")
            work.expect_alive(loss=loss.item())
            work.watch(epoch, epochs, f"loss {loss.item():.3f}")
