"""Areas and powers against scikit-learn, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
            true[false <= 0.25 + 1e-9].max(),
        )
        one = weights[None]
        got = (ranking.auc(one)[0], ranking.power(0.25, one)[0])
        assert got == pytest.approx(expected, abs=1e-9)


def test_by_hand() -> None:
    # Positives 3 and 1, negatives 2 and 1: pairs 3>2, 3>1, 1<2, 1=1.
    ranking = Ranking(np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, True, False, False]))
    assert ranking.auc()[0] == pytest.approx(2.5 / 4)
    assert ranking.power(0.0)[0] == 0.5
    assert ranking.power(0.5)[0] == 0.5
    assert ranking.power(1.0)[0] == 1.0
