"""`unlabel audit`: depths and exit status, what it asks the parties, and what a commit makes of it.

Measures that train networks are left out here, where nothing is said about them; tests/audit has
their tests, and `test_every_measure_is_taken_by_the_command` takes them all.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import contents, nothing_written, one_thread, unlabel
from safetensors import safe_open
from torch import Tensor
from unlabel_bench.privacy.partner_view import Heard, heard_of

from unlabel import Federation
from unlabel.audit import MEASURES, Verdict, compare
from unlabel.audit import service as auditing
from unlabel.audit.case import find_case
from unlabel.audit.exact import Subject
from unlabel.audit.references import TOPS
from unlabel.errors import ForgetError
from unlabel.forget import ForgetSettings
from unlabel.forget.plan import plan
from unlabel.forget.service import carry_out
from unlabel.forget.slots import run_slot
from unlabel.signing import is_hex
from unlabel.train import Training
from unlabel.wire import LocalTransport, Message

__all__ = ["one_thread"]  # a fixture for every test here

#: Decides the draws of a request, so that every figure here is the same every time.
KEY = "2a" * 32
SLOW = ("probe-mlp", "relearning", "resurfacing")
AUDIT = Path("active/audit.json")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a digits run that has learned enough to have something to forget."""
    run = tmp_path_factory.mktemp("runs") / "d"
    Federation.local("digits", parties=2, model="convnet", folder=run, epochs=8).train()
    return run


