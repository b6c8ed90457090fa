"""Audits of people whose labels the bottoms were trained with: measured, judged, certified."""

from __future__ import annotations

import html
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import one_thread

import unlabel as ul
from unlabel.audit.figures import Measurement, ModelFigure, SeedFigure
from unlabel.audit.gate import depth_of
from unlabel.audit.gate_people import demanded_of_people, judge_people
from unlabel.audit.intervals import prediction_interval
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.audit.people import PeopleEmbeddings, measures_of
from unlabel.audit.people_request import OF_MANY, OF_ONE
from unlabel.config import AuditSettings
from unlabel.errors import ForgetError
from unlabel.forget.methods.retrain import Retrain
from unlabel.forget.work import Work, sgd
from unlabel.report.annex import make_auditor_keys
from unlabel.report.people_words import MEANINGS

__all__ = ["one_thread"]  # a fixture for every test here

LIMITS = AuditSettings()


# --- measures by hand ---------------------------------------------------------------------------


def rows(embeddings: list[list[float]], labels: list[int]) -> ObservedRows:
    scores = torch.zeros(len(labels), 2)
    parts = {"one": torch.tensor(embeddings)[:, :1], "two": torch.tensor(embeddings)[:, 1:]}
    return ObservedRows(torch.tensor(labels), scores, scores, parts)


def test_a_head_that_never_met_their_labels_tells_people_by_their_embeddings() -> None:
    """Party one's column says the label of everybody but the person; party two's says nothing."""
    others = [[float(x), 0.5 * (-1) ** (n // 2)] for n, x in enumerate([1, -1] * 10)]
    labels = [1, 0] * 10
    # The first person's embedding has her label (1), the second one's the other.
    train = rows([[2.0, 0.0], [-2.0, 0.0], *others], [1, 1, *labels])
    test = rows([[1.0, 0.3], [-1.0, 0.1], [0.5, -0.2]], [1, 0, 1])
    observed = Observation(train, test, ("no", "yes"))
    figure = PeopleEmbeddings(2).measure(observed, ())
    # She stands above all three strangers, the other below all.
    assert figure.value == pytest.approx(0.5)
    assert figure.detail["parties"]["one"]["value"] == pytest.approx(0.5)
    assert PeopleEmbeddings(1).measure(observed, ()).value == 1.0
    # Their own labels are not learnt from: with others in their place the head is the same.
    swapped = replace(train, labels=torch.tensor([0, 0, *labels]))
    changed = PeopleEmbeddings(2).measure(replace(observed, train=swapped), ())
    assert changed.value == pytest.approx(0.5)
    assert PeopleEmbeddings(1).measure(replace(observed, train=swapped), ()).value == 0.0


def test_an_invertible_map_of_a_partys_embeddings_changes_nothing() -> None:
    random = torch.Generator().manual_seed(0)
    x, labels = torch.randn(60, 4, generator=random), torch.arange(60) % 2
    turned = x @ torch.randn(4, 4, generator=random)
    areas = []
    for values in (x, turned):
        both = ObservedRows(labels, torch.zeros(60, 2), torch.zeros(60, 2), {"shop": values})
        observed = Observation(
            both.take(torch.arange(40)), both.take(torch.arange(40, 60)), ("a", "b")
        )
        areas.append(PeopleEmbeddings(10).measure(observed, ()).value)
    assert areas[0] == pytest.approx(areas[1])


def test_the_first_rows_are_the_people_and_the_others_count_for_nothing_else() -> None:
    chances = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]).log()
    columns = {"p": torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.2], [0.1, 0.9]])}
    chances = torch.cat([chances, chances[:1]])
    train = ObservedRows(torch.tensor([0, 1, 0, 1]), chances, chances, columns)
    observed = Observation(train, train, ("no", "yes"))
    figures = {name: each.measure(observed, ()) for name, each in measures_of(2).items()}
    assert figures["old-labels"].value == 1
    assert figures["confidence"].value == pytest.approx(0.75)


def test_one_more_of_a_kind_lies_in_its_prediction_interval_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        low, high = prediction_interval(rng.normal(0, 1, 4).tolist())
        inside += low <= rng.normal() <= high
    assert 0.935 < inside / 2000 < 0.965


# --- the gate -----------------------------------------------------------------------------------


def measured(now: float, before: float, retrained: list[float]) -> Measurement:
    def figure(*values: float) -> ModelFigure:
        each = tuple(SeedFigure(value) for value in values)
        return ModelFigure(sum(values) / len(values), seeds=values, each=each)

    models = {"forgotten": figure(now), "original": figure(before)}
    if retrained:
        models["retrained"] = figure(*retrained)
    return Measurement("", None, None, "number", models)


def judged(
    retrained: int = 3, unchanged: tuple[str, ...] = (), people: int = 20, **figures: Any
) -> dict[str, str]:
    """Judge figures: each is (now, before), beside retrained models around 0.5."""
    around = [0.49, 0.51, 0.5][:retrained]
    usual = dict.fromkeys(("retained", "confidence", "membership", "embeddings"), (0.5, 0.9))
    now: dict[str, tuple[float, float]] = usual | {"retained": (0.5, 0.5)} | figures
    measures = {
        "retained-accuracy": measured(*now["retained"], around),
        "confidence": measured(*now["confidence"], around),
        "people-membership": measured(*now["membership"], around),
        "people-embeddings": measured(*now["embeddings"], around),
    }
    findings = judge_people(measures, LIMITS, people, unchanged)
    return {"depth": depth_of(findings), **{f.measure: f.ruling for f in findings}}


