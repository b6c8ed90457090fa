"""Areas, best thresholds and powers against scikit-learn and scipy, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score, roc_curve

from unlabel.audit.ranking import Ranking

rows = st.lists(
    st.tuples(st.integers(-4, 4).map(float), st.booleans(), st.integers(1, 3)), min_size=2
).filter(lambda found: len({positive for _, positive, _ in found}) == 2)


@given(rows)
def test_figures_are_those_of_scikit_learn_under_any_weights(
    found: list[tuple[float, bool, int]],
) -> None:
    values = np.array([value for value, _, _ in found])
    positive = np.array([kind for _, kind, _ in found])
    times = np.array([count for _, _, count in found])
    ranking = Ranking(values, positive)
    for weights in (np.ones(len(found)), times.astype(float)):
        false, true, _ = roc_curve(positive, values, sample_weight=weights, drop_intermediate=False)
        expected = (
            roc_auc_score(positive, values, sample_weight=weights),
            (true - false).max(),
            true[false <= 0.25 + 1e-9].max(),
        )
        one = weights[None]
        got = (ranking.auc(one)[0], ranking.youden(one)[0], ranking.power(0.25, one)[0])
        assert got == pytest.approx(expected, abs=1e-9)


@given(rows)
def test_the_best_threshold_gives_the_largest_difference(
    found: list[tuple[float, bool, int]],
) -> None:
    values = np.array([value for value, _, _ in found])
    positive = np.array([kind for _, kind, _ in found])
    ranking = Ranking(values, positive)
    threshold = ranking.best_threshold()
    if threshold is None:
        assert ranking.youden()[0] == pytest.approx(0.0, abs=1e-9)
        return
    above = values > threshold
    gained = above[positive].mean() - above[~positive].mean()
    assert gained == pytest.approx(ranking.youden()[0])


def test_the_largest_difference_is_the_distance_of_kolmogorov_and_smirnov() -> None:
    random = np.random.default_rng(0)
    high, low = random.normal(1, 1, 80), random.normal(0, 1, 120)
    ranking = Ranking(np.concatenate([high, low]), np.arange(200) < 80)
    expected = ks_2samp(high, low, alternative="less").statistic
    assert ranking.youden()[0] == pytest.approx(expected)


def test_by_hand() -> None:
    # Positives 3 and 1, negatives 2 and 1: pairs 3>2, 3>1, 1<2, 1=1.
    ranking = Ranking(np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, True, False, False]))
    assert ranking.auc()[0] == pytest.approx(2.5 / 4)
    assert ranking.youden()[0] == 0.5
    assert ranking.best_threshold() == 2.5
    assert ranking.power(0.0)[0] == 0.5
    assert ranking.power(0.5)[0] == 0.5
    assert ranking.power(1.0)[0] == 1.0
