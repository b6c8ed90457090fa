"""`unlabel forget` from the command line: what it prints, and what it refuses without a trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.command_line import nothing_written, one_thread, unlabel, write_tables

from unlabel.data import load_dataset
from unlabel.federation import Federation

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the digits run of the README."""
    run = tmp_path_factory.mktemp("runs") / "d"
    digits = ("--data", "digits", "--parties", 2, "--model", "convnet", "--epochs", 15)
    assert unlabel("train", *digits, "--seed", 0, "--out", run).code == 0
    return run


@pytest.fixture
def run(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that run, to do with what a test likes."""
    shutil.copytree(kept, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "d"


def refused(*words: object) -> str:
    """Run a command that must fail and leave every file as it was; return its sentence."""
    with nothing_written(Path.cwd()):
        return unlabel(*words).sentence


def test_forgetting_a_digit_prints_what_it_came_to(run: Path) -> None:
    found = unlabel("forget", run, "--label", "0", "--json").json
    assert (found["method"], found["visibility"], found["failed"]) == ("hidden", "hidden", "")
    assert found["privacy"]["information"] == 0.0
    assert found["labels"] == ["0"]
    assert found["steps"] == 0
    assert found["seconds"] > 0
    assert found["transcript_bytes"] > 10_000
    assert found["staged"] is True
    assert found["forgotten_accuracy"]["before"] > 0.9
    assert found["forgotten_accuracy"]["after"] == 0.0
    lost = found["retained_accuracy"]["before"] - found["retained_accuracy"]["after"]
    assert lost <= 0.02
    assert unlabel("rollback", run).code == 0
    words = ("forget", run, "--label", "0", "--method", "renormalise")
    assert "A hidden request was made" in refused(*words)  # nobody is to know that it was dropped
    found = unlabel(*words, "--allow-disclosure", "--json").json
    assert (found["visibility"], found["privacy"]) == ("open", None)
    assert 1 <= found["steps"] <= 40
    assert found["forgotten_accuracy"]["after"] == 0.0


def test_commit_in_one_go_and_a_second_request_after_it(run: Path) -> None:
    first = unlabel("forget", run, "--label", "0", "--commit", "--json").json
    assert (first["committed"], first["staged"]) == (True, False)
    assert unlabel("evaluate", run, "--json").json["per_label_accuracy"]["0"] == 0.0
    assert "Label '0' was already forgotten." in refused("forget", run, "--label", "0")
    assert unlabel("forget", run, "--label", "7", "--label", "8", "--commit").code == 0
    accuracies = unlabel("evaluate", run, "--json").json["per_label_accuracy"]
    assert [accuracies[n] for n in "078"] == [0.0, 0.0, 0.0]
    status = unlabel("status", run, "--json").json
    assert status["forgotten_labels"] == ["0", "7", "8"]
    assert status["together"] is True


def test_a_dry_run_tells_and_changes_nothing(run: Path) -> None:
    with nothing_written(run):
        found = unlabel("forget", run, "--label", "3", "--dry-run", "--json").json
        words = ("--label", "3", "--visibility", "open", "--dry-run", "--json")
        drawn = unlabel("forget", run, *words).json
    assert (found["method"], found["few_shot"]) == ("hidden", 0)
    holdings = Federation.open(run).holdings
    assert (found["rows_asked"], found["public_samples"]) == (len(holdings.labels), 0)
    words = ("--label", "3", "--set", "samples=public", "--dry-run", "--json")
    few = unlabel("forget", run, *words).json
    assert (few["rows_asked"], few["public_samples"]) == (0, len(holdings.rows.public))
    assert (drawn["method"], drawn["public_samples"]) == ("renormalise", 0)
    assert drawn["few_shot"] >= 2
    assert found["staged"] is False
    assert found["dry_run"] is True
    assert "dry run" in unlabel("forget", run, "--label", "3", "--dry-run").out.lower()


def test_a_rollback_returns_to_the_old_model(run: Path) -> None:
    before = unlabel("evaluate", run, "--json").json
    assert unlabel("forget", run, "--label", "3").code == 0
    assert unlabel("rollback", run, "--json").json["rolled_back"] is True
    assert unlabel("evaluate", run, "--json").json == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--label", "12"), "Did you mean '2'? Known: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9."),
        (("--label", "seven"), "Unknown label 'seven'."),
        ([f for n in range(9) for f in ("--label", str(n))], "at least two labels to be left"),
        ([f for n in range(10) for f in ("--label", str(n))], "at least two labels to be left"),
        ((), "Say what to forget: labels, or the ids of people"),
        (("--label", "1", "--method", "renormalize"), "Did you mean 'renormalise'?"),
        (
            ("--label", "1", "--visibility", "open", "--set", "top_lt=1"),
            "Unknown setting 'top_lt'. Did you mean 'top_lr'?",
        ),
        (
            ("--label", "1", "--visibility", "open", "--set", "top_lr=-1"),
            "Expected `top_lr` to be 0 or more",
        ),
        (("--label", "1", "--few-shot", "1"), "at least 2 few-shot and 1 retained samples"),
        (("--label", "1", "--robust", "dorp"), "Did you mean 'drop'?"),
        (("--label", "1", "--method", "people"), "Unknown method 'people'"),
        (("--id", "1", "--method", "deep"), "Method 'deep' forgets whole labels"),
        (("--id", "1", "--visibility", "hidden"), "0.955 before, 0.924 after, and 0.461 on a"),
        (("--id", "1", "--public-from", "anchors"), "leave --public-from out"),
        (("--label", "1", "--preset", "x"), "Method 'hidden' has no presets"),
        (
            ("--label", "1", "--method", "mixup-ascent", "--preset", "resnet18-cifar1"),
            "Did you mean 'resnet18-cifar10'?",
        ),
        (("--label", "1", "--public", "nowhere.npz"), "Public set 'nowhere.npz' does not exist"),
        (("--label", "1", "--visibility", "open", "--set", "top_lr=900"), "rolled back"),
        (
            ("--label", "1", "--visibility", "open", "--set", "bottom_lr=500", "--set", "look=1"),
            "rolled back",
        ),
        (
            ("--label", "1", "--visibility", "hiden"),
            "Unknown visibility 'hiden'. Did you mean 'hidden'?",
        ),
        (
            ("--label", "1", "--visibility", "hidden", "--method", "retrain"),
            "Method 'retrain' is open and cannot be hidden: it tells the partners the forgotten",
        ),
        (("--label", "1", "--depth", "bottoms", "--method", "delete"), "aims at depth 'top'"),
        (
            ("--label", "1", "--visibility", "open", "--method", "hidden"),
            "is hidden and cannot be open",
        ),
        (("--label", "1", "--set", "noise=-1"), "Expected `noise` to be 0 or more"),
        (("--label", "1", "--queue", "--commit"), "give --label with --queue and no other"),
        (("--queue",), "give --label with --queue and no other"),
        (("--label", "ten", "--queue"), "Unknown label 'ten'."),
    ],
)
def test_what_cannot_be_done_is_refused_without_a_trace(
    run: Path, flags: tuple[str, ...], message: str
) -> None:
    assert message in refused("forget", run, *flags)


def test_people_who_were_not_trained_on_are_named(run: Path) -> None:
    request = run.parent / "request.csv"
    request.write_text("id\n3\nnobody\n")
    assert "the first being 'nobody'" in refused("forget", run, "--ids", request)
    request.write_text("id\n")
    assert "has no rows" in refused("forget", run, "--ids", request)
    request.write_text("id,other\n1,2\n1,3\n")
    assert "id '1' stands in more than one row" in refused("forget", run, "--ids", request)
    for head in ("person,other\n1,2\n", "3\n4\n"):  # without a head the first person would be lost
        request.write_text(head)
        assert "has no id column 'id'" in refused("forget", run, "--ids", request)
    assert "There is no table" in refused("forget", run, "--ids", "nowhere.csv")
    assert "and not both" in refused("forget", run, "--label", "1", "--ids", write_id(request))


def write_id(path: Path) -> Path:
    path.write_text("id\n3\n")
    return path


def test_a_public_set_is_checked(run: Path) -> None:
    digits = load_dataset("digits")
    few = np.concatenate([np.flatnonzero(digits.y == n)[: 1 if n == 4 else 5] for n in range(10)])
    np.savez(run.parent / "few.npz", x=digits.x[few], y=digits.y[few])
    open_mode = ("--label", "4", "--visibility", "open")
    sentence = refused("forget", run, *open_mode, "--public", "few.npz")
    assert "has 1 usable samples of label '4', and 2 are needed" in sentence
    np.savez(run.parent / "strange.npz", x=digits.x[:50], y=digits.y[:50] + 5)
    assert "Unknown label" in refused("forget", run, "--label", "4", "--public", "strange.npz")
    np.savez(run.parent / "narrow.npz", x=digits.x[:50, :, :, :6], y=digits.y[:50])
    assert refused("forget", run, "--label", "4", "--public", "narrow.npz")


def test_two_requests_at_once_and_a_decision_about_nothing_are_refused(run: Path) -> None:
    for verb in ("commit", "rollback"):
        assert "No request is staged" in refused(verb, run)
    assert "nothing to purge" in refused("purge", run)
    assert unlabel("forget", run, "--label", "3").code == 0
    assert "is staged; commit it or roll it back first" in refused("forget", run, "--label", "4")
    assert "is staged; commit it or roll it back first" in refused("purge", run)


def test_a_run_of_tables_forgets_people_and_not_one_of_two_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = write_tables(tmp_path)
    assert unlabel("train", tables.config, "--out", "runs/t").code == 0
    sentence = refused("forget", "runs/t", "--label", "benign")
    assert "at least two labels to be left but 1 would be" in sentence
    holdings = Federation.open("runs/t").holdings
    listed = holdings.ids[holdings.rows.train[:10].numpy()].tolist()
    pd.DataFrame({"id": listed}).to_csv("request.csv", index=False)
    facts = unlabel("forget", "runs/t", "--ids", "request.csv", "--json").json
    assert facts["method"] == "retrain"
    assert facts["people"] == 10
    note = json.loads((tmp_path / "runs/t/active/staged" / "000021.json").read_text())["facts"]
    assert note["note"]["people"] == sorted(listed, key=holdings.ids.tolist().index)
    passive = (tmp_path / "runs/t/host/staged/000021.json").read_text()
    assert not any(f'"{person}"' in passive for person in listed)


def test_a_forgetting_that_did_not_happen_is_committed_only_by_force(tmp_path: Path) -> None:
    run = tmp_path / "run"
    Federation.local("digits", parties=2, model="convnet", epochs=3, folder=run).train()
    told = unlabel("forget", run, "--label", "0", "--method", "finetune", "--set", "epochs=1")
    assert "Not forgotten" in told.err
    refused = unlabel("commit", run)
    assert refused.code == 1
    assert "did not happen" in refused.sentence
    assert unlabel("commit", run, "--force").code == 0


@pytest.mark.parametrize("visibility", ["hidden", "open"])
def test_each_passive_party_records_a_request(run: Path, visibility: str) -> None:
    """A request is a few messages, which must not wait for a full block to be written."""
    assert unlabel("forget", run, "--label", 2, "--visibility", visibility, "--record").code == 0
    for party in ("passive-1", "passive-2"):
        lines = (run / party / "transcript.jsonl").read_text().splitlines()
        received = [e["kind"] for e in map(json.loads, lines) if e["direction"] == "received"]
        assert received.count("Stage") == 1
        assert "Embed" in received
        assert ("Gradients" in received) == (visibility == "open")
    assert unlabel("rollback", run).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--mode", "deep", "--visibility", "hidden"),  # the old word must not win over the new
        ("--mode", "hidden", "--depth", "bottoms"),
        ("--mode", "shallow"),
        ("--visibility", ""),
        ("--depth", ""),
        ("--visibility", "hidden", "--depth", "bottoms"),
    ],
)
def test_words_that_contradict_or_say_nothing_are_refused(
    run: Path, words: tuple[str, ...]
) -> None:
    with nothing_written(run):
        assert unlabel("forget", run, "--label", "1", *words).sentence
