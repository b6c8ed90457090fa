"""The gate: what each finding needs to pass, and which depth follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.audit import (
    Estimate,
    Finding,
    Measurement,
    ModelFigure,
    SeedFigure,
    reaches,
)
from unlabel.audit.gate import depth_of, judge
from unlabel.config import AuditSettings
from unlabel.errors import SettingsError
from unlabel.terms import DEPTHS

LIMITS = AuditSettings()


def values(
    of: list[float] | float, reach: float = 0.01, parties: dict[str, list[float]] | None = None
) -> ModelFigure:
    """Return a model's figure: one value a seed, each with an interval of this reach."""
    seeds = of if isinstance(of, list) else [of]
    mean = sum(seeds) / len(seeds)
    several = (parties or {}).items()

    def ends(value: float) -> tuple[float, float, float]:
        return value, value - reach, value + reach

    each = tuple(
        SeedFigure(*ends(v), {p: Estimate(*ends(own[i])) for p, own in several})
        for i, v in enumerate(seeds)
    )
    detail = {"parties": {p: {"value": own[0]} for p, own in several}, "tried": 300}
    return ModelFigure(*ends(mean), detail, seeds=tuple(seeds), each=each)


def measured(**forgotten: float) -> dict[str, Measurement]:
    """Return figures of a request that went as deep as can be, but for what is given."""
    known = {  # measure: original, retrained models, the request's own
        "forgotten-accuracy": (0.95, [0.0, 0.0, 0.0], 0.0),
        "retained-accuracy": (0.90, [0.90, 0.91, 0.89], 0.90),
        "membership": (0.80, [0.30, 0.34, 0.26], 0.28),
        "rank": (0.99, [0.60, 0.64, 0.56], 0.55),
        "revival": (0.95, [0.40, 0.45, 0.35], 0.42),
        "probe-linear": (0.90, [0.60, 0.62, 0.58], 0.60),
        "probe-mlp": (0.90, [0.60, 0.62, 0.58], 0.61),
        "probe-nearest": (0.85, [0.50, 0.52, 0.48], 0.49),
        "relearning": (5.0, [40.0, 42.0, 38.0], 39.0),
    }
    found = {}
    for name, (before, retrained, after) in known.items():
        own = forgotten.get(name.replace("-", "_"), after)
        one = {"left": [own], "right": [own]} if name.startswith("probe") else {}
        first = {"left": [before], "right": [before]} if name.startswith("probe") else {}
        others = {"left": retrained, "right": retrained} if name.startswith("probe") else {}
        models = {
            "original": values(before, parties=first),
            "forgotten": values(own, parties=one),
            "retrained": values(retrained, parties=others),
        }
        found[name] = Measurement("", None, None, "share", models)
    return found


def change(figures: dict[str, Measurement], measure: str, **models: ModelFigure) -> None:
    """Put other models' figures in a measure."""
    own = figures[measure]
    figures[measure] = replace(own, values={**own.values, **models})


def drop(figures: dict[str, Measurement], model: str) -> dict[str, Measurement]:
    """Return the figures of all other models."""
    return {
        name: replace(own, values={m: v for m, v in own.values.items() if m != model})
        for name, own in figures.items()
    }


def ruling(findings: list[Finding], measure: str) -> str:
    return next(finding.ruling for finding in findings if finding.measure == measure)


def test_a_request_like_retrained_models_reaches_the_deepest_level() -> None:
    findings = judge(measured(), LIMITS)
    assert {finding.ruling for finding in findings} == {"pass"}
    assert depth_of(findings) == "bottoms"


@pytest.mark.parametrize(
    ("measure", "value", "depth"),
    [
        ("forgotten_accuracy", 0.05, "none"),
        ("retained_accuracy", 0.85, "none"),
        ("membership", 0.75, "none"),
        ("rank", 0.80, "answers"),
        ("rank", 0.30, "answers"),  # two-sided: to rank them last is to know them too
        ("revival", 0.70, "answers"),
        ("probe_linear", 0.85, "top"),
        ("probe_mlp", 0.85, "top"),
        ("probe_nearest", 0.20, "top"),  # two-sided as well
        ("relearning", 12.0, "top"),
    ],
)
def test_each_measure_can_stop_a_level(measure: str, value: float, depth: str) -> None:
    findings = judge(measured(**{measure: value}), LIMITS)
    assert ruling(findings, measure.replace("_", "-")) == "fail"
    assert depth_of(findings) == depth


def test_a_party_whose_model_is_the_same_stops_the_deepest_level_alone() -> None:
    findings = judge(measured(), LIMITS, ("left",))
    assert depth_of(findings) == "top"
    (failed,) = [finding for finding in findings if finding.ruling == "fail"]
    assert failed.sentence == "The model of party 'left' is the same as before the request."


