"""Intervals against tables, distributions and repetition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from unlabel.audit.intervals import (
    Array,
    bootstrap,
    mean_interval,
    median_interval,
    resampled,
    share_interval,
)


@pytest.mark.parametrize(("hits", "total"), [(0, 7), (7, 7), (1, 40), (13, 40), (500, 1000)])
def test_at_the_ends_of_a_share_so_many_hits_have_a_chance_of_one_in_forty(
    hits: int, total: int
) -> None:
    low, high = share_interval(hits, total)
    assert binom.sf(hits - 1, total, low) == pytest.approx(0.025 if hits else 1.0)
    assert binom.cdf(hits, total, high) == pytest.approx(0.025 if hits < total else 1.0)


def test_an_interval_of_a_mean_is_students() -> None:
    values = [0.1, 0.4, 0.2, 0.9, 0.3]
    reach = 2.776445 * np.std(values, ddof=1) / 5**0.5  # the table's t of 4 degrees of freedom
    assert mean_interval(values) == pytest.approx((0.38 - reach, 0.38 + reach), abs=1e-6)
    assert mean_interval([0.5, 0.5]) == (0.5, 0.5)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        low, high = median_interval(list(random.exponential(size=10)))
        covered.append(low <= np.log(2) <= high)
    # 1 - 2 (1 + 10) / 1024, worked out by hand.
    assert np.mean(covered) == pytest.approx(0.9785, abs=0.012)
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([4.0]) == (4.0, 4.0)


def test_rows_are_drawn_again_within_their_stratum() -> None:
    strata = np.array([0, 1, 1, 0, 1, 2])
    weights = np.concatenate(list(resampled(strata, 300, seed=1)))
    assert weights.shape == (300, 6)
    assert set(weights[:, strata == 0].sum(1)) == {2.0}
    assert set(weights[:, strata == 1].sum(1)) == {3.0}
    assert set(weights[:, 5]) == {1.0}
    assert weights.mean(0) == pytest.approx(1.0, abs=0.15)


def test_rows_are_drawn_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlabel.audit.intervals.PIECE", 50)
    pieces = list(resampled(np.zeros(20, dtype=np.int64), 5, seed=0))
    assert [len(piece) for piece in pieces] == [2, 2, 1]


def test_the_interval_of_a_mean_by_drawing_again_is_the_normal_one() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.1, 400)

    def mean(weights: Array) -> Array:
        found: Array = weights @ values / weights.sum(1)
        return found

    low, high = bootstrap(mean, np.zeros(400, dtype=np.int64), draws=2000)
    reach = norm.ppf(0.975) * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach), abs=0.002)


def test_a_statistic_that_drawing_again_makes_larger_is_moved_back() -> None:
    """The share of rows that differ from the rows themselves: 0 by itself, 1 - 1/e when drawn."""

    def missing(weights: Array) -> Array:
        found: Array = (weights == 0).mean(1)
        return found

    low, high = bootstrap(missing, np.zeros(500, dtype=np.int64))
    assert low == 0.0
    assert high < 0.05
