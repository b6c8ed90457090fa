"""The frontier on a small run: leakage beside what is forgotten, in records, page and picture."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench.privacy.frontier import table
from unlabel_bench.privacy.leakage import leakage, pooled_residual
from unlabel_bench.privacy.process_privacy import ProcessPrivacySettings
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

HIDDEN = "hidden:steps=20"
SMALL = ProcessPrivacySettings(
    model="mlp",
    epochs=4,
    labels=(0, 3),
    seeds=2,
    requests=0,
    few_shot=8,
    public=12,
    methods=("renormalise", HIDDEN),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def run(settings: ProcessPrivacySettings, say: Any = lambda _: None) -> dict[str, Any]:
    return BENCHES.get("process-privacy").run(settings, say)


def test_every_method_stands_at_what_it_tells_and_forgets(tmp_path: Path) -> None:
    settings = replace(
        SMALL,
        records=str(tmp_path / "lines.jsonl"),
        page=str(tmp_path / "page.md"),
        picture=str(tmp_path / "frontier.png"),
    )
    result = run(settings)
    by_name = {entry["method"]: entry for entry in result["summary"]}
    assert list(by_name) == ["original", "renormalise", HIDDEN, "retrain"]
    assert all(entry["cells"] == 4 for entry in by_name.values())
    assert by_name["renormalise"]["named"]["value"] == 1.0
    assert by_name["renormalise"]["at_least"]["value"] == pytest.approx(math.log(10))
    assert by_name["renormalise"]["at_most"] == pytest.approx(math.log(10))
    hidden = by_name[HIDDEN]
    assert hidden["named"]["low"] <= 0.1 <= hidden["named"]["high"]
    assert (hidden["proved"], hidden["at_most"]) == (0, 0)
    # Top-only leaves the bottoms as they are, so that a probe finds what it found before.
    assert hidden["probe"] == by_name["original"]["probe"]
    assert by_name["original"]["forgotten"]["mean"] > 0.5
    assert hidden["forgotten"]["mean"] < 0.1
    if hidden["residual"]["value"] is not None:
        assert hidden["residual"]["value"] == pytest.approx(1.0)
        assert by_name["retrain"]["residual"]["value"] == pytest.approx(0.0)
    rows = table(result)
    assert [row[0] for row in rows[1:]] == list(by_name)
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    text = (tmp_path / "page.md").read_text()
    assert "| renormalise | open | 1.00" in text
    lines = (tmp_path / "lines.jsonl").read_text()
    messages: list[str] = []
    repeated = run(settings, messages.append)
    assert messages == []  # nothing is measured twice
    assert (tmp_path / "lines.jsonl").read_text() == lines
    assert repeated["summary"] == result["summary"]
    json.dumps(result)


@pytest.mark.long
def test_attackers_learn_from_further_requests(tmp_path: Path) -> None:
    settings = replace(
        SMALL,
        labels=(3,),
        requests=20,
        methods=("mask", "renormalise"),
        kept=str(tmp_path / "kept.jsonl"),
    )
    result = run(settings)
    by_name = {entry["method"]: entry for entry in result["summary"]}
    assert set(result["attacks"]) == {"mask", "renormalise", "retrain"}
    assert by_name["renormalise"]["named"]["of"] == 20
    assert by_name["renormalise"]["named"]["value"] > 0.8
    assert by_name["mask"]["named"]["low"] <= 0.1 <= by_name["mask"]["named"]["high"]
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 60


def cells(*values: float) -> dict[tuple[int, int], float]:
    return {(seed, 0): value for seed, value in enumerate(values)}


def test_residual_knowledge_by_hand() -> None:
    original, retrained = cells(0.9, 0.8, 1.0), cells(0.5, 0.4, 0.6)
    half = pooled_residual(cells(0.7, 0.6, 0.8), original, retrained)
    assert half["value"] == pytest.approx(0.5)
    assert half["low"] == pytest.approx(0.5)
    assert pooled_residual(original, original, retrained)["value"] == pytest.approx(1.0)
    assert pooled_residual(retrained, original, retrained)["value"] == pytest.approx(0.0)
    # A forgetter that knows less than a model that never saw the label.
    assert pooled_residual(cells(0.3, 0.2, 0.4), original, retrained)["value"] < 0


def test_residual_knowledge_is_undefined_where_there_is_no_gap() -> None:
    noisy = pooled_residual(cells(0.5, 0.5, 0.5), cells(0.6, 0.4, 0.5), cells(0.4, 0.6, 0.45))
    assert noisy["value"] is None
    assert "three standard errors" in noisy["note"]
    assert pooled_residual(cells(0.5), cells(0.9), cells(0.1))["value"] is None


def test_few_requests_are_judged_by_the_rule_that_is_best_on_the_others() -> None:
    # Rule a names every request; rule b is right about one of four by luck.
    lines = [{"labels": 10, "named": {"b": float(n == 0), "a": 1.0}} for n in range(4)]
    result = leakage("renormalise", lines, None)
    assert result["named"]["value"] == 1.0
    assert result["named"]["attack"] == "a"
    assert result["at_least"]["value"] == pytest.approx(math.log(10))
    # Two rules that are lucky once each: what is best on the others is wrong about this one.
    lucky = [{"labels": 10, "named": {"a": float(n == 0), "b": float(n == 1)}} for n in range(4)]
    result = leakage("mask", lucky, None)
    assert result["named"]["value"] == 0.0
    assert result["at_least"]["value"] == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": 3}, "Expected `requests` to be 0, or at least 4"),
        ({"labels": ()}, "Expected at least one label"),
        ({"seeds": 0}, "Expected at least one label and one seed"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(SMALL, **changes)


def test_a_label_that_is_not_there_is_named_before_any_training() -> None:
    with pytest.raises(SettingsError, match=r"`labels`"):
        run(replace(SMALL, labels=(12,)))
