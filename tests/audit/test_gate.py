"""The gate: what each finding needs to pass, and which depth follows."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from unlabel.audit.gate import NO_RETRAINED, NO_TOPS, RULES, depth_of, judge
from unlabel.audit.spread import RECORDED, Spread, angle, explained
from unlabel.config import AuditSettings
from unlabel.errors import SettingsError
from unlabel.terms import DEPTHS

LIMITS = AuditSettings(spreads=1.0)
#: Spreads of these tests: what is recorded may change, and what follows from it may not.
SPREADS: dict[str, tuple[float, Callable[[float], float]]] = {
    **dict.fromkeys(("membership", "probe-linear", "probe-mlp", "probe-nearest"), (0.1, angle)),
    **dict.fromkeys(("trace", "trace-output", "trace-top"), (0.15, explained)),
    "echo": (0.1, float),
    "relearning": (0.25, math.log),
}
BY_PARTY = ("trace", "probe-linear", "probe-mlp", "probe-nearest")


@pytest.fixture(autouse=True)
def spreads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by fixed spreads."""
    fixed = {name: Spread(s, 4.0, 4.0, scale) for name, (s, scale) in SPREADS.items()}
    assert set(fixed) == set(RULES) == set(RECORDED)
    monkeypatch.setattr("unlabel.audit.gate.RECORDED", fixed)


def values(of: list[float] | float, parts: dict[str, list[float]] | None = None) -> ModelFigure:
    """Return a model's figure: one value a seed, and those of parties or layers alone."""
    seeds = of if isinstance(of, list) else [of]
    several = (parts or {}).items()
    each = tuple(
        SeedFigure(v, v - 0.01, v + 0.01, {p: Estimate(own[i]) for p, own in several})
        for i, v in enumerate(seeds)
    )
    detail = {"parties": {p: {"value": own[0]} for p, own in several}, "tried": 300}
    mean = sum(seeds) / len(seeds)
    return ModelFigure(mean, mean - 0.01, mean + 0.01, detail, seeds=tuple(seeds), each=each)


def measured(**forgotten: float) -> dict[str, Measurement]:
    """Return figures of a request that went as deep as can be, but for what is given."""
    retrained = {  # measure: original, models without the label, the request's own
        "forgotten-accuracy": (0.95, [0.0, 0.0, 0.0], 0.0),
        "retained-accuracy": (0.90, [0.90, 0.91, 0.89], 0.90),
        "membership": (0.90, [0.30, 0.34, 0.26], 0.28),
        "trace": (1.0, [0.60, 0.62, 0.58], 0.61),
        "probe-linear": (0.99, [0.60, 0.62, 0.58], 0.60),
        "probe-mlp": (0.99, [0.60, 0.62, 0.58], 0.61),
        "probe-nearest": (0.99, [0.50, 0.52, 0.48], 0.49),
        "relearning": (5.0, [40.0, 42.0, 38.0], 39.0),
    }
    refitted = {
        "trace-output": (1.0, [0.0, 0.0, 0.0], 0.0),
        "echo": (1.0, [0.02, -0.03, 0.05], 0.04),
        "trace-top": (1.0, [0.70, 0.72, 0.68], 0.71),
    }
    found = {}
    for name, (before, others, after) in {**retrained, **refitted}.items():
        own = forgotten.get(name.replace("-", "_"), after)
        parts: tuple[str, ...] = ("left", "right") if name in BY_PARTY else ()
        parts = ("layer 1",) if name == "trace-top" else parts
        models = {"original": [before], "forgotten": [own]}
        models["retrained" if name in retrained else "refitted"] = others
        figures = {m: values(all_, dict.fromkeys(parts, all_)) for m, all_ in models.items()}
        found[name] = Measurement("", None, None, "share", figures)
    return found


def change(figures: dict[str, Measurement], measure: str, **models: ModelFigure) -> None:
    """Put other models' figures in a measure."""
    own = figures[measure]
    figures[measure] = replace(own, values={**own.values, **models})


def drop(figures: dict[str, Measurement], *models: str) -> dict[str, Measurement]:
    """Return the figures of all other models."""
    return {
        name: replace(own, values={m: v for m, v in own.values.items() if m not in models})
        for name, own in figures.items()
    }


def ruling(findings: list[Finding], measure: str) -> str:
    return next(finding.ruling for finding in findings if finding.measure == measure)


def said(findings: list[Finding], measure: str) -> str:
    return next(finding.sentence for finding in findings if finding.measure == measure)


def test_a_request_like_models_without_the_label_reaches_the_deepest_level() -> None:
    findings = judge(measured(), LIMITS)
    assert {finding.ruling for finding in findings} == {"pass"}
    assert depth_of(findings) == "bottoms"


