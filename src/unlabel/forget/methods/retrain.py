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
    the forgotten labels, be they whole labels or those of people: with the same seed it ends in the
    very same weights, bit for bit. Every other method is measured by it. Where early stopping
    returned to an epoch, it ends with that one, as no epoch of it is judged again; a training
    without these labels might have chosen another.

    epochs  passes over the rows, trained to the end; 0 is as the training was
    """

    about = "the reference: trained again without the label, or the people's labels"
    people = True
    anew = True
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
        epochs = self.epochs or epochs_of(work.training, len(rows))
        work.train_anew(rows, epochs, stop=0 if self.epochs else work.kept_epoch)