def test_a_retrained_model_reaches_the_bottoms_and_the_original_nothing() -> None:
    assert judged()["depth"] == "bottoms"
    assert judged(confidence=(0.9, 0.9))["depth"] == "none"
    assert judged(retained=(0.4, 0.5))["depth"] == "none"


@pytest.mark.parametrize("value", [0.924, 0.1])
def test_a_change_of_the_top_alone_is_seen_in_the_embeddings(value: float) -> None:
    """The measured case: an attack on embeddings finds people as before, or by their absence."""
    found = judged(embeddings=(value, 0.955))
    assert (found["people-embeddings"], found["depth"]) == ("fail", "top")
    assert judged(unchanged=("shop",))["depth"] == "top"
    assert judged(membership=(value, 0.955))["depth"] == "answers"


def test_where_the_original_would_pass_nothing_is_claimed_below_the_answers() -> None:
    found = judged(confidence=(0.5, 0.5), membership=(0.5, 0.5), embeddings=(0.5, 0.5))
    assert found == {
        "depth": "answers",
        "retained-accuracy": "pass",
        "confidence": "warn",
        "people-membership": "unknown",
        "people-embeddings": "unknown",
    }


@pytest.mark.parametrize("retrained", [0, 1])
def test_without_two_retrained_models_nothing_about_people_is_judged(retrained: int) -> None:
    found = judged(retrained)
    assert {found[name] for name in ("confidence", "people-membership")} == {"unknown"}
    assert found["depth"] in ("none", "answers")
    assert judged(0)["depth"] == "none"


def test_the_runs_own_demand_counts_as_the_answers_at_most() -> None:
    assert [demanded_of_people(d) for d in ("none", "answers", "top", "bottoms")] == [
        *("none", "answers", "answers", "answers")
    ]


# --- from the training to the certificate -------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that knows by heart who of its people are wrongly labelled: every third"""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("people") / "run"
    x = np.random.default_rng(0).normal(size=(240, 20))
    wrong = np.arange(240) % 3 == 0
    who, loans = (
        [f"client-{n}" for n in range(240)],
        np.where((x[:, 0] + x[:, 1] > 0) ^ wrong, "a", "b"),
    )
    bank = {"who": who, "loan": loans, "a": x[:, 0]}
    shop = {"who": who, **{f"b{n}": x[:, n] for n in range(1, 20)}}
    train: dict[str, Any] = {"epochs": 50, "lr": 0.1, "validation": 0.0, "public": 2, "batch": 16}
    ul.Federation.from_frames(
        {"bank": bank, "shop": shop}, label="loan", id="who", folder=folder, **train
    ).train()
    return folder


def wrong_of(federation: ul.Federation, count: int) -> list[str]:
    """Return some of those who are wrongly labelled and were trained on."""
    ids = [str(who) for who in federation.predict(part="train").ids]
    return [who for who in ids if int(who.split("-")[1]) % 3 == 0][:count]


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 20])
def test_people_are_audited_reported_certified_and_verified(
    kept: Path, tmp_path: Path, count: int
) -> None:
    run = Path(shutil.copytree(kept, tmp_path / "run"))
    federation = ul.Federation.open(run)
    ids = wrong_of(federation, count)
    outcome = federation.forget(ids=ids)
    with pytest.raises(ForgetError, match="or 2 at least"):
        federation.audit()
    verdict = federation.audit(retrained=5)
    assert (verdict.people, verdict.guarantee, verdict.demanded) == (count, "measured", "answers")
    assert verdict.passed
    assert (OF_ONE if count == 1 else OF_MANY) in verdict.unknown
    confidence = verdict.measures["confidence"]
    assert len(confidence.figure("retrained").seeds) == 5
    assert confidence.value("original") > 0.9  # type: ignore[operator]
    if count == 20:  # their labels were known by heart, in the shop's embeddings too
        assert verdict.depth == "bottoms"
        assert verdict.measures["people-embeddings"].value("original") > 0.65  # type: ignore[operator]
    outcome.commit()
    text = html.unescape(federation.report().path.read_text())
    assert MEANINGS[verdict.depth].split(".")[0] in text
    assert "the label's" not in text
    make_auditor_keys(tmp_path / "keys")
    certificate = federation.certificate(auditor_key=tmp_path / "keys/auditor.pub")
    assert (certificate.body["depth"], certificate.body["guarantee"]) == (verdict.depth, "measured")
    assert MEANINGS[verdict.depth] in certificate.body["words"]
    assert not any(who in json.dumps(certificate.body) for who in ids)
    for key in (None, tmp_path / "keys/auditor.key"):
        checks = ul.verify(certificate.path, run=run, annex_key=key)
        assert checks.holds, checks.faults
        assert "people" in {word: means for word, _, means in checks.terms}["depth"]
    # An audit of the same people again takes the models that were trained for it.
    assert federation.audit().facts.retrained == 5
    federation.purge()
    with pytest.raises(ForgetError) as refused:
        federation.audit(retrained=5)
    assert refused.value.code == "purged"


def test_a_model_that_was_not_trained_again_does_not_pass(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only goes on training for a while knows these people as before."""

    def go_on(self: Retrain, work: Work) -> None:
        work.use_optimisers(sgd(1e-3, 0.0))
        work.learn(work.retained_rows, work.cross_entropy(work.active.labels))

    monkeypatch.setattr(Retrain, "run", go_on)
    federation = ul.Federation.open(Path(shutil.copytree(kept, tmp_path / "run")))
    outcome = federation.forget(ids=wrong_of(federation, 20))
    verdict = federation.audit(retrained=5)
    assert (verdict.depth, verdict.passed) == ("none", False)
    with pytest.raises(ForgetError, match="'answers' is demanded"):
        outcome.commit()
