"""The reference: the training recipe once more, without the forgotten rows."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Work
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

    about = "the reference: trained again without the label"
    tells_partners = "the forgotten rows, all of them, by leaving them out"
    needs = "retained"
    disclosure = Disclosure.of("retained", messages="BeginRequest TransformWeights Prepare")
    aim = "bottoms"

    epochs: int = 0

    def __post_init__(self) -> None:
        self.expect_at_least(epochs=0)

    def run(self, work: Work) -> None:
        """Train."""
        rows = work.retained_rows
        work.train_anew(rows, self.epochs or epochs_of(work.training, len(rows)))
