"""The comparison on small runs: killed, started again, reused, tuned, and between more parties."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench import trials
from unlabel_bench.comparison import runtime
from unlabel_bench.comparison.comparison import ComparisonSettings, TwoLabelSettings
from unlabel_bench.comparison.runtime import RuntimeSettings
from unlabel_bench.originals import folder_of, open_original, recipe_digest
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

SMALL = ComparisonSettings(epochs=2, seeds=1, methods=("retrain", "renormalise", "mask"))
#: What a clock or a place says, which is another each time.
PASSING = {"seconds", "seconds_all", "train_seconds", "epoch_seconds", "where"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def reproducible(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures that must be the same every time."""
    return [{k: v for k, v in x.items() if k not in PASSING} for x in result["records"]]


def keys(path: Path) -> list[tuple[Any, ...]]:
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return [(x["kind"], x["method"], x.get("seed")) for x in lines]


def test_a_comparison_measures_and_starts_again_without_repeating(tmp_path: Path) -> None:
    files = {name: str(tmp_path / "out" / name) for name in ("records", "page", "picture")}
    settings = replace(SMALL, **files)  # type: ignore[arg-type]
    heard: list[str] = []
    result = BENCHES.get("single-label").run(settings, heard.append)
    assert heard[0] == "seed 0: training the original"
    ours = next(x for x in result["records"] if x["method"] == "renormalise")
    assert {"asr", "probe_linear", "probe_nearest", "bytes", "steps", "retained"} <= ours.keys()
    assert (ours["needs"], ours["names_rows"], ours["forgotten"]) == ("few-shot", False, 0.0)
    assert ours["tells"]["rows"] == ["public"]
    assert set(ours["where"]) == {"device", "torch", "commit"}
    assert set(result["headline"]) == {"retained", "asr", "time", "faster"}
    assert Path(files["picture"]).read_bytes().startswith(b"\x89PNG")
    assert "`retrain`" in Path(files["page"]).read_text()
    repeated = BENCHES.get("single-label").run(
        settings, pytest.fail
    )  # says nothing, since there is nothing to do
    assert repeated["records"] == result["records"]
    json.dumps(result)


def test_a_reused_original_gives_what_a_fresh_one_gives() -> None:
    fresh = BENCHES.get("single-label").run(SMALL, lambda _: None)
    heard: list[str] = []
    reused = BENCHES.get("single-label").run(SMALL, heard.append)
    assert not any("training" in text for text in heard)
    assert reproducible(reused) == reproducible(fresh)
    heard.clear()
    two = replace(TwoLabelSettings(**vars(SMALL)), labels=(0, 2), methods=("mask",))
    assert BENCHES.get("single-label").run(two, heard.append)["request"] == "0+2"
    assert not any("training" in text for text in heard)


def test_a_method_whose_code_changed_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    settings = replace(SMALL, methods=("mask", "renormalise"), records=str(path))
    BENCHES.get("single-label").run(settings, lambda _: None)
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert [len(x.get("code", "")) for x in lines] == [0, 12, 12]
    lines[1]["retained"] = 0.0  # what the old code came to
    del lines[2]["code"]  # from before lines had it
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    monkeypatch.setattr(trials, "code_digest", lambda _: "another code")
    late = BENCHES.get("single-label").run(replace(settings, budget=1e-9), pytest.fail)
    assert [x["method"] for x in late["records"]] == ["original", "renormalise"]
    heard: list[str] = []
    result = BENCHES.get("single-label").run(settings, heard.append)
    assert [text.split(":")[0] for text in heard] == ["seed 0 mask 0"]
    assert keys(path).count(("forget", "mask", 0)) == 2
    entry = next(x for x in result["summary"] if x["method"] == "mask")
    assert entry["runs"] == 1
    assert entry["retained"]["mean"] > 0
    assert BENCHES.get("single-label").run(settings, pytest.fail)["summary"] == result["summary"]


def test_an_original_is_that_of_its_recipe_wherever_it_is_computed() -> None:
    assert recipe_digest(SMALL) == recipe_digest(replace(SMALL, device="cuda", graphs=True))
    assert recipe_digest(SMALL) == recipe_digest(TwoLabelSettings(epochs=2))
    assert recipe_digest(SMALL) != recipe_digest(replace(SMALL, epochs=3))


@pytest.mark.parametrize("damage", ["no manifest", "torn weights", "torn manifest"])
def test_a_damaged_original_is_trained_again(damage: str) -> None:
    open_original(SMALL, 0, lambda _: None)
    versions = folder_of(SMALL, 0) / "versions"
    weights, manifest = versions / "000001.safetensors", versions / "000001.json"
    before = weights.read_bytes()
    if damage == "no manifest":
        manifest.unlink()
    else:
        torn = weights if damage == "torn weights" else manifest
        torn.write_bytes(torn.read_bytes()[:-40])
    heard: list[str] = []
    open_original(SMALL, 0, heard.append)
    assert heard == ["seed 0: training the original"]
    assert weights.read_bytes() == before


