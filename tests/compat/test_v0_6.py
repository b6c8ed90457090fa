"""Runs, kits and certificates that unlabel 0.6.0 made go on where it left them."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.command_line import Outcome, nothing_written, one_thread, unlabel
from compat.places import MADE, PRINTED, put
from safetensors.torch import load_file

import unlabel as ul
from unlabel.compat import depth_name, translate_policy
from unlabel.remote.kit import Kit
from unlabel.remote.rules import ALLOWED

__all__ = ["one_thread"]  # a fixture for every test here

#: What a command may end with that was carried out; a verdict that is not passed was 1 in 0.6.
DONE = (0, 1, 3)

Place = Callable[[str], Path]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a function that puts an artefact where it may be changed, with what it needs."""
    monkeypatch.syspath_prepend(str(tmp_path))  # and sys.path is as before when a test ends
    return lambda name: put(name, tmp_path)


def entries(run: Path, party: str) -> list[list[str]]:
    found = unlabel("ledger", run, "--party", party, "--json").json["entries"]
    return [[entry[key] for key in ("event", "request", "hash")] for entry in found]


def events(run: Path, party: str = "active") -> list[str]:
    return [event for event, _, _ in entries(run, party)]


def by_label(run: Path) -> dict[str, float]:
    found: dict[str, float] = unlabel("evaluate", run, "--json").json["per_label_accuracy"]
    return found


def expect_printed(found: dict[str, Any], printed: dict[str, Any]) -> None:
    """Check what 0.6 printed too; a later version may print more."""
    for key, value in printed.items():
        if isinstance(value, dict):
            expect_printed(found[key], value)
        elif key == "level":
            assert found["depth"] == depth_name(value)
        elif key not in ("run", "certificate"):
            assert found[key] == value, key


def expect_figures(found: dict[str, Any], printed: dict[str, Any]) -> None:
    """Check an evaluation: the weights are the same, but for the last digits of a sum."""
    assert found["per_label_accuracy"] == pytest.approx(printed["per_label_accuracy"], abs=1e-6)
    assert found["confusion"] == printed["confusion"]
    assert found["forgotten_labels"] == printed["forgotten_labels"]
    if not printed["forgotten_labels"]:  # of all labels in 0.6, which says little of the others
        assert found["loss"] == pytest.approx(printed["loss"], rel=1e-4)
        assert found["accuracy"] == pytest.approx(printed["accuracy"], abs=1e-6)


def expect_predictions(found: dict[str, Any], printed: dict[str, Any]) -> None:
    assert found["rows"] == printed["rows"]
    for row, old in zip(found["predictions"], printed["predictions"], strict=True):
        assert (row["id"], row["label"]) == (old["id"], old["label"])
        assert row["probability"] == pytest.approx(old["probability"], abs=1e-4)


def verdict_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code in DONE, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def expect_verdict(found: dict[str, Any], printed: dict[str, Any], models: set[str]) -> None:
    """Check the figures of an audit of models that are still the same ones."""
    assert found["labels"] == printed["labels"]
    for measure, values in printed["figures"].items():
        now = found["measures"][measure]["values"]
        assert models <= now.keys()
        for model in models:
            assert now[model]["value"] == pytest.approx(values[model], abs=1e-6), (measure, model)


# --- what is there is read as it was ---------------------------------------------------------


@pytest.mark.parametrize("name", ["finished", "staged", "queued", "digits"])
def test_a_run_is_read_as_0_6_read_it(name: str, place: Place) -> None:
    run, printed = place(name), PRINTED[name]
    with nothing_written(run):
        expect_printed(unlabel("status", run, "--json").json, printed["status"])
        for party, lines in printed["ledgers"].items():
            assert entries(run, party) == lines
        expect_figures(unlabel("evaluate", run, "--json").json, printed["evaluate"])
        opened = ul.Federation.open(run)
        assert opened.labels == tuple(printed["evaluate"]["labels"])
        found = opened.evaluate().per_label_accuracy
        assert list(found) == pytest.approx(
            list(printed["evaluate"]["per_label_accuracy"].values())
        )


def test_people_are_predicted_as_before(place: Place) -> None:
    run = place("finished")
    with nothing_written(run):
        expect_predictions(unlabel("predict", run, "--json").json, PRINTED["finished"]["predict"])
        tables = run.parent / "tables"
        new = ("--table", f"active={tables / 'bank.csv'}", "--table", f"shop={tables / 'shop.csv'}")
        everyone = unlabel("predict", run, *new, "--json").json
    answers = {row["id"]: row["label"] for row in everyone["predictions"]}
    for row in PRINTED["finished"]["predict"]["predictions"]:
        assert answers[row["id"]] == row["label"]