@pytest.fixture
def run(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that run, to do with what a test likes."""
    shutil.copytree(kept, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "d"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the measures that train networks."""
    some = {name: MEASURES.get(name)() for name in MEASURES.names() if name not in SLOW}
    monkeypatch.setattr("unlabel.audit.service.compare", partial(compare, measures=some))


def stage(run: Path, *labels: int, method: str = "hidden") -> Federation:
    """Have labels forgotten and staged; return the federation that did it."""
    federation = Federation.open(run)
    federation.forget(list(labels or (3,)), settings=ForgetSettings(method=method, key=KEY))
    return federation


def config_add(run: Path, text: str) -> None:
    """Add lines to a run's configuration."""
    path = run / "run.yaml"
    path.write_text(path.read_text() + text)


def weights(federation: Federation) -> dict[str, Tensor]:
    """Return copies of the weights of all parties, as they are in memory."""
    found = {f"active/{n}": t for n, t in federation.active.versions.model_state().items()}
    for party, passive in federation.passives.items():
        found |= {f"{party}/{n}": t for n, t in passive.bottom.model_state().items()}
    return {name: tensor.clone() for name, tensor in found.items()}


def same(some: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return some.keys() == others.keys() and all(torch.equal(some[n], others[n]) for n in some)


# --- depths and exit status ------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_the_exit_status_says_whether_the_demanded_level_holds(run: Path) -> None:
    stage(run)
    done = unlabel("audit", run)
    assert done.code == 0
    assert done.out.startswith("Depth reached: top ('top' is demanded and holds): our tests")
    assert "not judged" in done.out  # nothing was retrained to compare with
    assert "Guarantee: measured" in done.out
    assert "Not known: How far this is from a model that never saw the label" in done.err
    assert f"Next: unlabel commit {run}" in done.err.replace("\n", "")
    deeper = unlabel("audit", run, "--demand", "bottoms")
    assert (deeper.code, "'bottoms' is demanded and does not hold" in deeper.out) == (3, True)
    assert unlabel("audit", run, "--demand", "none").code == 0
    config_add(run, "audit: {demand: bottoms}\n")
    assert unlabel("audit", run).code == 3
    assert unlabel("audit", run, "--demand", "answers").code == 0


@pytest.mark.usefixtures("quick")
def test_hiding_the_output_gets_as_far_as_the_output(run: Path) -> None:
    stage(run, method="mask")
    done = unlabel("audit", run, "--json")
    found = json.loads(done.out)
    assert (done.code, found["depth"], found["passed"]) == (3, "answers", False)
    failed = {f["measure"] for f in found["findings"] if f["ruling"] == "fail"}
    assert failed == {"trace-output", "echo", "weights"}


def test_every_measure_is_taken_by_the_command(run: Path) -> None:
    stage(run)
    found = unlabel("audit", run, "--json").json
    assert set(found["measures"]) == set(MEASURES.names())
    for name, measure in found["measures"].items():
        tops = {"refitted"} if MEASURES.get(name).of_tops else set()
        assert set(measure["values"]) == {"original", "mask", "forgotten", *tops}
        if MEASURES.get(name).slow:  # it would rule beside retrained models alone
            assert "no retrained model" in measure["values"]["forgotten"]["note"]
    assert (found["facts"]["retrained"], found["facts"]["refitted"]) == (0, TOPS)
    assert found["run"] == str(run)
    assert found["messages"].keys() == {"passive-1", "passive-2"}
    kept = run / AUDIT
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text()) == {k: v for k, v in found.items() if k != "run"}
    assert unlabel("report", run).code == 0
    # A party whose rows did not move has nothing to go by.
    assert [each["value"] for each in found["privacy"]["attacks"]] == [0.5] * 4
    assert not [said for said in found["unknown"] if "gradients" in said]


@pytest.mark.usefixtures("quick")
def test_retrained_models_are_kept_and_used_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(run)
    # One retrained model is too few to judge by; what is tested here is that it is kept.
    words = ("audit", run, "--demand", "none", "--json")
    first = unlabel(*words, "--retrained", "1").json
    assert first["facts"]["retrained"] == 1
    assert not [said for said in first["unknown"] if "retrained" in said]
    (file,) = (run / "active" / "retrained").rglob("*.safetensors")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with safe_open(file, "pt") as kept:
        noted = kept.metadata()
    assert first["facts"]["references"] == [noted["content"]]
    assert noted["seed"] == "1"  # the run's own is 0
    aim = first["measures"]["forgotten-accuracy"]["values"]["retrained"]["value"]
    assert aim == 0.0  # it never met the label

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a second training")

    monkeypatch.setattr(Training, "run", refuse)
    for flags in (("--retrained", "1"), ()):
        second = unlabel(*words, *flags).json
        assert second["measures"] == first["measures"]
    with pytest.raises(AssertionError, match="second training"):
        unlabel("audit", run, "--retrained", "2")
    # The same model once more is no second one.
    (file.parent / "1.safetensors").write_bytes(file.read_bytes())
    assert "1.safetensors' is not what an audit kept" in unlabel("audit", run).sentence
    (file.parent / "1.safetensors").unlink()
    file.write_bytes(file.read_bytes()[:1000])
    assert "is not what an audit kept of a model retrained" in unlabel("audit", run).sentence


@pytest.mark.usefixtures("quick")
def test_several_labels_and_labels_that_were_forgotten_earlier(run: Path) -> None:
    stage(run, 3)
    assert unlabel("commit", run).code == 0
    federation = stage(run, 5, 7)
    verdict = federation.audit()
    assert verdict.labels == ("5", "7")
    truth = federation.evaluate()  # of what is staged
    figures = {name: found.value("forgotten") for name, found in verdict.measures.items()}
    stay = [n for n in range(10) if n not in (3, 5, 7)]
    assert figures["retained-accuracy"] == pytest.approx(truth.accuracy_on(stay))
    assert figures["forgotten-accuracy"] == pytest.approx(truth.accuracy_on([5, 7]))
    # What was forgotten earlier is not among the labels that accuracy is lost on.
    before = verdict.measures["retained-accuracy"].value("original")
    assert before is not None
    assert before > 0.93


@pytest.mark.usefixtures("quick")
def test_a_committed_request_is_audited_until_its_labels_are_purged(run: Path) -> None:
    stage(run)
    staged = unlabel("audit", run, "--json").json
    assert unlabel("commit", run).code == 0
    committed = unlabel("audit", run, "--json").json
    assert (staged["state"], committed["state"]) == ("staged", "committed")
    assert staged["measures"] == committed["measures"]
    assert unlabel("purge", run).code == 0
    with nothing_written(run):
        sentence = unlabel("audit", run).sentence
    assert "would find less than that of" in sentence
    assert "(depth 'top'), which stays" in sentence
    assert unlabel("report", run).code == 0  # of the audit before
    (run / AUDIT).unlink()
    with nothing_written(run):
        assert "nothing can be measured of it any more" in unlabel("audit", run).sentence


# --- what the parties see, and where they stand afterwards -----------------------------------


@contextmanager
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Heard]]]:
    """Keep every message that any party gets, from the opening of the run on."""
    found: list[tuple[str, Heard]] = []
    plain = LocalTransport.exchange

    def exchange(self: LocalTransport, requests: dict[str, Message]) -> dict[str, Message]:
        found.extend((party, heard_of(message)) for party, message in requests.items())
        return plain(self, requests)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTransport, "exchange", exchange)
        yield found