@pytest.mark.parametrize(
    ("value", "expected"), [(0.02, "pass"), (0.03, "warn"), (0.04, "warn"), (0.041, "fail")]
)
def test_up_to_twice_a_limit_is_a_warning(value: float, expected: str) -> None:
    findings = judge(measured(forgotten_accuracy=value), LIMITS)
    assert ruling(findings, "forgotten-accuracy") == expected


def test_a_score_at_chance_ranks_well_enough_whatever_retrained_models_do() -> None:
    figures = measured(rank=0.5)
    change(figures, "rank", retrained=values([0.85, 0.87, 0.86]))
    assert ruling(judge(figures, LIMITS), "rank") == "pass"


def test_where_the_original_itself_would_pass_nothing_follows() -> None:
    figures = measured()
    change(figures, "revival", original=values(0.45 + LIMITS.revival - 1e-9))
    findings = judge(figures, LIMITS)
    assert ruling(findings, "revival") == "unknown"
    said = next(finding.sentence for finding in findings if finding.measure == "revival")
    assert said == "Nothing follows: on these data the original itself would pass."
    assert depth_of(findings) == "bottoms"  # the others of its depth do
    change(figures, "rank", original=values(0.64 + LIMITS.rank - 1e-9))
    assert depth_of(judge(figures, LIMITS)) == "answers"


@pytest.mark.parametrize(("measure", "aims"), [("rank", [0.5, 0.9]), ("revival", [0.2, 0.8])])
def test_two_retrained_models_that_differ_much_still_decide(
    measure: str, aims: list[float]
) -> None:
    figures = measured(**{measure: 0.5})
    change(figures, measure, retrained=values(aims))
    change(figures, measure, original=values(1.0 if measure == "rank" else 0.95))
    limits = replace(LIMITS, rank=0.05)
    assert ruling(judge(figures, limits), measure) == "pass"
    change(figures, measure, forgotten=figures[measure].values["original"])
    assert ruling(judge(figures, limits), measure) != "pass"


def test_without_retrained_models_what_cannot_be_known_is_unknown() -> None:
    figures = drop(measured(), "retrained")
    findings = judge(figures, LIMITS)
    unknown = {finding.measure for finding in findings if finding.ruling == "unknown"}
    assert unknown == {
        *("membership", "revival", "relearning"),
        *("probe-linear", "probe-mlp", "probe-nearest"),
    }
    assert ruling(findings, "rank") == "warn"
    assert depth_of(findings) == "top"
    assert all("--retrained" in f.sentence for f in findings if f.ruling == "unknown")


@pytest.mark.parametrize(("original", "expected"), [(6.0, "unknown"), (2.0, "pass")])
def test_seeds_that_agree_to_the_step_tell_nothing_where_the_original_agrees_too(
    original: float, expected: str
) -> None:
    figures = measured(relearning=6.0)
    change(figures, "relearning", retrained=values([6.0, 6.0]))
    change(figures, "relearning", original=values(original))
    assert ruling(judge(figures, LIMITS), "relearning") == expected


def test_without_the_original_the_bottoms_cannot_be_judged() -> None:
    figures = drop(measured(), "original")
    assert depth_of(judge(figures, LIMITS)) == "top"


def test_one_party_that_still_knows_is_enough_to_fail_and_is_named() -> None:
    figures = measured()
    one = values(0.60, parties={"left": [0.60], "right": [0.90]})
    change(figures, "probe-linear", forgotten=one)
    failed = [finding for finding in judge(figures, LIMITS) if finding.ruling == "fail"]
    assert len(failed) == 1
    assert "party 'right'" in failed[0].sentence


def test_an_uncertain_probe_decides_nothing() -> None:
    figures = measured()
    change(figures, "probe-linear", forgotten=values(0.6, 0.2))
    assert ruling(judge(figures, LIMITS), "probe-linear") == "unknown"


@given(st.lists(st.sampled_from(["pass", "warn", "fail", "unknown"]), min_size=3, max_size=3))
def test_no_level_holds_above_one_that_fails(rulings: list[Any]) -> None:
    findings = [Finding(depth, "m", r, "") for depth, r in zip(DEPTHS, rulings, strict=True)]
    reached = depth_of(findings)
    held = [r in ("pass", "warn") for r in rulings]
    depth = held.index(False) if False in held else 3
    assert reached == ("none", *DEPTHS)[depth]
    assert reaches(reached, "none")


@pytest.mark.parametrize("name", ["retained", "rank", "residual"])
def test_thresholds_that_cannot_be_are_named(name: str) -> None:
    with pytest.raises(SettingsError, match=f"`{name}` to be a share from 0 to 1"):
        replace(LIMITS, **{name: 1.5})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="demand"):
        AuditSettings(demand="deeper")  # type: ignore[arg-type]
