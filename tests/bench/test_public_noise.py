"""The bench `public-noise`: labels made wrong as it says, and suspects counted rightly."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import torch
from unlabel_bench.registry import BENCHES
from unlabel_bench.robustness.public_noise import (
    PublicNoiseSettings,
    make_wrong,
    measure,
    says,
    summary,
    table,
)

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, PublicSet, plan

#: Twenty samples of each of five labels; a sample's row says its true label.
ROWS = torch.arange(100)
PUBLIC = PublicSet(
    "main", ROWS, ROWS // 20, tuple(map(str, range(100))), disclosed=False, source="an example"
)


def wrong_pairs(public: PublicSet) -> Counter[tuple[int, int]]:
    """Count samples whose label is wrong, by what they are and what they are called."""
    pairs = zip((public.rows // 20).tolist(), public.labels.tolist(), strict=True)
    return Counter((true, called) for true, called in pairs if true != called)


def noisy(share: float, way: str) -> PublicSet:
    return make_wrong(PUBLIC, 2, share, way, count=5, keep=3, seed=7)


def test_any_makes_a_share_of_all_labels_wrong() -> None:
    changed = noisy(0.4, "any")
    assert len(changed) == 100
    assert wrong_pairs(changed).total() == 40
    assert torch.equal(changed.rows, PUBLIC.rows)


def test_into_puts_other_samples_among_the_forgotten() -> None:
    changed = noisy(0.2, "into")
    result = wrong_pairs(changed)
    assert {called for _, called in result} == {2}
    assert result.total() == 5
    assert result.total() / int((changed.labels == 2).sum()) == pytest.approx(0.2)


def test_out_hides_forgotten_samples_among_the_retained() -> None:
    changed = noisy(0.4, "out")
    result = wrong_pairs(changed)
    assert {true for true, _ in result} == {2}
    assert result.total() == 8
    assert int((changed.labels == 2).sum()) == 12
    # Of every other label three samples of its own are left.
    assert Counter((changed.rows // 20).tolist()) == {0: 3, 1: 3, 2: 20, 3: 3, 4: 3}


@pytest.mark.parametrize("way", ["any", "into", "out"])
def test_a_share_of_0_makes_nothing_wrong_and_the_original_stays(way: str) -> None:
    before = PUBLIC.labels.clone()
    assert not wrong_pairs(noisy(0.0, way))
    noisy(0.4, way)
    assert torch.equal(PUBLIC.labels, before)


def test_the_same_seed_makes_the_same_labels_wrong() -> None:
    assert torch.equal(noisy(0.4, "any").labels, noisy(0.4, "any").labels)
    other = make_wrong(PUBLIC, 2, 0.4, "any", count=5, keep=3, seed=8)
    assert not torch.equal(noisy(0.4, "any").labels, other.labels)


def test_suspects_are_counted_as_the_model_itself_would_count_them() -> None:
    settings = PublicNoiseSettings(
        epochs=2,
        batch=128,
        labels=(3,),
        shares=(0.4,),
        ways=("any",),
        robust=("none", "drop"),
        methods=("renormalise:steps=5",),
        public=0,
        few_shot=12,
    )
    result = measure(settings, lambda _: None)
    federation = Federation.local(
        "digits", model="convnet", epochs=2, batch=128, lr=0.05, public=0, seed=0
    )
    federation.train()
    work = plan(federation, labels=[3], settings=ForgetSettings(few_shot=12))
    public = make_wrong(work.public, 3, 0.4, "any", count=10, keep=3, seed=0)
    p = federation.active.logits(public.rows).softmax(1)
    doubted = p[torch.arange(len(public)), public.labels] < 0.1
    wrong = public.labels != federation.holdings.labels[public.rows]
    for line in result["runs"]:
        assert line["wrong"] == int(wrong.sum()) == round(0.4 * len(public))
        assert line["reported"] == int(doubted.sum())
        assert line["reported_wrong"] == int((doubted & wrong).sum())
    none, drop = result["runs"]
    assert none["used_forgotten_wrong"] > 0
    in_use = int((wrong & ~doubted & (public.labels == 3)).sum())
    assert drop["used_forgotten_wrong"] <= in_use < none["used_forgotten_wrong"]
    assert len(BENCHES.get("public-noise").table(result)) == 3
    json.dumps(result)


def line(**changes: Any) -> dict[str, Any]:
    start = {"method": "m", "way": "any", "share": 0.4, "robust": "none", "refused": None}
    figures = {"retained_before": 0.9, "retained": 0.8, "forgotten": 0.0, "wrong": 10}
    used = {"used_forgotten": 4, "used_forgotten_wrong": 1, "used_retained": 6}
    more = {"used_retained_wrong": 0, "reported": 5, "reported_wrong": 4}
    return {**start, **figures, **used, **more, **changes}


def test_the_summary_is_over_what_was_done_and_counts_what_was_refused() -> None:
    runs = [
        line(),
        line(retained=0.9, forgotten=0.5, reported=3, reported_wrong=0),
        line(refused="It collapsed."),
    ]
    (result,) = summary(runs)
    assert (result["runs"], result["refused"], result["not_forgotten"]) == (3, 1, 1)
    assert result["retained_change"] == pytest.approx(-5)
    assert result["retained_change_worst"] == pytest.approx(-10)
    assert (result["forgotten"], result["forgotten_worst"]) == (25, 50)
    assert result["found"] == pytest.approx(4 / 20)
    assert result["right"] == pytest.approx(4 / 8)
    assert result["used_wrong"] == pytest.approx(2 / 20)
    assert "1 of 3 refused" in says([result])[0]
    assert table({"summary": [result]})[1][4] == "1/3"


def test_where_all_is_refused_there_are_no_figures() -> None:
    (result,) = summary([line(refused="It collapsed.")])
    assert result["retained_change"] is result["forgotten"] is result["found"] is None
    assert "none - / - (1 of 1 refused)" in says([result])[0]


@pytest.mark.parametrize(
    "changes", [{"shares": (1.0,)}, {"ways": ("sideways",)}, {"robust": ("firmly",)}]
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        PublicNoiseSettings(**changes)
