"""The bench of requests: the undefended method is found out, a hidden one is not, nor by files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench.privacy import request_attacks
from unlabel_bench.privacy.request_privacy import RequestPrivacySettings, table
from unlabel_bench.privacy.scenes import Scene
from unlabel_bench.registry import BENCHES

from unlabel.errors import ForgetError, SettingsError
from unlabel.federation import Federation

__all__ = ["one_thread"]  # a fixture for every test here

HIDDEN = "hidden:steps=20"
SMALL = RequestPrivacySettings(
    epochs=4, requests=40, originals=2, people=0, methods=("renormalise", "mask", HIDDEN)
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def run(settings: RequestPrivacySettings, say: Any = lambda _: None) -> dict[str, Any]:
    return BENCHES.get("request-privacy").run(settings, say)


@pytest.mark.long
def test_the_undefended_method_is_found_out_and_a_hidden_one_is_not(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    by_name = {m["method"]: m for m in run(replace(SMALL, page=str(page)))["methods"]}
    message = by_name["renormalise"]
    assert message["best"]["value"] > 0.95
    assert message["information"]["limit"] > 1.5
    assert message["rows"]["public samples"] > 0.95
    assert message["bound"] is None
    assert not message["alike"]
    for quiet in (by_name["mask"], by_name[HIDDEN]):
        assert quiet["best"]["low"] <= quiet["chance"] <= quiet["best"]["high"]
        assert quiet["information"]["limit"] < 0.05
        assert quiet["bound"]["information"] == 0
        assert quiet["alike"]  # not only to these attacks: there is nothing to see
        assert quiet["rows"]["training rows"] == 0.5
    assert all(m["outcome"]["forgotten"] < 0.1 for m in by_name.values())
    text = page.read_text()
    assert "40 requests a method" in text
    assert f"| {HIDDEN} |" in text


@pytest.mark.long
def test_noise_keeps_what_is_told_below_the_bound(tmp_path: Path) -> None:
    method = "hidden:steps=5:noise=0.5:moves=3"
    (result,) = run(replace(SMALL, requests=60, methods=(method,)))["methods"]
    assert not result["alike"]
    assert result["information"]["limit"] <= result["bound"]["information"]
    assert result["bound_holds"]
    # The noise is small enough for the attack to find something.
    assert result["best"]["low"] > result["chance"]
    json.dumps(result)


@pytest.mark.long
def test_a_partys_files_tell_an_open_request_and_not_a_hidden_one() -> None:
    small = replace(SMALL, requests=10, files=True, methods=("renormalise", HIDDEN))
    by_name = {m["method"]: m for m in run(small)["methods"]}
    assert by_name["renormalise"]["attacks"]["one party/named in a text"]["value"] == 1.0
    hidden = by_name[HIDDEN]
    assert hidden["alike"]
    assert hidden["attacks"]["one party/named in a text"]["value"] < 0.5
    assert hidden["failed"] == 0


def test_the_files_of_a_party_are_among_what_it_sees(tmp_path: Path) -> None:
    federation = Federation.local(
        "digits", model="mlp", epochs=1, public=12, folder=tmp_path / "run", record=True
    )
    federation.train()
    scene = Scene(federation, tmp_path / "run")
    shown = scene.show([3], HIDDEN, few_shot=4, retained=2)
    names = shown.traces["one party"].whole
    for file in ("ledger.jsonl", "transcript.jsonl", "certificate.json"):
        assert names[f"0/file size {file}"] > 0
    assert any(name.startswith("0/file size versions/") for name in names)
    # It was made to a copy: the run itself has forgotten nothing.
    assert not (tmp_path / "run" / "passive-1" / "ledger.jsonl").exists()


def test_a_bench_that_starts_again_repeats_nothing(tmp_path: Path) -> None:
    small = replace(SMALL, requests=8, methods=("mask",), kept=str(tmp_path / "kept.jsonl"))
    first = run(small)
    lines = (tmp_path / "kept.jsonl").read_text()
    assert len(lines.splitlines()) == 8
    messages: list[str] = []
    repeated = run(small, messages.append)
    assert repeated == first
    assert (tmp_path / "kept.jsonl").read_text() == lines
    assert messages == ["mask: attacking"]
    more = run(replace(small, requests=12))
    assert more["methods"][0]["requests"] == 12
    assert (tmp_path / "kept.jsonl").read_text().startswith(lines)


def test_labels_are_drawn_evenly_and_the_same_every_time() -> None:
    plan = request_attacks.Plan(1000, 1, 2, 1)
    labels = [plan.label(number, 10) for number in range(1000)]
    assert labels == [plan.label(number, 10) for number in range(1000)]
    counts = [labels.count(label) for label in range(10)]
    assert min(counts) > 60
    assert max(counts) < 140


@pytest.mark.long
def test_people_are_named_by_not_being_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    small = replace(SMALL, requests=4, people=4, methods=("mask",), page=str(page))
    result = run(small)["people"]
    assert (result["requests"], result["listed"]) == (4, 10)
    # A guess has 0.5. No gradient comes for them, and so they stand below everybody else.
    assert result["auc"]["apart"]["mean"] == 1.0
    assert result["auc"]["push"]["mean"] == 0.0
    assert "they are the rows that are not asked for" in " ".join(page.read_text().split())


def test_a_table_has_a_row_a_method() -> None:
    result = run(replace(SMALL, requests=8, methods=("mask",)))
    rows = table(result)
    assert [row[0] for row in rows] == ["method", "mask"]
    assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": 3}, "Expected at least 4 requests"),
        ({"originals": 0}, "Expected at least 4 requests to 1 original"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(SMALL, **changes)


def test_where_every_request_fails_the_reason_is_told() -> None:
    with pytest.raises(ForgetError):
        run(replace(SMALL, requests=4, methods=("renormalise",), few_shot=1))


def test_a_measurement_that_fails_leaves_the_original_as_it_was() -> None:
    federation = Federation.local("digits", model="mlp", epochs=1, public=12)
    federation.train()
    scene = Scene(federation)

    def fail(_: Federation) -> dict[str, Any]:
        raise ValueError("no sense in it")

    with pytest.raises(ValueError, match="no sense"):
        scene.show([3], "renormalise", fail, few_shot=4, retained=2)
    assert federation.undecided is None
    assert scene.show([3], "mask").outcome["forgotten"] == 0.0