@pytest.mark.long
def test_a_killed_bench_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    methods = "mask,retrain,renormalise,deep:epochs=2,scrub"
    words = ["epochs=2", "seeds=3", f"methods={methods}", f"records={path}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unlabel_bench", "single-label", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 60
    while (not path.exists() or path.read_bytes().count(b"\n") < 4) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was to be killed before its end"
    killed = path.read_bytes()
    whole = killed[: killed.rindex(b"\n") + 1]
    path.write_bytes(whole + b'{"recipe": "to')  # as if it had been writing
    settings = ComparisonSettings(
        epochs=2, seeds=3, methods=tuple(methods.split(",")), records=str(path)
    )
    result = BENCHES.get("single-label").run(settings, lambda _: None)
    assert path.read_bytes().startswith(whole)
    done = keys(path)
    assert len(done) == len(set(done)) == 3 * 6 == len(result["records"])


def test_a_bench_whose_time_is_over_begins_nothing_new() -> None:
    result = BENCHES.get("single-label").run(replace(SMALL, budget=1e-9), pytest.fail)
    assert result["records"] == []
    assert result["headline"]["time"]["holds"] is None


def test_tuning_keeps_its_choice_for_others(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    settings = replace(SMALL, methods=("delete", "mask"), tuned=True, records=str(path))
    result = BENCHES.get("single-label").run(settings, lambda _: None)
    (choice,) = result["choices"]
    assert len(choice["candidates"]) == 5
    kinds = [json.loads(text)["kind"] for text in path.read_text().splitlines()]
    assert kinds.count("sweep") == 5
    assert kinds.count("choice") == 1
    tuned = [x["method"] for x in result["summary"] if x["tuned"]]
    assert tuned == ([] if choice["published_won"] else [choice["chosen"]])
    assert BENCHES.get("single-label").run(settings, pytest.fail)["choices"] == result["choices"]
    other = replace(settings, labels=(0, 2), records="", tuned=False, tuned_from=str(path))
    heard: list[str] = []
    taken = BENCHES.get("single-label").run(other, heard.append)
    assert not any(text.startswith("sweep") for text in heard)
    assert [x["chosen"] for x in taken["choices"]] == [choice["chosen"]]


def test_a_method_that_fails_is_a_figure_too() -> None:
    name = "ascent:lr=1000.0:batchnorm=frozen"
    result = BENCHES.get("single-label").run(replace(SMALL, methods=(name, "mask")), lambda _: None)
    entry = next(x for x in result["summary"] if x["method"] == name)
    assert entry["runs"] == 0
    assert entry["retained"] is None
    assert entry["failed"][0].startswith("Forgetting diverged")
    # What it left behind is gone: the next method begins at the original.
    lines = {x["method"]: x for x in result["records"]}
    assert lines["mask"]["forgotten_before"] == lines["original"]["forgotten"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": (10,)}, "Expected `labels` to be some of 0 to 9"),
        ({"labels": (1, 1)}, "each once"),
        ({"methods": ("renormalize",)}, "Did you mean 'renormalise'"),
        ({"methods": ("mixup-ascent@nope",)}, "Known: .*four-label-resnet18-cifar10"),
        ({"methods": ("mask@nope",)}, "Method 'mask' has no presets"),
        ({"tuned_from": "nowhere.jsonl"}, "Records 'nowhere.jsonl' cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_said(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        BENCHES.get("single-label").run(
            replace(SMALL, **changes), pytest.fail
        )  # before anything is trained


def test_a_method_that_is_named_twice_is_measured_once() -> None:
    result = BENCHES.get("single-label").run(
        replace(SMALL, methods=("mask", "mask")), lambda _: None
    )
    assert result["methods"] == ["mask"]


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"`validation`"):
        replace(SMALL, validation=0.0, tuned=True)
    with pytest.raises(SettingsError):
        replace(SMALL, seeds=0)


def test_runtime_measures_every_number_of_parties_warm(tmp_path: Path) -> None:
    settings = RuntimeSettings(
        epochs=1,
        counts=(1, 2),
        methods=("renormalise", "mask"),
        records=str(tmp_path / "r.jsonl"),
        picture=str(tmp_path / "r.png"),
        page=str(tmp_path / "r.md"),
        note="On a train.",
    )
    result = BENCHES.get("runtime").run(settings, lambda _: None)
    ours = [x for x in result["records"] if x["method"] == "renormalise"]
    assert [x["parties"] for x in ours] == [1, 2]
    assert all(x["seconds"] == x["seconds_all"][1] and "asr" not in x for x in ours)
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert [row[0] for row in runtime.table(result)] == ["seconds", "renormalise", "mask"]
    assert BENCHES.get("runtime").run(settings, pytest.fail)["records"] == result["records"]
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("# Forgetting label 0 for K = 1, 2\n")
    assert "A request is made 2 times" in text
    assert "On a train." in text
    assert text.count("| mask |") == 1
    judged = BENCHES.get("runtime").run(replace(settings, quality=True, repeats=1), lambda _: None)
    assert all("asr" in x for x in judged["records"])
    assert runtime.table(judged)[-1][0] == "membership attack mask"
    text = (tmp_path / "r.md").read_text()
    assert text.count("| mask |") == 4
    assert "of the first request" in text
