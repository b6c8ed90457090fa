"""Accuracy label by label: a good mean may hide one label that paid for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.retained_accuracy import accuracy
from unlabel.audit.seen import Seen


@MEASURES.register("per-label-accuracy")
@dataclass(frozen=True)
class PerLabelAccuracy(Measure):
    """a_l = share of the test rows of label l that are predicted; the value is the smallest
    a_l of the labels that stay, with the interval of that label.

    `labels` has name, number, rows, value and interval of every label, forgotten ones too.
    """

    about: ClassVar[str] = "accuracy of the worst label that stays"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Count hits, label by label."""
        found = [accuracy(seen.test.of([n]), "") for n in range(len(seen.names))]
        detail = {
            "labels": [
                {
                    "name": name,
                    "number": n,
                    "forgotten": n in labels,
                    "rows": found[n].detail.get("rows", 0),
                    "value": found[n].value,
                    "low": found[n].low,
                    "high": found[n].high,
                }
                for n, name in enumerate(seen.names)
            ]
        }
        stay = [f for n, f in enumerate(found) if n not in labels and f.value is not None]
        if not stay:
            return Figure(None, detail=detail, note="There are no test rows of labels that stay.")
        worst = min(stay, key=lambda figure: figure.value or 0.0)
        return Figure(worst.value, worst.low, worst.high, detail)
