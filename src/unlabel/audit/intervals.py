"""How sure a figure is: 95 % intervals of shares, of means, of medians, and of anything else."""

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
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, total - hits + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, total - hits, 1 - tail)) if hits < total else 1.0
    return low, high


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean -+ t s / sqrt(n), with Student's t of n - 1 degrees of freedom; n is at least 2.

    >>> [round(end, 3) for end in mean_interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    from scipy.special import stdtrit

    found = np.asarray(values, dtype=np.float64)
    t = float(stdtrit(len(found) - 1, (1 + CONFIDENCE) / 2))
    reach = t * float(found.std(ddof=1)) / len(found) ** 0.5
    return float(found.mean()) - reach, float(found.mean()) + reach


def median_interval(values: Sequence[float]) -> Interval:
    """Return the second smallest and the second largest of ten values or so.

    The median lies between order statistics r and n + 1 - r with probability
    1 - 2 P(Binomial(n, 1/2) < r), whatever the distribution: 97.9 % for n = 10 and r = 2.

    >>> median_interval([float(n) for n in range(10)])
    (1.0, 8.0)
    """
    found = sorted(values)
    # The largest r that keeps the tail small enough; the ends themselves where n is small.
    chance, tail, r = 0.5 ** len(found), 0.0, 0
    while tail + chance <= (1 - CONFIDENCE) / 2 and r < (len(found) - 1) // 2:
        tail += chance
        r += 1
        chance *= (len(found) - r + 1) / r
    edge = max(0, r - 1)
    return found[edge], found[len(found) - 1 - edge]


def bootstrap(
    statistic: Statistic,
    strata: NDArray[np.int64],
    *,
    bounds: Interval = (0.0, 1.0),
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Return the interval of a statistic of rows that are drawn again from within each stratum.

    strata  [rows], which stratum a row is of
    bounds  what the statistic cannot leave

    A statistic such as a largest difference is higher on rows drawn again than on the rows
    themselves. So the 2.5 % and 97.5 % points of the draws are moved by what their mean is off.
    """
    value = float(statistic(np.ones((1, len(strata))))[0])
    drawn = np.concatenate([statistic(piece) for piece in resampled(strata, draws, seed)])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) + (value - drawn.mean())
    return (
        float(np.clip(min(low, value), *bounds)),
        float(np.clip(max(high, value), *bounds)),
    )


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