def alike(some: list[tuple[str, Heard]], others: list[tuple[str, Heard]]) -> bool:
    """Return whether two lists of messages are the same to the last number.

    But for the hash of a line that a party's own ledger has: the party wrote it, and knows it.
    """

    def of(each: tuple[str, Heard]) -> tuple[object, ...]:
        party, heard = each
        plain = dict(heard.plain)
        if heard.kind == "Describe":
            plain["ledger"] = bool(plain["ledger"])
        return party, heard.kind, heard.step, heard.bytes, plain

    return [of(each) for each in some] == [of(each) for each in others] and all(
        same(dict(a.tensors), dict(b.tensors)) for (_, a), (_, b) in zip(some, others, strict=True)
    )


@pytest.mark.usefixtures("quick")
def test_the_audit_asks_the_same_whatever_was_forgotten(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(other: Path) -> None:
        run_slot(Federation.open(other), (), ForgetSettings())

    def stage_nothing(other: Path) -> None:
        federation = Federation.open(other)
        carry_out(federation, plan(federation, dummy=True))  # a slot that died before its decision

    def commit(other: Path) -> None:
        unlabel("commit", other, "--force")

    def drop(other: Path) -> None:
        unlabel("rollback", other)

    def purged(decide: Callable[[Path], None]) -> Callable[[Path], None]:
        def both(other: Path) -> None:
            decide(other)
            unlabel("purge", other)

        return both

    def audited(decide: Callable[[Path], None]) -> Callable[[Path], None]:
        def both(other: Path) -> None:
            unlabel("audit", other)
            decide(other)

        return both

    kinds: dict[str, list[tuple[list[int], Callable[[Path], None] | None]]] = {
        "staged": [([3], None), ([8], None), ([1, 5], None), ([], stage_nothing)],
        "committed": [([3], commit), ([8], commit), ([8], drop), ([], nothing)],
        "purged": [
            *[([3], purged(commit)), ([8], purged(drop)), ([], purged(nothing))],
            ([3], audited(purged(commit))),
        ],
    }
    for kind, requests in kinds.items():
        first: list[tuple[str, Heard]] = []
        for number, (labels, decide) in enumerate(requests):
            other = shutil.copytree(run, tmp_path / "other")
            if labels:
                stage(other, *labels)
            if decide is not None:
                decide(other)
            lines = {
                party: {entry.hash for entry in entries}
                for party, entries in Federation.ledger_of(other).items()
            }
            with overheard(monkeypatch) as found:
                unlabel("audit", other)
            for party, heard in found:
                if heard.kind == "Describe" and heard.plain["ledger"]:
                    assert heard.plain["ledger"] in lines[party]
            if number == 0:
                first = found
                rows = [heard.tensors["rows"] for _, heard in found if heard.kind == "Embed"]
                every = torch.arange(1797).split(1024)
                models = 1 if kind == "purged" else 2
                assert len(rows) == 2 * models * len(every)  # two parties
                pairs = zip(rows[::2], every * models, strict=True)
                assert all(torch.equal(asked, piece) for asked, piece in pairs)
            assert alike(found, first), (labels, decide)
            shutil.rmtree(other)


@pytest.mark.usefixtures("quick")
def test_every_party_is_back_where_it_was(run: Path) -> None:
    original = weights(Federation.open(run))
    federation = stage(run)
    staged = weights(federation)
    assert not same(original, staged)
    files = contents(run)
    federation.audit()
    assert same(weights(federation), staged)  # this object predicts by what it has made
    after = contents(run)
    assert after.pop(str(AUDIT))
    assert after.pop("active/ledger.jsonl")  # the line of the audit; no other party has one
    assert after == files
    assert unlabel("audit", run).code == 0
    assert same(weights(Federation.open(run)), original)
    federation.undecided.commit()  # type: ignore[union-attr]
    assert same(weights(federation), staged)
    federation.audit()
    assert same(weights(federation), staged)
    assert same(weights(Federation.open(run)), staged)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["hidden", "renormalise"])
def test_a_request_can_be_dropped_after_its_audit(run: Path, method: str) -> None:
    original = weights(Federation.open(run))
    outcome = stage(run, method=method).undecided
    assert outcome is not None
    unlabel("audit", run)
    unlabel("rollback", run)
    assert same(weights(Federation.open(run)), original)
    federation = stage(run, 4, method=method)
    federation.audit()
    assert federation.undecided is not None
    federation.undecided.rollback()
    assert same(weights(federation), original)
    assert same(weights(Federation.open(run)), original)


