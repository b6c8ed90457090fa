"""y_u: how often a forgotten label is still predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from unlabel.audit.measure import MEASURES, Figure, Level, Measure
from unlabel.audit.retained_accuracy import accuracy
from unlabel.audit.seen import Seen


@MEASURES.register("forgotten-accuracy")
@dataclass(frozen=True)
class ForgottenAccuracy(Measure):
    """y_u = share of the test rows of the forgotten labels whose largest logit is their label's.

    The interval is that of Clopper and Pearson. `training` is the same of training rows.
    """

    about: ClassVar[str] = "accuracy on test rows of the forgotten labels (y_u)"
    level: ClassVar[Level | None] = "output"
    higher_is_better: ClassVar[bool | None] = False

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Count hits."""
        found = accuracy(seen.test.of(labels), "There are no test rows of the forgotten labels.")
        training = accuracy(seen.train.of(labels), "").value
        return replace(found, detail={**found.detail, "training": training})