@pytest.mark.parametrize(
    ("measure", "value", "depth"),
    [
        ("forgotten_accuracy", 0.05, "none"),
        ("retained_accuracy", 0.80, "none"),
        ("membership", 0.75, "none"),
        ("membership", 0.01, "none"),  # two-sided: to be called a stranger too often tells too
        ("trace_output", 0.99, "answers"),
        ("echo", 0.90, "answers"),
        ("trace_top", 0.99, "answers"),
        ("trace", 0.99, "top"),
        ("trace", 0.05, "top"),  # two-sided: less than features give tells it too
        ("probe_linear", 0.97, "top"),
        ("probe_mlp", 0.97, "top"),
        ("probe_nearest", 0.05, "top"),  # two-sided as well
        ("relearning", 8.0, "top"),
    ],
)
def test_each_measure_can_stop_a_level(measure: str, value: float, depth: str) -> None:
    findings = judge(measured(**{measure: value}), LIMITS)
    assert ruling(findings, measure.replace("_", "-")) == "fail"
    assert depth_of(findings) == depth


@pytest.mark.parametrize(
    ("measure", "value"),
    [("trace_output", 0.0), ("echo", -0.9), ("trace_top", 0.05)],
)
def test_a_trace_that_is_smaller_than_anybodys_is_no_fault(measure: str, value: float) -> None:
    assert ruling(judge(measured(**{measure: value}), LIMITS), measure.replace("_", "-")) == "pass"


def test_what_costs_more_to_learn_again_than_anybody_pays_is_no_fault() -> None:
    figures = measured(relearning=250.0)
    assert ruling(judge(figures, LIMITS), "relearning") == "pass"
    never = ModelFigure(None, detail={"tried": 300}, seeds=(None,), each=(SeedFigure(None),))
    change(figures, "relearning", forgotten=never)
    findings = judge(figures, LIMITS)
    assert ruling(findings, "relearning") == "pass"
    assert "300, references 38 to 42" in said(findings, "relearning")


def test_a_membership_attack_says_how_sure_answers_are_to_either_side() -> None:
    above, below = (said(judge(measured(membership=x), LIMITS), "membership") for x in (0.8, 0.0))
    assert above.endswith("spreads above): answers about them are surer than they should be.")
    assert "spreads below): answers about them are less sure than they should be" in below
    for sentence in (above, below):
        assert sentence.startswith("Share of forgotten training rows that a membership attack")
        assert "references 0.26 to 0.34" in sentence
        assert "show the label" not in sentence


def test_how_far_is_far_follows_from_how_references_differ() -> None:
    figures = measured(echo=0.5)
    change(figures, "echo", refitted=values([0.1, 0.1, 0.1]))
    assert ruling(judge(figures, LIMITS), "echo") == "fail"
    change(figures, "echo", refitted=values([-0.3, 0.1, 0.5]))
    change(figures, "echo", original=values(2.0))
    assert ruling(judge(figures, LIMITS), "echo") == "pass"
    assert ruling(judge(figures, replace(LIMITS, spreads=0.1)), "echo") == "fail"


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


def test_where_the_original_itself_would_pass_nothing_follows() -> None:
    figures = measured()
    change(figures, "echo", original=values(0.3))
    findings = judge(figures, LIMITS)
    assert ruling(findings, "echo") == "unknown"
    assert said(findings, "echo").endswith(
        "not judged, on these data the original itself would pass."
    )
    assert depth_of(findings) == "bottoms"  # the others of its depth do not


def test_an_output_that_is_gone_is_not_enough_where_nothing_else_of_the_top_is_known() -> None:
    figures = measured()
    change(figures, "echo", original=values(0.3))
    change(figures, "trace-top", original=values(0.7, {"layer 1": [0.7]}))
    findings = judge(figures, LIMITS)
    assert ruling(findings, "trace-output") == "pass"
    assert depth_of(findings) == "answers"


def test_bottoms_are_judged_by_models_that_trained_as_briefly_where_there_are_any() -> None:
    figures = measured(trace=0.90)
    parts = {"left": [0.90, 0.91], "right": [0.90, 0.91]}
    forgotten = values(0.90, {name: [0.90] for name in parts})
    change(figures, "trace", forgotten=forgotten)
    assert ruling(judge(figures, LIMITS), "trace") == "fail"
    change(figures, "trace", matched=values([0.90, 0.91], parts))
    assert {f.ruling for f in judge(figures, LIMITS) if f.measure == "trace"} == {"pass"}
    # Answers are judged by whole trainings all the same.
    change(figures, "membership", matched=values([0.9, 0.9]), forgotten=values(0.9))
    assert ruling(judge(figures, LIMITS), "membership") == "fail"


def test_without_retrained_models_the_top_alone_is_judged() -> None:
    findings = judge(drop(measured(), "retrained"), LIMITS)
    unknown = {finding.measure for finding in findings if finding.ruling == "unknown"}
    assert unknown == {"membership", "relearning", *BY_PARTY}
    assert depth_of(findings) == "top"
    assert all(NO_RETRAINED in f.sentence for f in findings if f.ruling == "unknown")


