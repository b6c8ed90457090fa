"""Residual knowledge: by hand, by simulation, and where it is undefined."""

from __future__ import annotations

import numpy as np
import pytest

from unlabel.audit import Figure, residual_knowledge
from unlabel.audit.residual import REACH, standard_error


def figure(value: float, error: float) -> Figure:
    return Figure(value, value - REACH * error, value + REACH * error)


def test_the_ends_of_the_scale_and_beyond() -> None:
    original, retrained = figure(0.9, 0.01), [figure(0.5, 0.01), figure(0.5, 0.01)]
    for value, expected in ((0.9, 1.0), (0.5, 0.0), (0.6, 0.25), (0.4, -0.25), (1.0, 1.25)):
        found = residual_knowledge(figure(value, 0.01), original, retrained)
        assert found.value == pytest.approx(expected)


def test_the_error_by_hand() -> None:
    found = residual_knowledge(figure(0.7, 0.03), figure(0.9, 0.02), [figure(0.5, 0.04)])
    # r = 1/2: sqrt(0.03^2 + 0.25 0.02^2 + 0.25 0.04^2) / 0.4
    assert found.detail["error"] == pytest.approx((0.0009 + 0.0001 + 0.0004) ** 0.5 / 0.4)
    assert standard_error(found) == pytest.approx(found.detail["error"])


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        f, o, *t = random.normal([0.6, 0.9, 0.5, 0.5, 0.5, 0.5], [0.02, 0.02] + [0.03] * 4)
        found = residual_knowledge(figure(f, 0.02), figure(o, 0.02), [figure(x, 0.03) for x in t])
        assert found.low is not None
        assert found.high is not None
        covered.append(found.low <= 0.25 <= found.high)
    assert 0.93 < np.mean(covered) < 0.985


def test_it_is_undefined_unless_the_ends_are_three_errors_apart() -> None:
    near = residual_knowledge(figure(0.6, 0.01), figure(0.62, 0.01), [figure(0.58, 0.01)])
    assert near.value is None
    assert "differ by 0.040, less than three standard errors of 0.014" in near.note
    apart = residual_knowledge(figure(0.6, 0.01), figure(0.63, 0.01), [figure(0.58, 0.01)])
    assert apart.value == pytest.approx(0.4)


def test_the_spread_of_retrained_models_counts_where_it_is_larger_than_their_intervals() -> None:
    original, own = figure(0.9, 0.001), 0.001
    calm = residual_knowledge(original, original, [figure(x, own) for x in (0.5, 0.5, 0.5)])
    wild = residual_knowledge(original, original, [figure(x, own) for x in (0.2, 0.5, 0.8)])
    assert calm.value == 1.0
    assert wild.value is None
    # 0.3 / sqrt(3), and the original's own.
    assert wild.detail["difference_error"] == pytest.approx((0.03 + 1e-6) ** 0.5, rel=1e-3)


def test_without_a_value_an_interval_or_a_retrained_model_it_is_undefined() -> None:
    fine = figure(0.5, 0.01)
    for case in (
        (Figure(None), fine, [fine]),
        (fine, Figure(0.9), [fine]),
        (fine, fine, []),
        (fine, fine, [fine, Figure(None)]),
    ):
        found = residual_knowledge(*case)
        assert found.value is None
        assert "needs a value with an interval" in found.note
