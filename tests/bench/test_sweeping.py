"""Sweeps: both ways, the same effort for all, judged on validation rows, and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from unlabel_bench.measures import read_method
from unlabel_bench.sweep import SWEEPS, candidates

from unlabel.forget.method import settings_of

__all__ = ["one_thread"]  # a fixture for every test here

#: The paper's rates, at which nothing is learned: all others lie above them. And a training's own
#: rate, which is no number of the method's.
ONE_SIDED = ("ascent", "mixup-ascent", "deep")
QUICK = ("--model", "mlp", "--epochs", "2", "--methods", "delete,ssd,mask")


@pytest.mark.parametrize("name", [name for name in SWEEPS if name not in ONE_SIDED])
def test_a_sweep_goes_both_ways(name: str) -> None:
    before: dict[str, Any] = settings_of(read_method(name))
    sides: dict[str, set[bool]] = {}
    for form in candidates(name)[1:]:
        for key, value in settings_of(read_method(form)).items():
            if isinstance(value, int | float) and value != before[key]:
                sides.setdefault(key, set()).add(value > before[key])
    assert {True, False} in sides.values()


def test_the_command_goes_on_where_it_stopped_and_a_comparison_takes_its_choices(
    tmp_path: Path,
) -> None:
    out, records = tmp_path / "sweep.json", tmp_path / "sweep.jsonl"
    first = unlabel("bench", "sweep", *QUICK[:-1], "delete", "--out", out).code
    assert first == 0
    done = records.read_text(encoding="utf-8").splitlines()
    assert unlabel("bench", "sweep", *QUICK, "--out", out).code == 0
    lines = records.read_text(encoding="utf-8").splitlines()
    assert lines[: len(done)] == done  # nothing is tried twice
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["sweep"] * 5 + ["choice"] + ["sweep"] * 5 + ["choice"]
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert [entry["method"] for entry in result["methods"]] == ["delete", "ssd"]
    for entry in result["methods"]:
        forgetting = [line for line in entry["tried"] if line["forgotten"] <= 0.01]
        best = (
            max(forgetting, key=lambda line: line["retained"])
            if forgetting
            else min(entry["tried"], key=lambda line: (line["forgotten"], -line["retained"]))
        )
        assert entry["chosen"] == best["method"]
    words = (*QUICK[:-1], "delete", "--seeds", "1", "--tuned-from", records)
    compared = unlabel("bench", "single-label", *words, "--json").json
    names = {line["method"] for line in compared["summary"]}
    assert result["methods"][0]["chosen"] in names


def test_without_validation_rows_there_is_nothing_to_judge_by() -> None:
    assert unlabel("bench", "sweep", "--validation", "0").code == 1
