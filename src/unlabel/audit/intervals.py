"""95 % confidence intervals of shares, means, medians, and of any statistic by resampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]
#: A statistic of weighted rows: weights [draws, rows] to values [draws].
Statistic = Callable[[Array], Array]

#: Share of repetitions in which an interval covers the truth.
CONFIDENCE = 0.95
DRAWS = 500
#: Weights held at a time.
PIECE = 4_000_000


def share_interval(hits: int, total: int) -> Interval:
    """Return the interval of Clopper and Pearson for a share of hits in total.

    Its ends are the shares at which so many hits or more, and so many or fewer, would have a
    probability of 2.5 % each.

    >>> [round(end, 4) for end in share_interval(0, 10)]
    [0.0, 0.3085]
    """
    from scipy.stats import binomtest

    low, high = binomtest(hits, total).proportion_ci(CONFIDENCE, "exact")
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean -+ t s / sqrt(n), with Student's t of n - 1 degrees of freedom; n is at least 2.

    >>> [round(end, 3) for end in mean_interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    from scipy.stats import sem, t

    mean = float(np.mean(values))
    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * sem(values))
    return mean - reach, mean + reach


def prediction_interval(values: Sequence[float], parts: int = 1) -> Interval:
    """Return mean -+ t s sqrt(1 + 1 / n): where one more value of the same kind lies in 95 %.

    t is Student's, of n - 1 degrees of freedom; n is at least 2.

    parts  intervals that are all to hold in 95 % (Bonferroni)

    >>> [round(end, 3) for end in prediction_interval([1.0, 2.0, 3.0])]
    [-2.968, 6.968]
    """
    from scipy.stats import t

    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    factor = float(t.ppf(1 - (1 - CONFIDENCE) / 2 / parts, len(values) - 1))
    reach = factor * spread * (1 + 1 / len(values)) ** 0.5
    return mean - reach, mean + reach


def median_interval(values: Sequence[float]) -> Interval:
    """Return two of the values; the median lies between them whatever the distribution.

    They are the order statistics r and n + 1 - r with the largest r for which
    P(Binomial(n, 1/2) < r) is at most 2.5 %; of fewer than 6 values the smallest and the largest.

    >>> median_interval([float(n) for n in range(10)])
    (1.0, 8.0)
    """
    from scipy.stats import quantile_test

    low, high = quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    return (float(low), float(high)) if low == low else (min(values), max(values))


def bootstrap(
    statistic: Statistic,
    strata: NDArray[np.int64],
    *,
    bounds: Interval = (0.0, 1.0),
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Return the interval of a statistic over rows resampled within each stratum.

    strata  [rows], which stratum a row is of
    bounds  what the statistic cannot leave

    A statistic such as a largest difference is higher on resampled rows than on the rows
    themselves. So the 2.5 % and 97.5 % points of the draws are moved by what their mean is off,
    which is none of the methods of `scipy.stats.bootstrap`; nor does that take strata of one row.
    """
    value = float(statistic(np.ones((1, len(strata))))[0])
    drawn = np.concatenate([statistic(piece) for piece in resampled(strata, draws, seed)])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) + (value - drawn.mean())
    return float(np.clip(min(low, value), *bounds)), float(np.clip(max(high, value), *bounds))


def resampled(strata: NDArray[np.int64], draws: int, seed: int) -> Iterator[Array]:
    """Yield how often each row comes up when as many are drawn with replacement, by stratum."""
    random = np.random.default_rng(seed)
    rows = len(strata)
    groups = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    at_a_time = max(1, PIECE // max(1, rows))
    for start in range(0, draws, at_a_time):
        count = min(at_a_time, draws - start)
        weights = np.zeros((count, rows))
        for group in groups:
            picked = random.integers(0, len(group), (count, len(group)))
            picked += np.arange(count)[:, None] * len(group)
            times = np.bincount(picked.ravel(), minlength=count * len(group))
            weights[:, group] = times.reshape(count, len(group))
        yield weights
