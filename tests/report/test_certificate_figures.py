"""A certificate says of an audit what follows from its figures, and whoever says more is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from report.certified import PASSIVE, Forger, copy, keep_audit, make_run, verdict

import unlabel as ul
from unlabel import Federation
from unlabel.audit import MEASURES, Finding, Verdict, compare
from unlabel.audit import service as auditing
from unlabel.audit.binding import bind, digest_of, disclosed, noted_audit
from unlabel.audit.gate import depth_of, judge
from unlabel.audit.verdict import read_verdict
from unlabel.config import AuditSettings
from unlabel.errors import RunError
from unlabel.files import sha256
from unlabel.forget import ForgetSettings
from unlabel.party import Ledger
from unlabel.report.annex import make_auditor_keys, read_annex_key, unseal
from unlabel.report.blinding import blinded

__all__ = ["one_thread"]  # a fixture for every test here

AUDIT = Path("active/audit.json")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auditor")
    make_auditor_keys(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Leave out the measures that train networks."""
    slow = ("probe-mlp", "relearning", "resurfacing")
    some = {name: MEASURES.get(name)() for name in MEASURES.names() if name not in slow}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlabel.audit.service.compare", partial(compare, measures=some))
        yield


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with a hidden request, audited beside one retrained model, not decided on."""
    run = make_run(tmp_path_factory.mktemp("zoo"))
    federation = Federation.open(run)
    federation.forget(["cat"], settings=ForgetSettings(key="2a" * 32))
    federation.audit(retrained=1, demand="none")
    return run


@pytest.fixture(scope="module")
def certified(staged: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = copy(staged, tmp_path_factory.mktemp("certified") / "run")
    federation = Federation.open(run)
    federation.commit(force=True)
    federation.certificate(auditor_key=keys / "auditor.pub")
    return run


@pytest.fixture
def run(certified: Path, tmp_path: Path) -> Path:
    return copy(certified, tmp_path / "run")


def check(run: Path, keys: Path | None = None, **options: Any) -> ul.Checks:
    key = None if keys is None else keys / "auditor.key"
    return ul.verify(run / "certificate.json", run=run, annex_key=key, **options)


def change(run: Path, **fields: Any) -> Verdict:
    """Write another verdict into audit.json, as somebody with an editor does."""
    changed = replace(read_verdict(run / AUDIT), **fields)
    (run / AUDIT).write_text(json.dumps(changed.to_json()))
    return changed


def deepest(verdict: Verdict) -> dict[str, Any]:
    """Return what a liar changes: the depth, and every finding that is in the way."""
    findings = tuple(replace(f, ruling="pass") for f in verdict.findings)
    return {"depth": "bottoms", "findings": findings}


# --- the ledger binds the figures ---------------------------------------------------------------


def test_the_ledger_holds_the_hash_of_what_the_annex_discloses(run: Path, keys: Path) -> None:
    body = json.loads((run / "certificate.json").read_text())["certificate"]
    entries = Ledger(run / "active").entries()
    assert [entry.event for entry in entries] == ["audit", "commit"]
    annex = unseal((run / "certificate.annex").read_bytes(), read_annex_key(keys / "auditor.key"))
    digest = digest_of(annex["audit"])
    assert entries[0].note["figures"] == entries[1].note["audit"]["figures"] == digest
    # The request is hidden, so that partners get neither the hash nor a line.
    assert body["figures"] == blinded(digest, annex["key"])
    for party in PASSIVE:
        files = [path for path in (run / party).rglob("*") if path.is_file()]
        assert not any(digest.encode() in path.read_bytes() for path in files)
        assert [entry.event for entry in Ledger(run / party).entries()] == ["commit"]
    assert digest not in (run / "certificate.json").read_text()
    assert len(bytes.fromhex(entries[0].note["blind"])) == 32


EDITS: list[dict[str, Any]] = [
    {"depth": "bottoms"},
    {"findings": ()},
    {"unknown": ()},
    {"thresholds": AuditSettings(spreads=9.0)},
    {"pictures": {}},
    {"labels": ("ape",)},
]


def test_a_verdict_that_was_edited_is_neither_committed_nor_certified_nor_shown(
    staged: Path, certified: Path, tmp_path: Path
) -> None:
    for source, verb in ((staged, "commit"), (certified, "certificate")):
        run = copy(source, tmp_path / verb)
        text = (run / AUDIT).read_bytes()
        for fields in EDITS:
            (run / AUDIT).write_bytes(text)
            change(run, **fields)
            with nothing_written(run):
                for sentence in (unlabel(verb, run).sentence, unlabel("report", run).sentence):
                    assert "active/audit.json' was changed since the audit" in sentence, fields
                    assert sentence.endswith("run `unlabel audit` again.")
    run = tmp_path / "commit"
    assert unlabel("audit", run, "--demand", "none").code == 0
    assert unlabel("report", run).code == unlabel("commit", run, "--force").code == 0


def test_an_audit_that_is_gone_is_missed_at_the_commit(staged: Path, tmp_path: Path) -> None:
    run = copy(staged, tmp_path / "run")
    (run / AUDIT).unlink()
    with nothing_written(run):
        sentence = unlabel("commit", run).sentence
    assert "was audited, but" in sentence
    assert sentence.endswith("does not hold that audit any more; run `unlabel audit` again.")


def test_an_audit_that_was_killed_before_its_line_is_made_again(
    staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(staged, tmp_path / "run")
    Ledger(run / "active").path.unlink()  # as if this were the first audit

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    federation = Federation.open(run)
    with monkeypatch.context() as patch:
        patch.setattr(auditing, "bind", killed)
        with pytest.raises(KeyboardInterrupt):
            federation.audit(demand="none")
    with pytest.raises(RunError, match="was changed since the audit"):
        Federation.open(run).commit()
    Federation.open(run).audit(demand="none")
    assert Federation.open(run).commit(force=True)


def test_the_newest_of_several_audits_counts(run: Path, keys: Path) -> None:
    first = (run / AUDIT).read_bytes()
    verdict = Federation.open(run).audit(demand="answers")
    entries = Ledger(run / "active").entries()
    assert [entry.event for entry in entries] == ["audit", "commit", "audit"]
    noted = noted_audit(entries, verdict.request)
    assert noted is not None
    assert noted["figures"] == digest_of(disclosed(verdict)) != entries[0].note["figures"]
    # The certificate was signed before, by the line that was the newest then.
    assert check(run, keys).faults == []
    (run / AUDIT).write_bytes(first)
    assert "was changed since the audit" in unlabel("certificate", run).sentence


# --- verify judges by the figures ---------------------------------------------------------------


def forge(run: Path, keys: Path, fields: Callable[[Verdict], dict[str, Any]]) -> None:
    """Lie in audit.json, note the lie in the ledger, and have it certified."""
    change(run, **fields(read_verdict(run / AUDIT)))
    bind(Ledger(run / "active", mode=0o600), run / AUDIT)
    Federation.open(run).certificate(auditor_key=keys / "auditor.pub")


def test_a_lie_that_all_files_agree_on_does_not_follow_from_the_figures(
    run: Path, keys: Path
) -> None:
    assert check(run, keys).faults == []
    forge(run, keys, lambda _: {"depth": "bottoms"})
    told = unlabel(
        *("verify", run / "certificate.json", "--run", run),
        *("--annex-key", keys / "auditor.key"),
    )
    assert told.code == 3
    assert "Fault: The certificate states depth 'bottoms'" in told.err
    assert "follows from the figures." in told.err
    lines = told.err.splitlines()
    assert lines[0].startswith("Visibility: hidden (")
    assert lines[1].startswith("Depth: bottoms (")
    assert lines[2].startswith("Guarantee: measured (")
    assert lines[3].startswith("Fault: ")


def test_findings_that_do_not_follow_are_named_one_by_one(run: Path, keys: Path) -> None:
    true = read_verdict(run / AUDIT)
    forge(run, keys, deepest)
    faults = check(run, keys).faults
    for finding in true.findings:
        if finding.ruling != "pass":
            start = f"A finding of the audit does not follow from the figures: {finding.measure}, "
            assert any(f.startswith(start) and finding.sentence in f for f in faults), finding
    invented = Finding("top", "echo", "pass", "It knows nothing.")
    forge(run, keys, lambda _: {"findings": (*true.findings, invented), "depth": true.depth})
    (fault,) = check(run, keys).faults
    assert fault.endswith("does not follow from the figures: echo, top, pass: It knows nothing.")
    forge(run, keys, lambda _: {"findings": true.findings[1:]})
    (fault,) = check(run, keys).faults
    assert fault.startswith("A finding of the audit follows, but is not stated: ")
    assert fault.endswith(true.findings[0].sentence)


@pytest.mark.parametrize("depth", ["none", "answers", "top", "bottoms"])
def test_what_follows_from_figures_that_are_not_finite_is_found_again(
    run: Path, keys: Path, depth: str
) -> None:
    """Of a request that is hidden, since only then is every hash under a key."""
    request = read_verdict(run / AUDIT).request
    keep_audit(run, replace(verdict(request, depth), labels=("cat",), visibility="hidden"))
    Federation.open(run).certificate(auditor_key=keys / "auditor.pub")
    checks = check(run, keys)
    assert checks.faults == []
    follows = "The depth, every finding and the words follow from the figures in the annex."
    assert follows in checks.held
    assert [value for _, value, _ in checks.terms] == ["hidden", depth, "measured"]
    spoken = unlabel("verify", run / "certificate.json").err
    assert ("Depth: none (not forgotten: " in spoken) == (depth == "none")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"visibility": "open"}, "of another request, label or visibility"),
        ({"labels": ("ape",)}, "of another request, label or visibility"),
        ({"demanded": "bottoms", "depth": "bottoms"}, "follows from the figures"),
    ],
)
def test_an_audit_of_something_else_is_named(
    run: Path, keys: Path, fields: dict[str, Any], words: str
) -> None:
    forge(run, keys, lambda _: fields)
    faults = check(run, keys).faults
    assert any(words in fault for fault in faults), faults


def test_thresholds_that_are_not_the_usual_ones_are_said(run: Path, keys: Path) -> None:
    Federation.open(run).audit(demand=AuditSettings(demand="none", spreads=9.0))
    Federation.open(run).certificate(auditor_key=keys / "auditor.pub")
    checks = check(run, keys)
    assert checks.faults == []
    (sentence,) = [each for each in checks.unchecked if "thresholds" in each]
    assert "not the usual ones (spreads 9)" in sentence


def test_without_the_annex_the_depth_is_the_label_holder_s_word(run: Path) -> None:
    checks = check(run)
    assert checks.faults == []
    assert any(
        each.startswith("The depth is signed by the label holder") for each in checks.unchecked
    )
    forger = Forger(run, run)
    forger.body["words"] = "Forgotten everywhere."
    forger.sign()
    assert "The words of the certificate are not those of the depth it states." in check(run).faults


def test_an_audit_of_an_earlier_version_is_bound_to_nothing_and_not_certified(
    run: Path, keys: Path
) -> None:
    raw = json.loads((run / AUDIT).read_text())
    old = {**raw, "format": 1, "level": raw["depth"], "mode": "hidden"}
    (run / AUDIT).write_text(json.dumps({**old, "level": "deep"}))
    assert "was changed since the audit" in unlabel("certificate", run).sentence
    (run / AUDIT).write_text(json.dumps(old))
    (line,) = [each for each in Ledger(run / "active").entries() if each.event == "commit"]
    del line.note["audit"]["figures"]
    line = replace(line, index=0, previous="")
    line = replace(line, hash=line.expected_hash())
    (run / "active" / "ledger.jsonl").write_text(f"{line.line()}\n")
    (run / "certificate.json").unlink(missing_ok=True)
    issued = Federation.open(run).certificate(auditor_key=keys / "auditor.pub")
    assert (issued.body["depth"], issued.body["figures"]) == (None, None)
    assert check(run, keys).faults == []


# --- the same audit once more -------------------------------------------------------------------


def test_an_audit_run_again_gives_the_same_figures_and_leaves_the_run_alone(
    run: Path, keys: Path
) -> None:
    (reference,) = (run / "active" / "retrained").rglob("*.safetensors")
    reference.write_bytes(b"a model of the label holder's choice")
    with nothing_written(run):
        for options in ({"keys": keys}, {}):
            checks = check(run, rerun=run, **options)
            assert checks.faults == []
            sentence = "Run again with 1 retrained model, the audit gives the same figures, within "
            assert f"{sentence}0.01." in checks.held


def known_nowhere(verdict: Verdict) -> dict[str, Any]:
    """Return other figures, and all that follows from them: a lie that only models contradict."""
    measures = {
        name: replace(
            each,
            values={m: replace(v, value=0.5) if m == "forgotten" else v for m, v in values.items()},
        )
        for name, each in verdict.measures.items()
        if (values := each.values)
    }
    measures["forgotten-accuracy"] = verdict.measures["forgotten-accuracy"]
    findings = judge(measures, verdict.thresholds, verdict.facts.unchanged)
    return {"measures": measures, "findings": tuple(findings), "depth": depth_of(findings)}


def test_figures_that_the_models_do_not_give_are_named_by_an_audit_run_again(
    run: Path, keys: Path
) -> None:
    forge(run, keys, known_nowhere)
    assert check(run, keys).faults == []  # all that is signed agrees
    words = ("verify", run / "certificate.json", "--rerun", run, "--json")
    told = unlabel(*words, "--annex-key", keys / "auditor.key")
    faults = json.loads(told.out)["faults"]
    assert told.code == 3
    assert "Run again, the audit gives another value: membership forgotten value." in faults
    assert not any(" original " in fault for fault in faults)


def test_what_can_no_longer_be_run_again_is_said(run: Path, keys: Path) -> None:
    Federation.open(run).purge()
    checks = check(run, keys, rerun=run)
    assert checks.faults == []
    assert any("can no longer be run again" in each for each in checks.unchecked)
    outcome = Federation.open(run).forget(["ape"])
    outcome.commit()
    checks = check(run, keys, rerun=run)
    assert any("has gone on to another request since" in each for each in checks.unchecked)
    (run / AUDIT).unlink()
    checks = check(run, rerun=run)
    assert any("The audit was not run again" in each for each in checks.unchecked)


def test_only_the_audit_of_the_certificate_is_run_again(run: Path) -> None:
    keep_audit(run, verdict(read_verdict(run / AUDIT).request))
    (fault,) = check(run, rerun=run).faults
    assert fault == "The audit to be run again is not the one of the certificate."


# --- the demand, and the version in use ---------------------------------------------------------


def test_a_demand_is_bound_with_the_day_it_came_in(run: Path, keys: Path, tmp_path: Path) -> None:
    letter, other = tmp_path / "letter.txt", tmp_path / "other.txt"
    letter.write_text("Forget my label.")
    other.write_text("Keep my label.")
    with nothing_written(run):
        words = ("certificate", run, "--demand")
        assert "--demand needs --received" in unlabel(*words, letter).sentence
        missing = unlabel(*words, tmp_path / "none", "--received", "2026-01-02").sentence
        assert "Cannot read the demand" in missing
        assert "holds no hash of one" in str(check(run, demand=letter).faults)
    federation = Federation.open(run)
    options: dict[str, Any] = {"demand": letter, "received": "2026-01-02"}
    issued = federation.certificate(auditor_key=keys / "auditor.pub", **options)
    annex = unseal((run / "certificate.annex").read_bytes(), read_annex_key(keys / "auditor.key"))
    assert annex["demand"] == sha256(letter.read_bytes())
    assert issued.body["demand"] == blinded(annex["demand"], annex["key"])
    for found in (check(run, keys, demand=letter), check(run, demand=letter)):
        assert found.faults == []
        assert "The demand is the one that the certificate dates 2026-01-02." in found.held
    assert check(run, keys, demand=other).faults == [
        "The demand is not the one whose hash the certificate holds."
    ]
    assert "No demand was given, so its hash was not checked." in check(run).unchecked
    # Whoever has no key of the request can try nothing out.
    found = ul.verify(run / "certificate.json", demand=other)
    assert any("The demand was not checked" in sentence for sentence in found.unchecked)
    forger = Forger(run, keys)
    forger.body["demand"] = blinded(sha256(other.read_bytes()), annex["key"])
    forger.sign()
    assert check(run, keys, demand=other).faults == [
        "The demand in the annex is not the one whose hash the certificate holds."
    ]


def test_a_model_that_the_certificate_is_not_about_is_noted(run: Path) -> None:
    federation = Federation.open(run)
    assert federation.certificate_note == ""
    assert "Note:" not in unlabel("evaluate", run).err
    about = json.loads((run / "certificate.json").read_text())["certificate"]["version"]
    assert about == federation.version
    federation.forget(["ape"])
    assert federation.certificate_note == ""  # nothing is decided yet
    federation.commit(force=True)
    assert f"is about version {about}, and version {about + 1} is in use" in (
        federation.certificate_note
    )
    for verb in ("evaluate", "predict"):
        assert f"Note: {federation.certificate_note}" in unlabel(verb, run).err.replace("\n", " ")
    for text in ("", "[]", '{"certificate": {"version": "4"}}'):
        (run / "certificate.json").write_text(text)
        assert federation.certificate_note == ""
