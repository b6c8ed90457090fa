"""D_r: how well the labels that stay are still predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unlabel.audit.intervals import share_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.seen import Part, Seen


def accuracy(part: Part, missing: str) -> Figure:
    """Return the share of rows whose label is predicted, with the interval of the share.

    missing  what to say where there are no rows
    """
    if not len(part):
        return Figure(None, note=missing)
    hits = int((part.logits.argmax(1) == part.labels).sum())
    return Figure(hits / len(part), *share_interval(hits, len(part)), {"rows": len(part)})


@MEASURES.register("retained-accuracy")
@dataclass(frozen=True)
class RetainedAccuracy(Measure):
    """D_r = share of the test rows of the labels that stay whose largest logit is their label's.

    The interval is that of Clopper and Pearson.
    """

    about: ClassVar[str] = "accuracy on test rows of the labels that stay (D_r)"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Count hits."""
        return accuracy(seen.test.without(labels), "There are no test rows of labels that stay.")
