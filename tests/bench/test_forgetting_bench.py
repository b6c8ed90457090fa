"""The benches of forgetting: small runs, resumed runs, and figures worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.command_line import one_thread
from unlabel_bench.blind.drawn_people import ranks_among
from unlabel_bench.comparison.forgetting import ForgettingSettings, at_rate_0, table
from unlabel_bench.measures import linear_probe, nearest_probe, read_method, residual, samples_of
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES
from unlabel_bench.speed import forget_speed

from unlabel.audit.measures.membership import attack_success, entropy
from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

SMALL = ForgettingSettings(
    epochs=2,
    labels=("0", "0+2"),
    methods=("renormalise", "mask"),
    frontier=("deep:epochs=1",),
    probed=("0",),
    retrain=(0,),
)


def quiet(text: str) -> None:
    """Hear nothing."""


def test_a_bench_that_starts_again_repeats_nothing(tmp_path: Path) -> None:
    settings = replace(SMALL, records=str(tmp_path / "records.jsonl"))
    first = BENCHES.get("forgetting").run(
        replace(settings, methods=("mask",), frontier=(), retrain=()), quiet
    )
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert len(lines) == len(first["records"]) == 4  # the original, two requests, its probes
    heard: list[str] = []
    second = BENCHES.get("forgetting").run(settings, heard.append)
    assert (tmp_path / "records.jsonl").read_text().splitlines()[:4] == lines
    assert not any("mask" in text for text in heard)
    third = BENCHES.get("forgetting").run(
        settings, pytest.fail
    )  # says nothing, since there is nothing to do
    assert third["records"] == second["records"]
    by_name = {line["method"]: line for line in second["summary"] if line["labels_a_request"] == 1}
    assert set(by_name) == {"original", "mask", "renormalise", "deep:epochs=1", "retrained"}
    assert by_name["mask"]["forgotten"]["mean"] == 0.0
    assert table(second)[0][:2] == ["method", "labels"]


def test_lines_of_another_recipe_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for recipe in ("one", "two"):
        Records(str(path), recipe).add(kind="forget", method="mask", request="0", seed=0)
    assert len(Records(str(path), "one").of_recipe()) == 1
    assert Records(str(path), "one").find(seed=0, request="0") is not None
    assert Records(str(path), "three").find(seed=0) is None


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    settings = replace(SMALL, picture=str(tmp_path / "a" / "picture.png"))
    BENCHES.get("forgetting").run(settings, quiet)
    assert (tmp_path / "a" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_share_of_drift_says_what_rate_0_comes_to() -> None:
    line = {"forgotten_before": 0.9, "forgotten": 0.1, "drift_share": 0.25}
    assert at_rate_0(line) == pytest.approx(0.7)  # (0.9 - 0.7) / (0.9 - 0.1) = 0.25


def test_a_method_is_read_from_words() -> None:
    created = read_method("mixup-ascent@vgg16-cifar100:epochs=3")
    assert (created.lr, created.epochs) == (1e-7, 3)  # type: ignore[attr-defined]
    assert samples_of("mixup-ascent@vgg16-cifar100:epochs=3")["few_shot"] == 30
    with pytest.raises(SettingsError, match=r"'epoch'"):
        read_method("deep:epoch=3")


def test_speed_is_a_share_of_the_same_run() -> None:
    result = BENCHES.get("forget-speed").run(
        forget_speed.ForgetSpeedSettings(epochs=2, repeats=2, beside="mask"), quiet
    )
    assert result["ratio_to_training"] == result["warm_seconds"] / result["train_seconds"]
    assert len(result["warm_seconds_all"]) == len(result["beside_seconds_all"]) == 2
    assert 0 < result["times_as_long"] < 1  # hiding an output is quicker
    assert result["forgotten"][1] == 0.0


def test_an_attacks_success_by_hand() -> None:
    listed, never = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.5, 0.6, 0.7])
    # 0.2 stands above one of four, 0.5 above one and level with one, 0.9 above all.
    assert ranks_among(listed, never).tolist() == [0.25, 0.375, 1.0]


# --- the measurements ---------------------------------------------------------------------------


def test_entropy_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    expected = [np.log(2), -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))]
    assert entropy(logits).tolist() == pytest.approx(expected, abs=1e-6)


def test_the_membership_attack_finds_what_looks_like_a_member() -> None:
    """It is balanced: ten times as many members do not make it call everybody one."""
    torch.manual_seed(0)
    members, strangers = torch.rand(1000) * 0.5, 0.5 + torch.rand(100) * 0.5
    asked = torch.tensor([0.1, 0.2, 0.3, 0.8, 0.9])
    assert attack_success(members, strangers, asked) == pytest.approx(0.6)


def test_probes_read_what_can_be_read() -> None:
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    centres = 4 * torch.randn(3, 8)
    known = centres[labels] + torch.randn(300, 8)
    blind = torch.randn(300, 8)
    for probe in (linear_probe, nearest_probe):
        assert probe(known[:200], labels[:200], known[200:], labels[200:], 3) > 0.95
        assert probe(blind[:200], labels[:200], blind[200:], labels[200:], 3) < 0.55


def test_the_linear_probe_is_the_ridge_of_the_formula() -> None:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.preprocessing import StandardScaler

    torch.manual_seed(1)
    x, y = torch.randn(90, 5), torch.randint(0, 3, (90,))
    x[:, 0] += y
    scaler = StandardScaler().fit(x[:60])
    # One ridge on all columns, the constant among them, moves the intercept hardly at all.
    theirs = RidgeClassifier(alpha=0.06).fit(scaler.transform(x[:60]), y[:60])
    expected = float((theirs.predict(scaler.transform(x[60:])) == y[60:].numpy()).mean())
    assert linear_probe(x[:60], y[:60], x[60:], y[60:], 3) == pytest.approx(expected, abs=0.04)


def test_residual_knowledge_is_one_for_the_original_and_none_without_a_difference() -> None:
    assert residual(0.9, 0.9, 0.5) == 1.0
    assert residual(0.5, 0.9, 0.5) == 0.0
    assert residual(0.4, 0.9, 0.5) == pytest.approx(-0.25)
    assert residual(0.7, 0.8, 0.8) is None


def test_records_are_lines_of_json(tmp_path: Path) -> None:
    records = Records(str(tmp_path / "r.jsonl"), "x")
    records.add(kind="original", seed=0)
    assert json.loads((tmp_path / "r.jsonl").read_text()) == {
        "recipe": "x",
        "kind": "original",
        "seed": 0,
    }
