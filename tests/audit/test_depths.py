"""On real digits: each kind of model reaches the depth it deserves, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from unlabel.audit import MEASURES, Measurement, Observation, observe
from unlabel.audit.compare import compare
from unlabel.audit.gate import depth_of, judge
from unlabel.config import AuditSettings
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Forgotten
from unlabel.train import load_holdings

LABELS = (3,)
SEEDS = 4


def sight(federation: Federation) -> Observation:
    return observe(federation.active, federation.holdings.rows, federation.labels)


@pytest.fixture(scope="module")
def models() -> dict[str, Observation]:
    """Return everything that is to be judged, by its name."""
    federation = Federation.local("digits", parties=2, epochs=15)
    federation.train()
    found = {"original": sight(federation)}
    found["mask"] = found["original"].masked(LABELS)
    outcome = federation.forget(LABELS, settings=ForgetSettings(key="2a" * 32))
    assert outcome.result.method == "hidden"
    found["default"] = sight(federation)
    return found


@pytest.fixture(scope="module")
def retrained() -> list[Observation]:
    """Return models that never saw the label, on the same rows."""
    holdings = load_holdings(Federation.local("digits", parties=2, epochs=15).config)
    found = []
    for seed in range(SEEDS):
        config = replace(holdings.config, train=replace(holdings.config.train, seed=seed))
        own = replace(holdings, config=config)
        federation = Federation.of(own)
        federation.forgotten = Forgotten(labels=LABELS)
        federation.train()
        found.append(sight(federation))
    return found


#: What the gate judges by.
GATE = (
    *("forgotten-accuracy", "retained-accuracy", "membership", "rank", "revival"),
    *("probe-linear", "probe-mlp", "probe-nearest", "relearning"),
)


@pytest.fixture(scope="module")
def figures(models: dict[str, Observation], retrained: list[Observation]) -> dict[str, Measurement]:
    """Return every figure of every model, each measured once."""
    seen = {**models, **{f"retrained-{seed}": one for seed, one in enumerate(retrained)}}
    measures = {name: MEASURES.get(name)() for name in GATE}
    return compare({name: [one] for name, one in seen.items()}, LABELS, measures=measures)


def depth(figures: dict[str, Measurement], judged: str, seeds: Sequence[int]) -> str:
    """Return the depth of one model beside the original and some retrained ones."""
    measures = {}
    for name, found in figures.items():
        values = found.values
        several = [values[f"retrained-{seed}"] for seed in seeds]
        own = tuple(one.value for one in several)
        together = replace(
            several[0],
            value=sum(v for v in own if v is not None) / len(own),
            seeds=own,
            each=tuple(one.each[0] for one in several),
        )
        beside = {"original": values["original"], "retrained": together}
        measures[name] = replace(found, values={**beside, "forgotten": values[judged]})
    findings = judge(measures, AuditSettings())
    # What decides can be measured here: nothing passes for want of a gap.
    told = {finding.measure for finding in findings if finding.ruling != "unknown"}
    assert {"rank", "revival", "probe-nearest"} <= told
    return depth_of(findings)


@pytest.mark.parametrize(
    ("model", "reached"), [("original", "none"), ("mask", "answers"), ("default", "top")]
)
def test_hiding_is_no_forgetting_and_the_default_reaches_the_top(
    figures: dict[str, Measurement], model: str, reached: str
) -> None:
    assert depth(figures, model, range(SEEDS)) == reached


@pytest.mark.parametrize("which", range(SEEDS))
def test_a_retrained_model_reaches_the_bottoms(figures: dict[str, Measurement], which: int) -> None:
    others = [seed for seed in range(SEEDS) if seed != which]
    assert depth(figures, f"retrained-{which}", others) == "bottoms"
