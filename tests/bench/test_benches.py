"""The other benches in a tiny setting, and how a bench is called."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from unlabel_bench.__main__ import main
from unlabel_bench.comparison.epochs import EpochsSettings
from unlabel_bench.comparison.training import TrainingSettings
from unlabel_bench.provenance import provenance
from unlabel_bench.registry import BENCHES
from unlabel_bench.speed.split_overhead import SplitOverheadSettings

from unlabel.errors import SettingsError
from unlabel.words import parse_settings


def test_every_bench_says_what_it_measures() -> None:
    assert {"fuzz-wire", "split-overhead", "training"} <= set(BENCHES.names())
    for name in BENCHES.names():
        assert BENCHES.get(name).about
        assert BENCHES.get(name).settings.__doc__


def test_split_overhead_compares_both_ways_of_training() -> None:
    bench = BENCHES.get("split-overhead")
    settings = SplitOverheadSettings(
        parties=(1, 2), model="mlp", size=8, rows=32, batch=16, repeats=1
    )
    messages: list[str] = []
    result = bench.run(settings, messages.append)
    assert list(result["ratios"]) == ["1", "2"]
    for figures in result["ratios"].values():
        assert 0 < figures["lowest"] <= figures["highest"]
        assert figures["ratio"] > 0
        assert figures["repeats"] == 1
    assert messages[0].startswith("K = 1: repeat 0")
    lines = bench.table(result)
    assert lines[0][0] == "passive parties"
    assert [line[0] for line in lines[1:]] == ["1", "2"]
    json.dumps(result)


def test_epochs_compares_both_ways_and_scikit_learn_on_every_table(tmp_path: Path) -> None:
    bench = BENCHES.get("epochs")
    rng = np.random.default_rng(0)
    lines = [f"{a},{'xyz'[n % 3]},{int(a > 0)}" for n, a in enumerate(rng.normal(size=110))]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    settings = EpochsSettings(
        files=("own.csv:label=y",), folder=str(tmp_path), rows=(100,), seeds=1
    )
    with pytest.MonkeyPatch.context() as patch:
        # The tables of scikit-learn take their time; one of a user's own shows the same.
        patch.setattr("unlabel_bench.comparison.epochs._known", lambda: iter(()))
        messages: list[str] = []
        result = bench.run(settings, messages.append)
    assert messages == ["own-100, seed 0"]
    ((name, figures),) = result["tables"].items()
    assert (name, figures["rows"]) == ("own-100", 100)
    assert figures["old_epochs"]["mean"] == 20 < figures["auto_epochs"]["mean"] <= 100
    for kind in ("old", "auto", "mlp", "logistic"):
        assert 0.5 <= figures[kind]["mean"] <= 1
    assert bench.table(result)[1][0] == "own-100"
    json.dumps(result)


def test_training_reports_every_seed() -> None:
    bench = BENCHES.get("training")
    settings = TrainingSettings(epochs=1, batch=256, model="mlp", seeds=(3, 4))
    messages: list[str] = []
    result = bench.run(settings, messages.append)
    assert [one["seed"] for one in result["runs"]] == [3, 4]
    for one in result["runs"]:
        assert 0 < one["accuracy"] <= 1
        assert len(one["per_label_accuracy"]) == 10
        assert len(one["epoch_seconds"]) == 1
        assert one["rows"] > 1_000
    accuracies = [one["accuracy"] for one in result["runs"]]
    assert result["accuracy_mean"] == pytest.approx(sum(accuracies) / 2)
    assert result["accuracy_deviation"] >= 0
    assert len(messages) == 2
    assert [line[0] for line in bench.table(result)] == ["seed", "3", "4"]
    json.dumps(result)


def test_one_seed_has_no_deviation() -> None:
    settings = TrainingSettings(epochs=1, batch=256, model="mlp")
    result = BENCHES.get("training").run(settings, lambda _: None)
    assert result["accuracy_deviation"] is None


# --- settings ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Every:
    """A setting of each sort."""

    count: int = 1
    rate: float = 0.5
    name: str = "a"
    fast: bool = False
    parts: tuple[int, ...] = (1,)


def test_settings_are_read_by_their_type() -> None:
    words = ["count=3", "rate=1e-3", "name=b=c", "fast=true", "parts=1,2,8"]
    assert parse_settings(Every, words) == Every(3, 1e-3, "b=c", True, (1, 2, 8))
    assert parse_settings(Every, []) == Every()
    assert parse_settings(Every, ["count=1", "count=2"]).count == 2


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("count", "Expected a setting like count=VALUE but got 'count'."),
        ("", "Expected a setting like count=VALUE but got ''."),
        ("cuont=1", "Unknown setting 'cuont'. Did you mean 'count'?"),
        ("=1", "Unknown setting ''. Known: count, fast, name, parts, rate."),
        ("count=1.5", "Expected `count` to be int but got '1.5'."),
        ("count=", "Expected `count` to be int but got ''."),
        ("rate=fast", "Expected `rate` to be float but got 'fast'."),
        ("fast=yes", "Expected `fast` to be true or false but got 'yes'."),
        ("parts=1,,2", "Expected `parts` to be "),
        ("parts=1-2", "Expected `parts` to be "),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(word: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(Every, [word])
    assert str(caught.value).startswith(message)


# --- the command ---------------------------------------------------------------------------


def test_provenance_says_how_to_repeat_a_measurement() -> None:
    result = provenance(Every(count=9))
    assert result["settings"]["count"] == 9
    assert set(result) == {"settings", "command", "date", "commit", "machine", "versions"}
    assert {"unlabel", "python", "torch", "numpy", "safetensors"} <= set(result["versions"])
    json.dumps(result)


def test_the_commit_can_be_named_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_COMMIT", "abc123")
    assert provenance(Every())["commit"] == "abc123"


def test_a_bench_runs_as_a_module_and_prints_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unlabel_bench", "fuzz-wire", "count=40", "seed=2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["bench"], result["inputs"], result["violations"]) == ("fuzz-wire", 40, [])
    assert result["settings"] == {"count": 40, "seed": 2}
    assert result["command"].endswith("fuzz-wire count=40 seed=2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Error: Name a bench: "),
        (["fuz-wire"], "Error: Unknown bench 'fuz-wire'. Did you mean 'fuzz-wire'?"),
        (["fuzz-wire", "cont=1"], "Error: Unknown setting 'cont'. Did you mean 'count'?"),
        (["fuzz-wire", "count=x"], "Error: Expected `count` to be int but got 'x'."),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(message)
