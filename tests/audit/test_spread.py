"""How far a figure lies from references, by hand and by what must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.audit.gate import RULES
from unlabel.audit.spread import RECORDED, Spread, angle, explained

figures = st.floats(-5, 5)


def test_one_reference_says_nothing_of_spread_so_the_record_does() -> None:
    # (0.9 - 0.5) / (0.1 sqrt(2)): the reference itself is as far from the middle as the value.
    assert Spread(0.1, 4.0, 1.0).away(0.9, [0.5]) == pytest.approx(0.4 / (0.1 * math.sqrt(2)))


def test_three_references_count_beside_the_record() -> None:
    references, recorded, freedom = [0.1, 0.4, 0.7], 0.2, 5.0
    s2 = (freedom * recorded**2 + 2 * np.var(references, ddof=1)) / (freedom + 2)
    wanted = (1.0 - np.mean(references)) / math.sqrt(s2 * (1 + 1 / 3))
    assert Spread(recorded, freedom, 1.0).away(1.0, references) == pytest.approx(wanted)
    assert Spread(recorded, freedom, 1.0).away(0.4, references) == pytest.approx(0.0)
    # A spread is as many deviations as the reach says.
    assert Spread(recorded, freedom, 3.0).away(1.0, references) == pytest.approx(wanted / 3)
    # Many references in place of a record: the standard deviation of these alone.
    many = list(np.linspace(0, 1, 1001))
    limit = (2.0 - 0.5) / np.std(many, ddof=1)
    assert Spread(9.0, 1e-12, 1.0).away(2.0, many) == pytest.approx(limit, rel=1e-3)


@given(figures, st.lists(figures, min_size=1, max_size=6), figures, st.floats(0.1, 10))
def test_neither_where_zero_lies_nor_the_unit_nor_the_order_counts(
    value: float, references: list[float], shift: float, unit: float
) -> None:
    away = Spread(0.3, 4.0, 2.0).away(value, references)
    moved = [each + shift for each in references]
    assert Spread(0.3, 4.0, 2.0).away(value + shift, moved) == pytest.approx(away, abs=1e-6)
    scaled = [unit * each for each in references]
    assert Spread(unit * 0.3, 4.0, 2.0).away(unit * value, scaled) == pytest.approx(away, abs=1e-6)
    assert Spread(0.3, 4.0, 2.0).away(value, references[::-1]) == pytest.approx(away, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_a_larger_share_lies_further_up_on_every_scale(
    one: float, other: float, references: list[float]
) -> None:
    low, high = sorted((one, other))
    for scale in (angle, explained):
        spread = Spread(0.1, 4.0, 2.0, scale)
        assert spread.away(low, references) <= spread.away(high, references) + 1e-9


def test_scales_by_hand() -> None:
    assert angle(0.25) == pytest.approx(math.pi / 6)
    assert angle(-0.1) == 0.0
    assert angle(1.1) == pytest.approx(math.pi / 2)
    assert explained(0.5) == pytest.approx(math.log(2))
    assert explained(1.0) == explained(1.5) == pytest.approx(-math.log(1e-6))


def test_every_rule_has_a_recorded_spread() -> None:
    assert set(RECORDED) == set(RULES)
    assert all(s.deviation > 0 and s.freedom > 0 and s.reach > 0 for s in RECORDED.values())