def unmoved(verdict: Verdict) -> list[str]:
    """Return what an audit says of parties whose models are the same as before."""
    findings = [f for f in verdict.findings if f.measure == "weights"]
    assert {(f.depth, f.ruling) for f in findings} <= {("bottoms", "fail")}
    return [f.sentence for f in findings]


@pytest.mark.usefixtures("quick")
def test_a_party_whose_model_is_the_same_has_forgotten_nothing(run: Path) -> None:
    federation = stage(run)
    verdict = federation.audit()
    # Files of training hold the optimiser too, so that embeddings decide here.
    assert verdict.facts.unchanged == ("passive-1", "passive-2")
    sentence = "The model of party 'passive-{}' is the same as before the request."
    assert unmoved(verdict) == [sentence.format(number) for number in (1, 2)]
    federation.commit()
    federation = stage(run, 5)
    case = find_case(federation)
    held = federation.holdings
    subject = Subject(held.labels, held.names, held.rows, (5,))
    models = auditing._models(federation, case, subject)
    moved = {p: values + 1 for p, values in models["original"].test.embeddings.items()}
    other = replace(models["original"].test, embeddings=moved)
    models["original"] = replace(models["original"], test=other)
    # Here the files are equal, and decide where embeddings are not, as under noise.
    assert auditing._unchanged(federation, case, models) == ("passive-1", "passive-2")
    assert auditing._unchanged(federation, replace(case, before=None), models) == ()


@pytest.mark.usefixtures("quick")
def test_a_method_that_moves_the_bottoms_shows_which_rows(run: Path) -> None:
    verdict = stage(run, method="deep").audit()
    assert (verdict.facts.unchanged, unmoved(verdict)) == ((), [])
    assert verdict.visibility == "open"
    attacks = verdict.privacy.attacks
    assert attacks is not None
    assert [each.name.split(":")[0] for each in attacks] == [
        *["passive-1"] * 2,
        *["passive-2"] * 2,
    ]
    ends = [(each.low or 0.0, each.value or 0.0, each.high or 0.0) for each in attacks]
    assert max(low for low, _, _ in ends) > 0.7
    assert all(low <= value <= high for low, value, high in ends)
    assert any("gradients" in said for said in verdict.unknown)


# --- the gate of a commit --------------------------------------------------------------------


def last_commit(run: Path) -> dict[str, Any]:
    """Return what the active party's ledger notes of the last commit."""
    entries = Federation.open(run).ledger()["active"]
    return [entry.note for entry in entries if entry.event == "commit"][-1]


@pytest.mark.usefixtures("quick")
def test_a_commit_below_the_demanded_level_takes_force_which_is_recorded(run: Path) -> None:
    config_add(run, "audit: {demand: bottoms}\n")
    stage(run)
    assert unlabel("audit", run).code == 3
    with nothing_written(run):
        sentence = unlabel("commit", run).sentence
    assert sentence.startswith("The audit found depth 'top' and 'bottoms' is demanded;")
    # A modest wish on the command line does not lower what the run demands.
    assert unlabel("audit", run, "--demand", "answers").code == 0
    assert "'bottoms' is demanded" in unlabel("commit", run).sentence
    assert unlabel("commit", run, "--force").code == 0
    noted = last_commit(run)["audit"]
    line = [e.note for e in Federation.open(run).ledger()["active"] if e.event == "audit"][-1]
    assert noted.pop("figures") == line["figures"]
    assert noted == {"depth": "top", "demanded": "bottoms", "forced": True}
    passive = Federation.open(run).ledger()["passive-1"]
    assert not any("audit" in entry.note for entry in passive)
    assert unlabel("keys", "auditor", "--out", "keys").code == 0
    assert unlabel("certificate", run, "--auditor-key", "keys/auditor.pub").code == 0
    words = (run / "certificate.json", "--run", run, "--annex-key", "keys/auditor.key", "--json")
    found = unlabel("verify", *words).json
    assert (found["annex"]["forced"], found["annex"]["depth"]) == (True, "top")
    assert found["annex"]["audit"]["passed"] is True  # of the last audit, by its own demand


@pytest.mark.usefixtures("quick")
def test_a_deeper_wish_on_the_command_line_counts_too(run: Path) -> None:
    stage(run)
    assert unlabel("audit", run, "--demand", "bottoms").code == 3
    assert "'bottoms' is demanded" in unlabel("commit", run).sentence
    assert unlabel("audit", run).code == 0
    assert unlabel("commit", run).code == 0
    noted = last_commit(run)["audit"]
    assert is_hex(noted.pop("figures"), 64)
    assert noted == {"depth": "top", "demanded": "top", "forced": False}


