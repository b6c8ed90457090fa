"""What it costs to bring a forgotten label back on frozen embeddings: samples, and steps."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import inf, isfinite
from statistics import median
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from unlabel.audit.classifiers import balanced, descend, head_inputs
from unlabel.audit.intervals import median_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.measures.probing import chosen_rows
from unlabel.audit.observation import Observation
from unlabel.terms import Depth

#: Samples of the label that are tried, in this order; then all there are.
SAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Test rows of either kind that heads are judged on at most.
TESTED = 1_000


@MEASURES.register("relearning")
@dataclass(frozen=True)
class Relearning(Measure):
    """Gradient steps until a linear head on frozen embeddings knows the forgotten labels again.

    A softmax head is first fitted to the labels that stay, with a row of zeros for each forgotten
    one. Then it takes full-batch steps of one fixed rate on 50 rows of every label that stays and
    `rows` of each forgotten one, every label weighing the same. The label is back when both

        accuracy on its test rows, and on those of the labels that stay, >= back * aim,

    so that calling everything by its name is not enough. The value is the median number of steps
    over draws of the rows, with the interval of a median. `samples` is the smallest number of
    the label's rows (1, 2, 4, .. 256, all) with which it is back in most draws within the steps.
    None, with a note, where it never is within the steps `tried`; a retrained model may well be
    such a case, and then it needs more than that. Test rows beyond 1,000 of either kind are left
    out.

    Only heads on embeddings that were seen once are trained. Parties are not asked to train: on
    which rows would name the others.

    back      share of the aim at which the label counts as back; nearer to 1 the count depends on
              the last few test rows, which ten samples may never win
    aim       accuracy to reach; 0 for the model's own on the labels that stay, without the rest
    rows      of each forgotten label in the count of steps
    retained  rows of each label that stays
    steps     to try at most
    draws     of rows
    """

    about: ClassVar[str] = "gradient steps until the label is back on frozen embeddings"
    depth: ClassVar[Depth | None] = "bottoms"
    slow: ClassVar[bool] = True
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"
    bounds: ClassVar[tuple[float, float]] = (0.0, inf)

    back: float = 0.8
    aim: float = 0.0
    rows: int = 10
    retained: int = 50
    steps: int = 300
    draws: int = 6

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count steps, then samples."""
        stays = observed.test.without(labels)
        if not (len(observed.train.of(labels)) and len(observed.test.of(labels)) and len(stays)):
            note = "Relearning needs training and test rows of the forgotten labels and others."
            return Figure(None, note=note)
        work = _Work(observed, labels, self)
        steps = work.steps(self.rows)
        value = median(steps)
        low, high = median_interval(steps)
        samples = work.samples()
        detail: dict[str, Any] = {
            "aim": work.aim,
            "steps": [_counted(n) for n in steps],
            "samples": samples,
            "rows": self.rows,
            "tried": self.steps,
        }
        notes = []
        if not isfinite(value):
            notes.append(f"not reached in {self.steps} steps with {self.rows} samples")
        if samples is None:
            notes.append("not reached with all samples")
        note = f"The label is {' and '.join(notes)}." if notes else ""
        return Figure(_counted(value), _counted(low), _counted(high), detail, note)


def _counted(steps: float) -> float | None:
    return steps if isfinite(steps) else None


def _some(mask: Tensor) -> Tensor:
    """Return positions of at most 1,000 rows of a mask, drawn at random."""
    rows = torch.nonzero(mask).flatten()
    random = torch.Generator().manual_seed(0)
    return rows[torch.randperm(len(rows), generator=random)[:TESTED]]


class _Work:
    """One model's embeddings, made ready for heads."""

    def __init__(
        self, observed: Observation, labels: tuple[int, ...], settings: Relearning
    ) -> None:
        self._settings, self._count = settings, len(observed.names)
        forgotten = torch.tensor(list(labels))
        self._labels = observed.train.labels
        self._gone = torch.isin(self._labels, forgotten)
        asked = torch.isin(observed.test.labels, forgotten)
        some = torch.cat([_some(asked), _some(~asked)])
        self._asked, self._truth = asked[some], observed.test.labels[some]
        self._x, self._test = head_inputs(
            observed.train.joined(), self._labels, labels, observed.test.joined()[some]
        )
        stay = torch.tensor([n for n in range(self._count) if n not in labels])
        part = observed.test.without(labels)
        right = stay[part.scores[:, stay].argmax(1)] == part.labels
        self.aim = settings.aim or float(right.double().mean())
        self._start = self._fit_others()

    def steps(self, few: int, enough: int = 0) -> list[float]:
        """Return after how many steps the label is back with a few samples, infinity if never.

        One number a draw. No more steps are taken once it is back in `enough` draws, 0 for all.
        """
        rows = torch.stack([self._rows(few, draw) for draw in range(self._settings.draws)])
        labels = self._labels[rows]
        weights = balanced(labels, self._count)
        back = [inf] * len(rows)
        moved = descend(self._start, self._x[rows], labels, weights, self._settings.steps)
        for step, head in enumerate(moved, 1):
            for draw in torch.nonzero(self._back(head)).flatten().tolist():
                back[draw] = min(back[draw], float(step))
            if sum(map(isfinite, back)) >= (enough or len(back)):
                break
        return back

    def samples(self) -> int | None:
        """Return the smallest number of samples with which the label is back in most draws.

        More samples are taken to be no worse, so that halving finds it.
        """
        most = int(self._labels[self._gone].bincount().max())
        tried = [*(n for n in SAMPLES if n < most), most]
        if not self._returns(most):
            return None
        return tried[bisect_left(tried, True, hi=len(tried) - 1, key=self._returns)]

    def _returns(self, few: int) -> bool:
        """Return whether the median number of steps is finite, for which most draws are enough."""
        return isfinite(median(self.steps(few, enough=self._settings.draws // 2 + 1)))

    def _rows(self, few: int, draw: int) -> Tensor:
        """Return positions of some rows of every label, of the forgotten ones as many as asked."""
        kinds = ((self._gone, few), (~self._gone, self._settings.retained))
        chosen = []
        for mask, count in kinds:
            here = torch.nonzero(mask).flatten()
            chosen.append(here[chosen_rows(self._labels[here], count, draw)])
        return torch.cat(chosen)

    def _fit_others(self) -> Tensor:
        """Return the head of the labels that stay, with zeros for the others."""
        rows = self._rows(0, 0)
        labels = self._labels[rows]
        weights, steps = balanced(labels, self._count), self._settings.steps
        head = zeros = torch.zeros(self._x.shape[1], self._count)
        for head in descend(zeros, self._x[rows], labels, weights, steps):  # noqa: B007
            pass
        head[:, self._labels[self._gone].unique()] = 0
        return head

    def _back(self, head: Tensor) -> Tensor:
        """Return, for each draw, whether the label is back."""
        right = (self._test @ head).argmax(-1) == self._truth
        enough = self._settings.back * self.aim
        forgotten = right[:, self._asked].double().mean(1)
        retained = right[:, ~self._asked].double().mean(1)
        return (forgotten >= enough) & (retained >= enough)