def test_without_any_references_nothing_below_the_answers_is_reached() -> None:
    findings = judge(drop(measured(), "retrained", "refitted"), LIMITS)
    known = {finding.measure for finding in findings if finding.ruling != "unknown"}
    assert known == {"forgotten-accuracy", "retained-accuracy"}
    assert depth_of(findings) == "answers"
    for measure in ("trace-output", "echo", "trace-top"):
        assert said(findings, measure).endswith(f": not judged, {NO_TOPS}.")


def test_without_the_original_neither_top_nor_bottoms_are_reached() -> None:
    figures = drop(measured(), "original")
    for name in ("trace", "trace-output", "trace-top", "echo"):  # compared with the original
        none = ModelFigure(None, note="The model from before is gone.", seeds=(None,))
        figures[name] = replace(figures[name], values={"forgotten": none})
    findings = judge(figures, LIMITS)
    assert depth_of(findings) == "answers"
    assert said(findings, "echo").endswith(": not judged, the model from before is gone.")


def test_a_top_without_hidden_layers_is_judged_by_its_outputs() -> None:
    figures = measured()
    none = ModelFigure(None, note="There is no such layer.", seeds=(None,))
    figures["trace-top"] = replace(figures["trace-top"], values={"forgotten": none})
    findings = judge(figures, LIMITS)
    assert ruling(findings, "trace-top") == "unknown"
    assert said(findings, "trace-top").endswith("not judged, there is no such layer.")
    assert depth_of(findings) == "bottoms"


@pytest.mark.parametrize(
    ("figures", "now", "expected"),
    [
        ({"original": 0.90, "mask": 0.94}, 0.93, "pass"),
        ({"original": 0.90, "mask": 0.94}, 0.91, "warn"),
        ({"original": 0.90, "mask": 0.94}, 0.89, "fail"),  # all that is lost was the original's
        ({"original": 0.90, "mask": 0.94, "retrained": 0.90}, 0.89, "pass"),
        ({}, 0.89, "unknown"),
    ],
)
def test_retained_accuracy_is_held_against_the_mask_where_nothing_was_retrained(
    figures: dict[str, float], now: float, expected: str
) -> None:
    models = {name: values(value) for name, value in {**figures, "forgotten": now}.items()}
    known = {**measured(), "retained-accuracy": Measurement("", None, None, "share", models)}
    findings = judge(known, LIMITS)
    assert ruling(findings, "retained-accuracy") == expected
    if "mask" in figures:
        assert "the original with its output hidden 94.0 %" in said(findings, "retained-accuracy")


@pytest.mark.parametrize("measure", BY_PARTY)
def test_one_party_that_still_knows_is_enough_to_fail_and_is_named(measure: str) -> None:
    figures = measured()
    own = figures[measure].value("forgotten") or 0.0
    change(figures, measure, forgotten=values(own, {"left": [own], "right": [0.995]}))
    failed = [finding for finding in judge(figures, LIMITS) if finding.ruling == "fail"]
    assert [finding.measure for finding in failed] == [measure]
    assert "party 'right'" in failed[0].sentence


def test_every_hidden_layer_of_the_top_is_judged_by_itself() -> None:
    figures = measured()
    layers = {"layer 1": [0.7], "layer 2": [0.99]}
    tops = values([0.7, 0.72], {"layer 1": [0.7, 0.72], "layer 2": [0.6, 0.62]})
    before = values(1.0, {name: [1.0] for name in layers})
    change(figures, "trace-top", forgotten=values(0.99, layers), refitted=tops, original=before)
    findings = [f for f in judge(figures, LIMITS) if f.measure == "trace-top"]
    assert [finding.ruling for finding in findings] == ["pass", "fail"]
    assert "What hidden layer 2 of the top gives" in findings[1].sentence


@given(st.lists(st.sampled_from(["pass", "warn", "fail", "unknown"]), min_size=3, max_size=3))
def test_no_level_holds_above_one_that_fails(rulings: list[Any]) -> None:
    findings = [Finding(depth, "m", r, "") for depth, r in zip(DEPTHS, rulings, strict=True)]
    reached = depth_of(findings)
    held = [r in ("pass", "warn") for r in rulings]
    depth = held.index(False) if False in held else 3
    assert reached == ("none", *DEPTHS)[depth]
    assert reaches(reached, "none")


def test_thresholds_that_cannot_be_are_named() -> None:
    for name in ("retained", "forgotten"):
        with pytest.raises(SettingsError, match=f"`{name}` to be a share from 0 to 1"):
            replace(LIMITS, **{name: 1.5})  # type: ignore[arg-type]
    for spreads in (0.0, -1.0, 101.0):
        with pytest.raises(SettingsError, match=r"`spreads` to be above 0, to 100"):
            AuditSettings(spreads=spreads)
    with pytest.raises(SettingsError, match="demand"):
        AuditSettings(demand="deeper")  # type: ignore[arg-type]
