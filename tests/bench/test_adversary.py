"""The adversary: fakes are not found deeper than they are, and the audit's units are recorded."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from unlabel_bench.adversary.adversary import JUDGED, SCENES, Case, Cast
from unlabel_bench.adversary.fakes import FAKES
from unlabel_bench.adversary.judging import HONEST

from unlabel.audit.gate import RULES, depth_of, judge
from unlabel.audit.measure import MEASURES
from unlabel.audit.spread import RECORDED
from unlabel.audit.verdict import reaches
from unlabel.config import AuditSettings

RECORD = Path(__file__).parents[2] / "results" / "adversary.json"
LIMITS = AuditSettings(demand="none")
#: A label that decided no limit.
LABEL = 1


@cache
def recorded() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return loaded


@cache
def cases(scene: str) -> dict[str, tuple[Case, str]]:
    """Return what the audit finds of each kind of model, one of a kind."""
    cast = Cast(SCENES[scene], LABEL, models=4)
    original = cast.trained(0, cast.federation.holdings.rows)
    # Those that rule fast; the bench takes the slow ones too.
    names = [name for name in JUDGED if not MEASURES.get(name).slow]
    examined: dict[str, tuple[Case, str]] = {}
    for case in cast.cases(original):
        if case.kind not in examined:
            measures = cast.judged(case, original, names)
            examined[case.kind] = (case, depth_of(judge(measures, LIMITS)))
    return examined


def test_the_units_of_the_gate_are_those_of_the_record() -> None:
    kept = recorded()["spreads"]
    assert set(kept) == set(RULES) == set(RECORDED)
    for name, spread in RECORDED.items():
        free = spread.freedom if math.isfinite(spread.freedom) else None
        stated = {"deviation": spread.deviation, "freedom": free, "reach": spread.reach}
        assert kept[name] == stated, name


def test_the_record_has_enough_models_and_both_error_rates() -> None:
    kinds, errors = recorded()["kinds"], recorded()["errors"]
    honest = sum(kinds["retrained"][part]["models"] for part in ("learnt from", "held out"))
    assert honest >= 100
    assert set(FAKES) <= set(kinds)
    assert len(FAKES) >= 8
    for rate in errors.values():
        assert rate["held out"]["models"] >= 50
        assert 0 <= rate["held out"]["share"] <= 0.1


@pytest.mark.parametrize("kind", list(HONEST))
def test_an_honest_model_reaches_its_depth(kind: str) -> None:
    case, depth = cases("table-linear-top")[kind]
    assert reaches(depth, case.depth)


@pytest.mark.parametrize("kind", list(FAKES))
def test_a_fake_is_found_no_deeper_than_it_is(kind: str) -> None:
    case, depth = cases("table-linear-top")[kind]
    assert depth in ("none", "answers", case.depth)
    assert reaches(case.depth, depth)


@pytest.mark.long
@pytest.mark.parametrize("scene", list(SCENES))
def test_no_scene_lets_a_fake_through(scene: str) -> None:
    found = cases(scene)
    wrong = [
        kind
        for kind, (case, depth) in found.items()
        if kind in FAKES and not reaches(case.depth, depth)
    ]
    assert len(wrong) <= 1, wrong  # noise as loud as accuracy allows may pass for a new top
