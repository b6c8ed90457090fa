"""Clusters of gradients by every method: a small run, its table, and what is not repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench.privacy.cluster_leakage import ClusterLeakageSettings, table
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

SMALL = ClusterLeakageSettings(
    model="mlp", epochs=4, seeds=1, public=12, few_shot=8, requests=("0", "0+2")
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def run(settings: ClusterLeakageSettings, say: Any = lambda _: None) -> dict[str, Any]:
    return BENCHES.get("label-clusters").run(settings, say)


def test_rows_asked_for_alone_are_named_and_rows_left_out_are_not_clustered(
    tmp_path: Path,
) -> None:
    settings = replace(
        SMALL,
        methods=("boundary", "retrain"),
        records=str(tmp_path / "lines.jsonl"),
        page=str(tmp_path / "page.md"),
    )
    result = run(settings)
    by_name = {(x["method"], x["request"]): x for x in result["summary"]}
    alone, two = by_name["boundary", "0"], by_name["boundary", "0+2"]
    assert alone["clusters"]["mean"] == 1.0
    assert two["clusters among forgotten"]["mean"] > two["among forgotten by chance"]["mean"]
    assert by_name["retrain", "0"]["clusters"] is None
    rows = table(result)
    assert rows[1] == ["boundary", "0", "100.0 (100.0)", "100.0 (100.0)"]
    assert rows[3] == ["retrain", "0", "no such rows came", "no such rows came"]
    assert "| boundary | 0, 2 |" in (tmp_path / "page.md").read_text()
    messages: list[str] = []
    assert run(settings, messages.append) == result
    assert messages == []


def test_all_methods_that_send_gradients_are_tried() -> None:
    result = run(replace(SMALL, requests=("3",)))
    names = {x["method"].split(":")[0] for x in result["summary"]}
    assert {"renormalise", "boundary", "deep", "ssd"} <= names
    assert not {"mask", "hidden", "people"} & names


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError):
        replace(SMALL, requests=())
