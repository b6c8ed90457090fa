"""How the answers about forgotten rows differ from those of models that never had the label.

An attack that succeeds as often as on retrained models is no evidence by itself: the old model with
its output hidden and its scores stretched can match it too. So these two stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unlabel.audit.intervals import mean_interval
from unlabel.audit.measure import MEASURES, Comparison, Figure, Measure, Models
from unlabel.audit.measures.membership import entropy
from unlabel.audit.observation import Observation
from unlabel.terms import Depth


def _log_p(observed: Observation, labels: Sequence[int]) -> Tensor:
    """Return ln p of the labels that stay, renormalised, of test rows of the forgotten ones."""
    stay = [n for n in range(len(observed.names)) if n not in labels]
    return observed.test.of(labels).logits[:, stay].double().log_softmax(1)


def _mean_figure(values: list[float], bounds: tuple[float, float]) -> Figure:
    value = sum(values) / len(values)
    if len(values) < 2:
        return Figure(value)
    low, high = mean_interval(values)
    return Figure(value, max(bounds[0], low), min(bounds[1], high))


@MEASURES.register("divergence")
@dataclass(frozen=True)
class Divergence(Comparison):
    """Mean over test rows of the forgotten labels of KL(q || p), in nats.

    p is the model's answer over the labels that stay, q the mean of those of the models trained
    without the label (of one of these, of the others), or of refitted tops where there are none.
    The interval is Student's over the rows.
    """

    about: ClassVar[str] = "how far answers about the label's rows are from models without it"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"
    bounds: ClassVar[tuple[float, float]] = (0.0, inf)
    of_tops: ClassVar[bool] = True

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Average over rows."""
        aims = models.get("retrained") or models.get("refitted") or ()
        others = [each for each in aims if each is not observed]
        log_p = _log_p(observed, labels)
        if not others or not len(log_p):
            return Figure(None, note="It needs models without the label, and test rows of it.")
        q = torch.stack([_log_p(each, labels).exp() for each in others]).mean(0)
        gaps = (torch.xlogy(q, q) - q * log_p).sum(1).clamp_min(0)
        return _mean_figure(gaps.tolist(), self.bounds)


@MEASURES.register("entropy")
@dataclass(frozen=True)
class Entropy(Measure):
    """Mean over test rows of the forgotten labels of H(p) / ln C, over the C labels that stay.

    0 where the model is sure of another label, 1 where it cannot say; retrained models are the aim.
    """

    about: ClassVar[str] = "how undecided answers about the label's rows are (0: sure)"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"
    of_tops: ClassVar[bool] = True

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Average over rows."""
        log_p = _log_p(observed, labels)
        if not len(log_p) or log_p.shape[1] < 2:
            return Figure(None, note="It needs test rows of the label, and two labels that stay.")
        return _mean_figure((entropy(log_p) / log(log_p.shape[1])).tolist(), self.bounds)
