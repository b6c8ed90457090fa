"""Accuracy: of the labels that stay, of each label alone, and of the forgotten labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from unlabel.audit.intervals import share_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.terms import Depth

NO_RETAINED = "There are no test rows of labels that stay."


def accuracy(part: ObservedRows, missing: str) -> Figure:
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

    about: ClassVar[str] = "accuracy on test rows of the labels that stay"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count hits."""
        return accuracy(observed.test.without(labels), NO_RETAINED)


@MEASURES.register("per-label-accuracy")
@dataclass(frozen=True)
class PerLabelAccuracy(Measure):
    """a_l = share of the test rows of label l that are predicted; the value is the smallest
    a_l of the labels that stay, with the interval of that label.

    `labels` has name, number, rows, value and interval of every label, forgotten ones too.
    """

    about: ClassVar[str] = "accuracy of the worst label that stays"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count hits, label by label."""
        figures = [accuracy(observed.test.of([n]), "") for n in range(len(observed.names))]
        detail = {
            "labels": [
                {
                    "name": name,
                    "number": n,
                    "forgotten": n in labels,
                    "rows": figures[n].detail.get("rows", 0),
                    "value": figures[n].value,
                    "low": figures[n].low,
                    "high": figures[n].high,
                }
                for n, name in enumerate(observed.names)
            ]
        }
        stay = [f for n, f in enumerate(figures) if n not in labels and f.value is not None]
        if not stay:
            return Figure(None, detail=detail, note=NO_RETAINED)
        worst = min(stay, key=lambda figure: figure.value or 0.0)
        return Figure(worst.value, worst.low, worst.high, detail)


@MEASURES.register("forgotten-accuracy")
@dataclass(frozen=True)
class ForgottenAccuracy(Measure):
    """y_u = share of the test rows of the forgotten labels whose largest logit is their label's.

    The interval is that of Clopper and Pearson. `training` is the same of training rows.
    """

    about: ClassVar[str] = "accuracy on test rows of the forgotten labels"
    depth: ClassVar[Depth | None] = "answers"
    higher_is_better: ClassVar[bool | None] = False

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count hits."""
        missing = "There are no test rows of the forgotten labels."
        figure = accuracy(observed.test.of(labels), missing)
        training = accuracy(observed.train.of(labels), "").value
        return replace(figure, detail={**figure.detail, "training": training})