def test_a_certificate_holds_alone_and_beside_its_run_and_its_annex_opens(place: Place) -> None:
    run = place("finished")
    key = run.parent / "auditor" / "auditor.key"
    with nothing_written(run):
        alone = unlabel("verify", run / "certificate.json", "--json").json
        assert (alone["holds"], alone["faults"]) == (True, [])
        words = ("--run", run, "--annex-key", key, "--json")
        found = unlabel("verify", run / "certificate.json", *words).json
    printed = PRINTED["finished"]["verify"]
    assert (found["holds"], found["faults"]) == (True, [])
    (sentence,) = found["not_checked"]
    assert "certificates of version 0.6 and 0.7 hold no hash of the audit's figures" in sentence
    assert len(found["held"]) >= len(printed["held"])
    expect_printed(found["annex"], printed["annex"])


def test_a_certificate_that_was_changed_does_not_hold(place: Place) -> None:
    run = place("finished")
    path = run / "certificate.json"
    path.write_text(path.read_text().replace('"level": "top"', '"level": "deep"'))
    outcome = unlabel("verify", path, "--run", run, "--json")
    assert outcome.code in (1, 3)
    assert json.loads(outcome.out)["faults"]


def test_a_committed_request_is_reported_and_certified_again(place: Place) -> None:
    run = place("finished")
    before = json.loads((run / "certificate.json").read_text())["certificate"]
    assert unlabel("report", run).code == 0
    page = (run / "report.html").read_text()
    assert before["request"] in page
    assert "gold" in page
    made = unlabel("certificate", run, "--json").json
    assert (made["request"], made["newly_trusted"]) == (before["request"], [])
    assert unlabel("verify", run / "certificate.json", "--run", run, "--json").json["holds"]


def test_the_audit_of_a_purged_request_stays_as_it_is(place: Place) -> None:
    run = place("finished")
    kept = (run / "active" / "audit.json").read_bytes()
    assert "would find less than that of" in unlabel("audit", run).sentence
    assert (run / "active" / "audit.json").read_bytes() == kept
    assert unlabel("report", run).code == 0


# --- requests ----------------------------------------------------------------------------------


def test_a_run_forgets_its_next_label(place: Place) -> None:
    run = place("finished")
    request = unlabel("forget", run, "--label", "silver", "--json").json["request"]
    assert unlabel("commit", run, "--json").json["request"] == request
    assert unlabel("purge", run).code == 0
    assert unlabel("status", run, "--json").json["forgotten_labels"] == ["gold", "silver"]
    found = by_label(run)
    assert found["gold"] is found["silver"] is None  # their labels were purged, 0.6's too
    for party in ("active", "shop"):
        lines = entries(run, party)
        assert lines[:2] == PRINTED["finished"]["ledgers"][party]
        assert [event for event, _, _ in lines[2:]] == ["commit", "purge"]
    # The certificate of 0.6 is of an earlier request now, and still holds by itself.
    assert unlabel("verify", run / "certificate.json", "--json").json["holds"]
    made = unlabel("certificate", run, "--json").json
    assert made["request"] == request
    assert unlabel("verify", run / "certificate.json", "--run", run, "--json").json["holds"]


def test_a_staged_request_is_audited_and_committed(place: Place) -> None:
    run, printed = place("staged"), PRINTED["staged"]
    found = verdict_of(unlabel("audit", run, "--json"))
    expect_verdict(found, printed["audit"], {"original", "forgotten", "mask"})
    assert (found["state"], found["depth"]) == ("staged", printed["audit"]["level"])
    request = printed["status"]["parties"]["shop"]["staged"]
    assert unlabel("commit", run, "--json").json["request"] == request
    assert by_label(run)["silver"] == 0
    assert unlabel("status", run, "--json").json["forgotten_labels"] == ["silver"]
    assert events(run, "shop") == ["commit"]


def test_a_staged_request_stands_in_the_way_and_can_be_rolled_back(place: Place) -> None:
    run, printed = place("staged"), PRINTED["staged"]
    request = printed["status"]["parties"]["shop"]["staged"]
    with nothing_written(run):
        told = unlabel("forget", run, "--label", "gold").sentence
        assert request in told
    assert unlabel("rollback", run, "--json").json["request"] == request
    expect_figures(unlabel("evaluate", run, "--json").json, PRINTED["trained"]["evaluate"])
    expect_predictions(unlabel("predict", run, "--json").json, PRINTED["trained"]["predict"])
    assert unlabel("forget", run, "--label", "gold", "--commit").code == 0
    assert by_label(run)["gold"] == 0


