"""What a passive party's last batches of embeddings were like, and whether a new one fits.

Of a batch H, n rows h, four figures are kept:

    size       mean over rows of |h|
    largest    maximum over rows of |h|
    spread     root mean square over rows of |h - mean(h)|
    sameness   correlation of the rows with what the party sent for the same rows before

With u the logarithm of a figure, m the median of the last eight and s = 1.4826 median |u - m| over
the whole window, their robust deviation, a batch is suspect where

    size       |u - m| > max(ln limit, 6 s)
    largest     u - m  > max(2 ln limit, 6 s)
    spread      m - u  > max(2 ln limit, 6 s)
    drift      |u - f| > 3 ln limit for size, f its median when the first window was full
    sameness    m - u  > max(m / 2, 6 s) where m > 0.3, of the figure itself and not its logarithm
    finite      a number is not finite
    replay      size, largest and spread are, to the last bit, those of a batch of other rows
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor

#: Batches from which what is usual now is told.
FEW = 8
#: Rows below which a batch says little about spread and sameness.
SMALL = 8
#: Robust deviations that are always allowed.
DEVIATIONS = 6.0
#: Sameness below which a party's rows are too noisy to be told apart.
NOISY = 0.3
#: By which power of the limit a figure may leave what is usual.
POWERS = {"size": 1, "largest": 2, "spread": 2, "drift": 3}
#: Whether a figure may not be larger (1), smaller (-1) or either (0) than usual.
SIGNS = {"size": 0, "largest": 1, "spread": -1}
#: A normal distribution has this many times its median deviation as standard deviation.
NORMAL = 1.4826
_TINY = 1e-30


@dataclass(frozen=True)
class Batch:
    """The figures of one batch; NaN where one cannot be told.

    mark      tells the rows of one batch from those of another
    """

    size: float
    largest: float
    spread: float
    sameness: float = math.nan
    mark: float = 0.0

    def compared(self, rule: str) -> float:
        """Return a figure as it is compared: its logarithm, but for sameness."""
        value: float = getattr(self, rule)
        if rule == "sameness" or not math.isfinite(value):
            return value
        return math.log(max(value, _TINY))

    def same_numbers(self, other: Batch) -> bool:
        """Tell whether another batch is of the same numbers, to the last bit."""
        same = self.largest == other.largest and self.size == other.size
        return same and self.spread == other.spread


@dataclass(frozen=True)
class Breach:
    """A rule that a batch breaks, the figure, and what is usual."""

    rule: str
    figure: float = math.nan
    usual: float = math.nan


class History:
    """The figures of one party's last batches."""

    def __init__(self, window: int, limit: float) -> None:
        self._limit = math.log(limit)
        self._last: deque[Batch] = deque(maxlen=window)
        self._first = math.nan
        # The figures as they are compared, those that could be told.
        self._known = {rule: deque[float](maxlen=window) for rule in (*SIGNS, "sameness")}

    def judge(self, batch: Batch) -> list[Breach]:
        """Name the rules a batch breaks, and remember it."""
        breaches = list(self._breaches(batch))
        self._remember(batch)
        if len(self._last) == self._last.maxlen and math.isnan(self._first):
            self._first = median(self._known["size"] or (math.nan,))
        return breaches

    def _remember(self, batch: Batch) -> None:
        self._last.append(batch)
        for rule, known in self._known.items():
            value = batch.compared(rule)
            if math.isfinite(value):
                known.append(value)

    def _breaches(self, batch: Batch) -> Iterator[Breach]:
        if not math.isfinite(batch.size + batch.largest):
            yield Breach("finite")
            return
        if any(each.same_numbers(batch) and each.mark != batch.mark for each in self._last):
            yield Breach("replay")
        for rule, sign in SIGNS.items():
            yield from self._jump(rule, sign, batch.compared(rule))
        distance = abs(batch.compared("size") - self._first)
        if distance > POWERS["drift"] * self._limit:  # false before the first window is full
            yield Breach("drift", batch.size, math.exp(self._first))
        yield from self._turn(batch.sameness)

    def _jump(self, rule: str, sign: int, new: float) -> Iterator[Breach]:
        old = self._known[rule]
        if len(old) < FEW:
            return
        usual = median(list(old)[-FEW:])
        gap = (new - usual) * sign if sign else abs(new - usual)
        # The cheaper condition first; both are false for NaN.
        if gap > POWERS[rule] * self._limit and gap > _room(old, usual):
            yield Breach(rule, math.exp(new), math.exp(usual))

    def _turn(self, new: float) -> Iterator[Breach]:
        old = self._known["sameness"]
        if len(old) < FEW:
            return
        usual = median(old)
        if usual > NOISY and usual - new > usual / 2 and usual - new > _room(old, usual):
            yield Breach("sameness", new, usual)

    def facts(self) -> dict[str, Any]:
        """Return the history as plain data."""
        plain = [[x if math.isfinite(x) else None for x in astuple(b)] for b in self._last]
        return {"last": plain, "first": None if math.isnan(self._first) else self._first}

    def load(self, facts: dict[str, Any]) -> None:
        """Continue a history that `facts` described."""
        for each in facts["last"]:
            self._remember(Batch(*(math.nan if x is None else float(x) for x in each)))
        self._first = math.nan if facts["first"] is None else float(facts["first"])


def figures(values: Tensor) -> Tensor:
    """Return size, largest and spread of a batch, unread.

    >>> figures(torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]))
    tensor([2.0000, 5.0000, 2.2111])
    """
    norms = torch.linalg.vector_norm(values, dim=1)
    spread = torch.linalg.vector_norm(values - values.mean(0)) / math.sqrt(len(values))
    return torch.stack((norms.mean(), norms.amax(), spread))


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """Return the correlation of each party's rows in two tensors [rows, parties, numbers].

    With a and b centred over rows: sum a b / sqrt(sum a^2 sum b^2); NaN where a number is.
    """
    a, b = one - one.mean(0), other - other.mean(0)
    size = torch.linalg.vector_norm(a, dim=(0, 2)) * torch.linalg.vector_norm(b, dim=(0, 2))
    ratio: Tensor = (a * b).sum((0, 2)) / size.clamp_min(_TINY)
    return ratio


def _room(old: Iterable[float], usual: float) -> float:
    return DEVIATIONS * NORMAL * median(abs(value - usual) for value in old)


def median(values: Iterable[float]) -> float:
    """Return the middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