@pytest.mark.usefixtures("quick")
def test_an_audit_of_an_older_request_does_not_count(run: Path) -> None:
    stage(run)
    assert unlabel("audit", run, "--demand", "bottoms").code == 3
    assert unlabel("rollback", run).code == 0
    stage(run, 4)
    assert unlabel("commit", run).code == 0
    assert last_commit(run)["audit"] == {"depth": None, "forced": False}


@pytest.mark.usefixtures("quick")
def test_a_damaged_audit_is_named_at_commit(run: Path) -> None:
    stage(run)
    unlabel("audit", run)
    text = (run / AUDIT).read_text()
    for damaged in (
        text[: len(text) // 2],
        "[]",
        "\x00",
        text.replace('"depth": "top",\n "demanded"', '"depth": "total",\n "demanded"'),
        text.replace('"demanded"', '"demandet"'),
    ):
        assert damaged != text
        (run / AUDIT).write_text(damaged)
        with nothing_written(run):
            sentence = unlabel("commit", run).sentence
        assert "active/audit.json' is not what `unlabel audit` writes" in sentence
    assert unlabel("audit", run).code == 0
    assert unlabel("commit", run).code == 0


# --- bad input -------------------------------------------------------------------------------


def test_there_must_be_something_to_audit(run: Path) -> None:
    with nothing_written(run):
        nothing = "There is nothing to audit. No request is staged; run `unlabel forget` first."
        assert unlabel("audit", run).sentence == nothing
        assert unlabel("audit", run, "--demand", "").sentence
        assert unlabel("audit", run, "--demand", "tpo").sentence.endswith(
            "Did you mean 'top'? Known: answers, bottoms, none, top."
        )
        assert unlabel("audit", run, "--retrained", "-1").code == 2
    stage(run, method="renormalise").undecided.rollback()  # type: ignore[union-attr]
    with nothing_written(run):
        assert unlabel("audit", run).sentence == nothing
    stage(run).undecided.rollback()  # type: ignore[union-attr]
    with nothing_written(run):
        assert unlabel("audit", run).sentence.startswith("The last request was rolled back,")
    assert "'nowhere' is not a run folder" in unlabel("audit", "nowhere").sentence


def test_a_federation_in_no_folder_is_audited_like_any_other() -> None:
    federation = Federation.local("digits", parties=2, model="mlp", epochs=1)
    with pytest.raises(ForgetError):
        federation.audit()
    federation.train()
    outcome = federation.forget([3])
    assert federation.audit().request == outcome.result.request
    assert federation.report().path.parent == federation.folder


def test_people_are_not_judged_without_models_to_compare_with(run: Path) -> None:
    federation = Federation.open(run)
    ids = [str(federation.holdings.ids[row]) for row in federation.holdings.rows.train[:5].tolist()]
    federation.forget(ids=ids)
    with nothing_written(run):
        assert "beside models that are trained again without" in unlabel("audit", run).sentence
    assert unlabel("commit", run, "--force").code == 0


def test_data_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = rng.normal(size=(120, 6)).astype(np.float32)
    x[np.arange(120), y] += 4
    np.savez("own.npz", x=x, y=y)
    run = tmp_path / "own"
    Federation.local("own.npz", parties=2, model="mlp", folder=run, epochs=4).train()
    stage(run, 1)
    Path("own.npz").rename("away.npz")
    assert "own.npz" in unlabel("audit", run).sentence
    np.savez("own.npz", x=x + 1, y=y)
    assert "have changed since" in unlabel("audit", run).sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("audit: {spreads: much}", "`audit.spreads` got 'much' but accepts a number."),
        ("audit: {spreads: 0}", "Expected `spreads` to be above 0, to 100 but got 0"),
        ("audit: {retained: 2}", "Expected `retained` to be a share from 0 to 1 but got 2"),
        ("audit: {forgotten: .nan}", "Expected `forgotten` to be a share from 0 to 1"),
        ("audit: {spraeds: 3}", "Did you mean 'spreads'?"),
        ("audit: {residual: 0.1}", "`audit.residual` was dropped after version 0.9"),
        ("audit: {demand: total}", "audit.demand"),
        ("audit: top", "audit"),
    ],
)
def test_thresholds_that_cannot_be_read_are_named(run: Path, text: str, message: str) -> None:
    config_add(run, text + "\n")
    with nothing_written(run):
        assert message in unlabel("audit", run).sentence