def test_an_interrupted_commit_is_finished_by_recover(place: Place) -> None:
    run, printed = place("interrupted"), PRINTED["interrupted"]["status"]
    request = printed["parties"]["shop"]["staged"]
    with nothing_written(run):
        expect_printed(unlabel("status", run, "--json").json, printed)
        assert "unlabel recover" in unlabel("evaluate", run).sentence
        with pytest.raises(ul.UnlabelError, match="recover"):
            ul.Federation.open(run)
    assert request in unlabel("recover", run, "--json").json["recovered"]
    status = unlabel("status", run, "--json").json
    assert (status["together"], status["forgotten_labels"]) == (True, ["silver"])
    assert by_label(run)["silver"] == 0
    assert events(run, "active") == events(run, "shop") == ["commit"]


def test_a_request_that_one_party_alone_had_staged_is_dropped_by_recover(place: Place) -> None:
    run, printed = place("unstaged"), PRINTED["unstaged"]["status"]
    request = printed["parties"]["shop"]["staged"]
    with nothing_written(run):
        expect_printed(unlabel("status", run, "--json").json, printed)
    assert request in unlabel("recover", run, "--json").json["recovered"]
    assert unlabel("status", run, "--json").json["together"] is True
    expect_figures(unlabel("evaluate", run, "--json").json, PRINTED["trained"]["evaluate"])


def test_queued_requests_are_carried_out_in_their_slots(place: Place) -> None:
    run = place("queued")
    place_of = unlabel("forget", run, "--label", "plain", "--queue", "--json").json["place"]
    assert place_of == 3
    done = unlabel("slots", run, "--every", 0, "--count", 2, "--pace", 0, "--purge", "--json").json[
        "slots"
    ]
    assert [(slot["labels"], slot["kept"]) for slot in done] == [
        (["gold"], True),
        (["silver"], True),
    ]
    assert json.loads((run / "active" / "secrets" / "queue.json").read_text()) == [["plain"]]
    assert unlabel("status", run, "--json").json["forgotten_labels"] == ["gold", "silver"]


def test_people_are_forgotten_after_those_of_0_6(place: Place) -> None:
    run = place("digits")
    person = unlabel("predict", run, "--part", "train", "--json").json["predictions"][-1]["id"]
    people = run.parent / "people.csv"
    people.write_text(f"id\n{person}\n")
    lines = len((run / "passive-1" / "transcript.jsonl").read_text().splitlines())
    # Nobody is to know that the hidden request there was dropped.
    words = ("--ids", people, "--record", "--commit", "--allow-disclosure")
    assert unlabel("forget", run, *words).code == 0
    assert len((run / "passive-1" / "transcript.jsonl").read_text().splitlines()) > lines
    assert unlabel("purge", run).code == 0
    assert unlabel("status", run, "--json").json["forgotten_people"] == 2
    assert events(run, "passive-1")[-2:] == ["commit", "purge"]
    assert unlabel("certificate", run, "--json").json["not_signed"] == {}
    assert unlabel("verify", run / "certificate.json", "--run", run, "--json").json["holds"]


# --- trainings ---------------------------------------------------------------------------------


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for party in ("active", "shop"):
        (file,) = (run / party / "versions").glob("*.safetensors")
        found |= {f"{party}/{name}": tensor for name, tensor in load_file(file).items()}
    return found


def differing(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in a if not torch.equal(a[name], b[name])]


def test_a_training_that_was_killed_ends_as_the_undisturbed_one(place: Place) -> None:
    run = place("halfway")
    calm = run.parent / "calm"
    # Twice: the run as it is, and one whose settings are those of its config.yaml.
    assert unlabel("train", run / "config.yaml", "--out", calm).code == 0
    assert unlabel("train", "--resume", "--out", run).code == 0
    stored = load_file(MADE / "undisturbed.safetensors")
    resumed, whole = final_weights(run), final_weights(calm)
    for name, tensor in stored.items():
        assert torch.allclose(resumed[name], tensor, rtol=1e-3, atol=1e-3), name
        assert torch.allclose(whole[name], tensor, rtol=1e-3, atol=1e-3), name
    # Another processor rounds otherwise, and the killed training began on the one of `stored`.
    if not differing(stored, whole):
        assert differing(resumed, whole) == []
    second = unlabel("train", "--resume", "--out", run, "--json").json  # nothing is left to do
    assert (second["epochs"], second["version"]) == (6, 6)
    assert differing(final_weights(run), resumed) == []
    found = unlabel("evaluate", run, "--json").json["per_label_accuracy"]
    assert found == pytest.approx(PRINTED["halfway"]["evaluate"]["per_label_accuracy"], abs=0.13)


def test_a_run_may_be_replaced_by_a_new_one(place: Place) -> None:
    run = place("finished")
    words = (run.parent / "tables" / "run.yaml", "--out", run)
    with nothing_written(run):
        assert "--overwrite" in unlabel("train", *words).sentence
        # It has forgotten a label, which a new run would learn again.
        assert "--discard-forgotten" in unlabel("train", *words, "--overwrite").sentence
    assert unlabel("train", *words, "--overwrite", "--discard-forgotten").code == 0
    lines = unlabel("ledger", run, "--json").json["entries"]
    assert [line["event"] for line in lines] == ["overwrite"]
    assert unlabel("status", run, "--json").json["forgotten_labels"] == []
    assert not (run / "certificate.json").exists()


# --- kits --------------------------------------------------------------------------------------


def is_in_time(problem: str | None) -> bool:
    """Return whether a kit can be used; where it cannot, today is the reason."""
    if problem is None:
        return True
    assert re.search(r"ended on|is valid from", problem), problem
    return False


@pytest.mark.parametrize("party", ["active", "shop"])
def test_a_kit_says_what_it_said(party: str, place: Place) -> None:
    kit = place("kits") / party
    with nothing_written(kit):
        found = unlabel("federation", "show", kit, "--json").json
    is_in_time(found.pop("problem"))
    printed = PRINTED["kits"][party]
    for key in ("federation", "party", "parties", "server", "agreement", "model"):
        assert found[key] == printed[key], key
    # Who leads the engine's jobs has no certificate where the engine carries nothing.
    held = {name: dates for name, dates in printed["certificates"].items() if "@" not in name}
    expect_printed(found["certificates"], held)
    assert found["rules"] == {}  # no engine carries, and none of its files is read
    if party == "shop":
        served = translate_policy(printed["policy"])["serves"]
        assert set(served) <= set(found["policy"]["serves"])


@pytest.mark.parametrize("party", ["active", "shop"])
def test_nothing_of_the_engines_files_in_an_old_kit_is_read(party: str, place: Place) -> None:
    """But certificates and keys: what the engine may do follows from what is installed."""
    kit = Kit.read(place("kits") / party)
    shown = unlabel("federation", "show", kit.folder, "--json").json
    for path in (*kit.folder.glob("engine/local/*"), *kit.folder.glob("*/startup/*.json")):
        path.write_text('{"components": [{"path": "subprocess.Popen"}]}')
    assert unlabel("federation", "show", kit.folder, "--json").json == shown


def test_classes_that_a_job_may_name_are_there() -> None:
    for names in ALLOWED.values():
        for name in names:
            assert importlib.util.find_spec(name.split(".")[0]) is None or is_defined(name)


def is_defined(name: str) -> bool:
    """Return whether a class is where its name says, without importing what needs the engine."""
    module, _, last = name.rpartition(".")
    spec = importlib.util.find_spec(module)
    assert spec is not None, name
    assert spec.origin is not None, name
    tree = ast.parse(Path(spec.origin).read_text())
    return last in {each.name for each in tree.body if isinstance(each, ast.ClassDef)}


def test_a_kit_that_never_started_says_what_to_do(place: Place) -> None:
    kits = place("kits")
    shutil.rmtree(kits / "active" / "state")
    with nothing_written(kits / "shop"):
        told = unlabel("status", "--federation", kits / "shop").sentence
        assert "commands are given at the active party" in told
    told = unlabel("status", "--federation", kits / "active").sentence
    if "ended on" not in told and "is valid from" not in told:
        assert "unlabel party start" in told


def test_a_kit_that_does_not_run_says_what_to_do(place: Place) -> None:
    kits = place("kits")
    told = unlabel("status", "--federation", kits / "active").sentence
    if "ended on" not in told and "is valid from" not in told:
        assert "unlabel party start" in told


def test_a_kit_is_certified_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlabel.remote.certificates.KEY_BITS", 2048)  # quicker
    kits = place("kits")
    shop, asked, made = kits / "shop", kits.parent / "shop.csr", kits.parent / "shop.pem"
    problem = unlabel("federation", "show", shop, "--json").json["problem"]
    assert unlabel("federation", "request", shop, "--out", asked).code == 0
    words = (kits / "authority", "--party", "shop", "--request", asked, "--out", made)
    if not is_in_time(problem):  # the authority ends with the kits
        assert unlabel("federation", "renew", *words).code == 1
        return
    assert unlabel("federation", "renew", *words, "--days", 30).code == 0
    assert unlabel("federation", "install", shop, made).code == 0
    found = unlabel("federation", "show", shop, "--json").json
    assert found["problem"] is None
    until = PRINTED["kits"]["shop"]["certificates"]["shop"]["until"]
    assert found["certificates"]["shop"]["until"] != until
