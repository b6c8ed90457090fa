"""All parties forget or none does, whenever a process dies; and what is purged is gone."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from cli.command_line import nothing_written, one_thread, unlabel
from coded import coded
from forget import crashing
from safetensors.torch import load_file
from torch import Tensor

from unlabel import Federation
from unlabel.config import ModelSettings, RunConfig, TrainSettings
from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget import ForgetSettings, Transaction
from unlabel.forget.request import commit_to
from unlabel.train.label_record import LabelRecord
from unlabel.wire import Commit, Message, Purge, Recorder, Rollback, Transport, encode, kind_of

__all__ = ["one_thread"]  # a fixture for every test here

LABELS = ("aardvark", "beaver", "cormorant", "dormouse", "zebrafish")
LABEL = "zebrafish"
EARLIER = "beaver"
PARTIES = ("active", "passive-1", "passive-2")
PASSIVE = PARTIES[1:]
TESTS = Path(__file__).parents[1]

#: Files that a purge leaves as they are: neither weights nor rows stand in them.
KEPT = {"run.yaml", "metrics.jsonl", "active/labels.safetensors"}
#: A passive party's scaling is a statistic of its own features, and no weight. The running
#: statistics of BatchNorm are frozen while `renormalise` forgets, by design: they stand in
#: the new version as they did in the old one. Every parameter must have moved.
NO_WEIGHTS = ("scaling/", "running_mean", "running_var", "num_batches_tracked")

Weights = dict[str, Tensor]


# A small zoo: five kinds of animal that even two epochs tell apart.


def write_zoo(path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = np.arange(400) % len(LABELS)
    x = rng.integers(0, 60, (len(y), 10, 10), dtype=np.uint8)
    for label in range(len(LABELS)):
        x[y == label, 2 * label : 2 * label + 2] += 150
    np.savez(path, x=x, y=y, classes=np.array(LABELS))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that has forgotten nothing, with all that a training can leave behind."""
    folder = tmp_path_factory.mktemp("zoo")
    config = RunConfig(
        data=str(write_zoo(folder / "zoo.npz")),
        parties=2,
        active_part=True,
        model=ModelSettings(bottom="small_models:norm_bottom"),
        train=TrainSettings(epochs=3, batch=16),
        code=TESTS,
    )
    federation = Federation.create(config, folder / "run", record=True)
    federation.train()
    assert federation.evaluate().accuracy > 0.9
    curves = folder / "run" / "tensorboard" / "deeper"
    curves.mkdir(parents=True)
    for place in (curves, curves.parent):
        (place / "events.out.tfevents.1").write_text("a curve from before")
    assert all((folder / "run" / party / "transcript.jsonl").exists() for party in PASSIVE)
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


# What stands on the disks and in the parties' memories.


def only_models(tensors: Mapping[str, Tensor]) -> Weights:
    return {name: tensor for name, tensor in tensors.items() if "optimiser/" not in name}


def on_disk(run: Path, version: int, subfolder: str = "versions") -> Weights:
    found: Weights = {}
    for party in PARTIES:
        tensors = load_file(run / party / subfolder / f"{version:06d}.safetensors")
        found |= {f"{party}/{name}": tensor for name, tensor in only_models(tensors).items()}
    return found


def in_memory(federation: Federation) -> Weights:
    states = {"active": federation.active.versions.model_state()}
    states |= {name: party.bottom.model_state() for name, party in federation.passives.items()}
    return {f"{who}/{name}": tensor for who, s in states.items() for name, tensor in s.items()}


def equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def numbers(run: Path, subfolder: str) -> tuple[int, ...]:
    """Return the versions on a shelf that all parties share, and that no party has more of."""
    paths = [sorted((run / party / subfolder).glob("*.json")) for party in PARTIES]
    found = {tuple(int(path.stem) for path in own) for own in paths}
    assert len(found) == 1
    return found.pop()


def is_weight(name: str, tensor: Tensor) -> bool:
    flat = tensor.flatten()
    return not any(word in name for word in NO_WEIGHTS) and bool((flat != flat[0]).any())


def weights_in(run: Path) -> list[tuple[str, Tensor]]:
    """Return every weight, and every tensor of an optimiser, in any file of a run."""
    return [
        (f"{path.relative_to(run)}: {name}", tensor)
        for path in sorted(run.rglob("*.safetensors*"))
        if path.name != "labels.safetensors"  # digests of rows and labels
        for name, tensor in load_file(path).items()
        if is_weight(name, tensor)
    ]


def found_again(run: Path, old: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Return which tensors in a run are one of the old ones, whatever they are called now."""
    return [
        where
        for where, tensor in weights_in(run)
        if any(tensor.shape == o.shape and torch.equal(tensor, o) for _, o in old)
    ]


def expect_purged(run: Path, version: int, old: Sequence[tuple[str, Tensor]]) -> None:
    """Check that a run holds one version, and nothing that stems from before it."""
    allowed = set(KEPT)
    for party in PARTIES:
        allowed |= {f"{party}/versions/{version:06d}.{kind}" for kind in ("json", "safetensors")}
        allowed.add(f"{party}/ledger.jsonl")
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    secrets = {name for name in files if name.startswith("active/secrets/")}
    assert files - secrets == allowed
    assert not (run / "tensorboard").exists()
    committed = {e["request"] for e in ledger(run, "active") if e["event"] == "commit"}
    assert {Path(name).name for name in secrets} == {f"{request}.json" for request in committed}
    assert found_again(run, old) == []
    for path in run.rglob("*.safetensors"):
        assert not [name for name in load_file(path) if "optimiser/" in name]


def ledger(run: Path, party: str) -> list[dict[str, str]]:
    """Return a party's ledger, read without its own code."""
    path = run / party / "ledger.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    previous = ""
    for line in lines:
        digest = line.pop("hash")
        assert line["previous"] == previous
        assert hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest() == digest
        previous = digest
    return lines


def decisions(run: Path, request: str) -> dict[str, list[str]]:
    """Return what each party's ledger says became of a request."""
    return {p: [e["event"] for e in ledger(run, p) if e["request"] == request] for p in PARTIES}


# A process that dies at every moment of every verb.


@dataclass(frozen=True)
class Truth:
    """What a run may be after a crash and what it must be in the end.

    version  the newest one before the request
    old      the weights of that version
    new      the weights that forgetting makes, always the same ones
    earlier  all tensors from before the request, in any file
    """

    version: int
    old: Weights
    new: Weights
    earlier: list[tuple[str, Tensor]]


@dataclass(frozen=True)
class Crashes:
    """A run after the death of a process at each moment of a verb.

    truth    what the run may be now
    moments  when each process died
    folders  the run after each death, where it differs from the one before
    """

    truth: Truth
    moments: list[tuple[str, int]]
    folders: list[Path]

    def after(self, moment: str) -> Path:
        """Return the run after a death at a moment, the first of that name."""
        return self.folders[dict(reversed(self.moments))[moment]]


class Case(NamedTuple):
    """A request in a run that never forgot, or in one that did and did not purge; and a verb."""

    request: str
    verb: str


FIRST, SECOND = "first request", "second request"
CASES = [
    *(Case(FIRST, verb) for verb in ("forget", "commit", "rollback", "purge")),
    *(Case(SECOND, verb) for verb in ("forget", "commit", "rollback")),
]
#: Where recovery begins: one passive party has done what it was told, the other was not told.
HALF_WAY = {
    Case(FIRST, "forget"): "after Stage at passive-1",
    Case(SECOND, "commit"): "after Commit at passive-1",
    Case(SECOND, "rollback"): "after Rollback at passive-1",
}


def crash(
    jobs: Mapping[Case, tuple[Path, str]], truths: Mapping[str, Truth], out: Path
) -> dict[Case, Crashes]:
    """Kill a process at every moment of each job, a verb on a run."""
    outs = {case: out / case.request / case.verb for case in jobs}
    words = [str(w) for case, (run, verb) in jobs.items() for w in (run, verb, outs[case])]
    command = [sys.executable, crashing.__file__, LABEL, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    for case, folder in outs.items():
        moments = json.loads((folder / "moments.json").read_text())
        folders = [folder / f"{n:03d}" for n in range(moments[-1][1] + 1)]
        found[case] = Crashes(truths[case.request], moments, folders)
    return found


def make_ready(run: Path, verb: str) -> Path:
    """Bring a run to where a verb makes sense."""
    if verb != "forget":
        outcome = Federation.open(run).forget(
            [LABEL], settings=ForgetSettings(method=crashing.METHOD, key=crashing.KEY)
        )
        if verb == "purge":
            outcome.commit(force=True)
    return run


Both = tuple[dict[Case, Crashes], dict[Case, Crashes]]


@pytest.fixture(scope="module")
def crashes(
    trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Both]]:
    """Return how to get all cases of a request after every death, and after one of a recovery."""
    folder = tmp_path_factory.mktemp("crashes")
    yield functools.cache(lambda request: every_death(trained, folder / request, request))
    shutil.rmtree(folder)


def every_death(trained: Path, folder: Path, request: str) -> Both:
    """Let a process die at every moment of a request's verbs, then of recoveries from there."""
    base = Path(shutil.copytree(trained, folder / "base"))
    if request == SECOND:
        Federation.open(base).forget(
            [EARLIER], settings=ForgetSettings(method=crashing.METHOD, key=crashing.KEY)
        ).commit(force=True)
    ready = {
        case: (make_ready(Path(shutil.copytree(base, folder / case.verb)), case.verb), case.verb)
        for case in CASES
        if case.request == request
    }
    version = numbers(base, "versions")[-1]
    new = on_disk(ready[Case(request, "commit")][0], version + 1, "staged")
    truths = {request: Truth(version, on_disk(base, version), new, weights_in(base))}
    once = crash(ready, truths, folder / "once")
    apart = {case: (once[case].after(m), "recover") for case, m in HALF_WAY.items() if case in once}
    return once, crash(apart, truths, folder / "twice")


def cases(some: Iterable[Case]) -> list[Any]:
    """Return cases as parameters; the second request takes as long again as the first."""
    late = {SECOND: [pytest.mark.long]}
    return [pytest.param(c, id="-".join(c), marks=late.get(c.request, [])) for c in some]


@pytest.mark.parametrize("case", cases(CASES))
def test_a_death_at_any_moment_leaves_all_parties_on_the_old_weights_or_all_on_the_new(
    case: Case, crashes: Callable[[str], Both]
) -> None:
    outcomes = {
        "forget": {"old", "staged"},
        "commit": {"staged", "new"},
        "rollback": {"staged", "old"},
        "purge": {"new"},
    }
    assert expect_all_whole(crashes(case.request)[0][case], case.verb) == outcomes[case.verb]


@pytest.mark.parametrize("case", cases(HALF_WAY))
def test_a_recovery_that_dies_at_any_moment_is_finished_by_the_next(
    case: Case, crashes: Callable[[str], Both]
) -> None:
    outcome = "new" if case.verb == "commit" else "old"
    assert expect_all_whole(crashes(case.request)[1][case], case.verb) == {outcome}


def expect_all_whole(crashes: Crashes, verb: str) -> set[str]:
    """Check a run after each death; return what recovery led to."""
    assert len(crashes.moments) > 10
    assert len(crashes.folders) >= 5
    reached = set()
    for state, folder in enumerate(crashes.folders):
        try:
            reached.add(expect_whole(folder, verb, crashes.truth))
        except (AssertionError, UnlabelError) as error:
            when = next(moment for moment, number in crashes.moments if number == state)
            raise AssertionError(f"{verb}, {when} ({folder.name}): {error}") from error
    return reached


def expect_whole(run: Path, verb: str, truth: Truth) -> str:
    """Check a run after a crash, recover it, do the verb again, commit and purge."""
    expect_honest(run)
    federation = Federation.open(run, recovering=True)
    said = federation.recover()
    reached, request = expect_one_state(run, federation, truth)
    assert federation.recover().startswith("request" if reached == "staged" else "nothing")
    federation = Federation.open(run)
    assert expect_one_state(run, federation, truth) == (reached, request)
    record = LabelRecord.read(run / "active")
    assert record is not None
    asked = (federation.holdings.labels == LABELS.index(LABEL)).numpy()
    # A tombstone stands on every row of the label where it is forgotten, else on none.
    assert set(record.tombstones[asked].tolist()) <= {int(reached == "new")}
    assert asked.any() or record.is_purged()
    if reached == "staged":
        assert request in said
        assert not any(decisions(run, request).values()), "decided, and yet it waits"

    repeat(verb, federation, reached)
    if federation.status().parties["active"].staged:
        assert federation.commit(force=True) in federation_requests(run)
    elif not equal(in_memory(federation), truth.new):
        federation.forget(
            [LABEL], settings=ForgetSettings(method=crashing.METHOD, key=crashing.KEY)
        ).commit(force=True)
    assert equal(in_memory(federation), truth.new)
    assert federation.purge() == truth.version + 1
    expect_purged(run, truth.version + 1, truth.earlier)
    record = LabelRecord.read(run / "active")
    assert record is not None
    assert record.is_purged()
    assert record.tombstones.any()
    assert equal(on_disk(run, truth.version + 1), truth.new)
    for request in federation_requests(run):
        found = decisions(run, request)
        assert all(not {"commit", "rollback"} <= set(events) for events in found.values()), found
        assert len({"commit" in events for events in found.values()}) == 1, found
    last = {ledger(run, party)[-1]["request"] for party in PARTIES}
    assert len(last) == 1
    assert set(map(tuple, decisions(run, last.pop()).values())) == {("commit", "purge")}
    return reached


def expect_honest(run: Path) -> None:
    """Check that a run which needs recovery says so before anybody changes it."""
    try:
        federation = Federation.open(run)
    except ForgetError as error:
        assert "`recover()`" in str(error)  # noqa: PT017
        return
    standing = federation.status().parties
    committed = {
        p: [e["request"] for e in ledger(run, p) if e["event"] == "commit"] for p in PARTIES
    }
    assert len({tuple(requests) for requests in committed.values()}) == 1
    if len({(s.version, s.staged) for s in standing.values()}) > 1:
        with nothing_written(run):
            with pytest.raises(ForgetError, check=coded("interrupted")):
                federation.forget([LABEL])
            with pytest.raises(ForgetError, check=coded("interrupted")):
                federation.purge()


def expect_one_state(run: Path, federation: Federation, truth: Truth) -> tuple[str, str]:
    """Check that all parties stand where one of them stands; return where, and what is staged."""
    standing = federation.status().parties
    assert list(standing) == list(PARTIES)
    assert len({(s.version, s.staged) for s in standing.values()}) == 1, standing
    version, request = standing["active"].version, standing["active"].staged
    assert version in (truth.version, truth.version + 1)
    new = version == truth.version + 1
    expected = truth.new if new else truth.old
    assert equal(in_memory(federation), expected)
    assert equal(on_disk(run, version), expected)
    assert (LABELS.index(LABEL) in federation.forgotten.labels) == new
    assert {name: len(entries) for name, entries in federation.ledger().items()} == {
        party: len(ledger(run, party)) for party in PARTIES
    }
    if request:
        assert not new
        assert equal_staged(run, truth)
    return ("staged" if request else "new" if new else "old"), request


def equal_staged(run: Path, truth: Truth) -> bool:
    """Tell whether every party has the new weights aside.

    A party that died while it made them a version has the tensors there and the manifest here.
    """
    assert numbers(run, "staged") == (truth.version + 1,)
    name = f"{truth.version + 1:06d}.safetensors"
    found: Weights = {}
    for party in PARTIES:
        staged = run / party / "staged" / name
        tensors = load_file(staged if staged.exists() else run / party / "versions" / name)
        found |= {f"{party}/{name}": tensor for name, tensor in tensors.items()}
    return equal(found, truth.new)


def repeat(verb: str, federation: Federation, reached: str) -> None:
    """Do a verb again after it was recovered: it is done, or says why there is nothing to do."""
    if verb == "purge":
        crashing.run_verb(federation, verb, LABEL)
    elif verb == "forget":
        if reached == "staged":
            with pytest.raises(ForgetError, check=coded("request-open")):
                crashing.run_verb(federation, verb, LABEL)
    elif reached == "staged":
        crashing.run_verb(federation, verb, LABEL)
    else:
        with pytest.raises(ForgetError, check=coded("nothing-staged")):
            crashing.run_verb(federation, verb, LABEL)


def federation_requests(run: Path) -> set[str]:
    return {path.stem for path in (run / "active" / "secrets").glob("*.json")} | {
        entry["request"] for party in PARTIES for entry in ledger(run, party)
    }


# Every message may come again.


def send(federation: Federation, message: Message) -> None:
    federation.active.transport.ask(message)


def test_a_decision_that_is_told_again_changes_no_file(run: Path) -> None:
    federation = Federation.open(run)
    version = numbers(run, "versions")[-1] + 1

    dropped = federation.forget([LABEL], settings=ForgetSettings(method=crashing.METHOD))
    dropped.rollback()
    with nothing_written(run):
        send(federation, Rollback(0, dropped.result.request))
        send(federation, Rollback(0, "nobodyknowsit"))

    kept = federation.forget([LABEL], settings=ForgetSettings(method=crashing.METHOD))
    kept.commit(force=True)
    request = kept.result.request
    digests = federation.active.versions.facts(version)["parties"]
    commits = {party: Commit(0, request, version, digests[party]) for party in PASSIVE}
    with nothing_written(run):
        federation.active.transport.tell(commits)
        send(federation, Rollback(0, request))
        send(federation, Rollback(0, dropped.result.request))

    federation.purge()
    with nothing_written(run):
        send(federation, Purge(0, request, version))
        federation.active.transport.tell(commits)
        assert federation.purge() == version
        assert federation.recover() == "nothing to recover"


def test_a_late_repetition_does_not_touch_the_next_request(run: Path) -> None:
    federation = Federation.open(run)
    version = numbers(run, "versions")[-1] + 1
    first = federation.forget([EARLIER], settings=ForgetSettings(method=crashing.METHOD))
    first.commit(force=True)
    federation.purge()
    digests = federation.active.versions.facts(version)["parties"]
    commits = {p: Commit(0, first.result.request, version, digests[p]) for p in PASSIVE}

    def repeat_all() -> None:
        federation.active.transport.tell(commits)
        send(federation, Rollback(0, first.result.request))
        send(federation, Purge(0, first.result.request, version))

    second = federation.forget([LABEL], settings=ForgetSettings(method=crashing.METHOD))
    with nothing_written(run):
        repeat_all()
    second.commit(force=True)
    with nothing_written(run):
        repeat_all()
    assert numbers(run, "versions") == (version, version + 1)


# What is purged is gone.


def test_after_a_purge_no_old_weight_and_no_older_file_is_left(run: Path) -> None:
    old = weights_in(run)
    assert any("optimiser/" in name for name, _ in old)
    version = numbers(run, "versions")[-1] + 1
    for path in run.rglob("*"):
        os.utime(path, (0, 0))
    federation = Federation.open(run, record=True)
    federation.forget([LABEL], settings=ForgetSettings(method="renormalise")).commit()
    assert found_again(run, old), "they are there until the purge"
    federation.purge()
    expect_purged(run, version, old)
    # The files of the new version were written when it was staged, before the commit.
    older = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()
             and path.stat().st_mtime == 0}  # fmt: skip
    assert older == KEPT - {"active/labels.safetensors"}  # which holds less than before
    repeated = Federation.open(run)
    found = repeated.evaluate()
    assert found.per_label_accuracy[LABELS.index(LABEL)] is None  # nobody knows which rows it had
    assert equal(in_memory(repeated), in_memory(federation))


def test_every_parameter_moves_when_a_label_is_forgotten(run: Path) -> None:
    federation = Federation.open(run)
    before = {name: tensor.clone() for name, tensor in in_memory(federation).items()}
    federation.forget([LABEL], settings=ForgetSettings(method="renormalise"))
    after = in_memory(federation)
    same = {name for name in before if torch.equal(before[name], after[name])}
    # A purge removes the old file; what did not move stands in the new one as well.
    assert same == {
        name for name in before if any(w in name for w in (*NO_WEIGHTS, "top/model/muted"))
    }


# A secret request.


class Tap(Transport):
    """Keeps every byte that crosses the boundary of any party."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self.heard = b""
        self.kinds: set[str] = set()

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        answers = self._inner.exchange(requests)
        for message in (*requests.values(), *answers.values()):
            self.heard += encode(message)
            self.kinds.add(kind_of(message))
        return answers


def words_at(run: Path, party: str) -> bytes:
    return b"".join(path.read_bytes() for path in (run / party).rglob("*") if path.is_file())


@pytest.mark.parametrize("secret", [True, False])
def test_no_partner_is_told_the_label_of_a_secret_request(secret: bool, run: Path) -> None:
    federation = Federation.open(run, record=True)
    recorder = Recorder(federation.active.transport, keep_tensors=True)
    tap = Tap(recorder)
    federation.active.transport = tap
    outcome = federation.forget(
        [LABEL], settings=ForgetSettings(method="renormalise", secret=secret)
    )
    staged = b"".join(words_at(run, party) for party in PASSIVE)
    outcome.commit(force=True)
    committed = b"".join(words_at(run, party) for party in PASSIVE)
    federation.status()
    federation.purge()
    purged = b"".join(words_at(run, party) for party in PASSIVE)

    assert {"BeginRequest", "Embed", "Gradients", "Stage", "Commit", "Purge"} <= tap.kinds
    for told in (tap.heard, staged, committed, purged):
        assert (LABEL.encode() in told) == (not secret)
    entries = [entry for t in recorder.transcripts.values() for entry in t.entries]
    assert {entry.kind for entry in entries} == tap.kinds
    # Rows and gradients are all the tensors there are, and no row of labels is among them.
    assert {(e.kind, name) for e in entries for name in e.tensors} == {
        ("Embed", "rows"),
        ("Embeddings", "values"),
        ("Gradients", "values"),
    }
    assert LABEL.encode() in words_at(run, "active")  # the active party must know


def test_a_secret_request_leaves_a_commitment_that_its_key_opens_and_no_guess_does(
    run: Path,
) -> None:
    federation = Federation.open(run)
    outcome = federation.forget(
        [LABEL], settings=ForgetSettings(secret=True, method=crashing.METHOD)
    )
    outcome.commit(force=True)
    request = outcome.result.request
    path = run / "active" / "secrets" / f"{request}.json"
    assert path.stat().st_mode & 0o077 == 0
    opened = json.loads(path.read_text())
    key = opened.pop("key")
    assert opened == {"labels": [LABEL]}
    for party in PASSIVE:
        entry = federation.ledger()[party][-1]
        assert (entry.event, entry.request) == ("commit", request)
        # The digests are of the party's own files.
        assert set(entry.note) == {"commitment", "version", "weights"}
        commitment = entry.note["commitment"]
        assert commit_to(opened, key) == commitment
        assert commit_to({"labels": [EARLIER]}, key) != commitment
        assert key not in words_at(run, party).decode(errors="replace")
        assert commitment not in {
            hashlib.sha256(text.encode()).hexdigest()
            for number, name in enumerate(LABELS)
            for text in (
                *(name, str(number), json.dumps(name), json.dumps([name])),
                *(json.dumps({"labels": [name]}), json.dumps({"labels": [number]})),
                *(request + name, name + request, f"{request}:{name}", f"{name}\n"),
            )
        }


# What is refused, and what the command says.


def test_while_a_request_is_staged_no_other_is_taken_and_nothing_is_trained(run: Path) -> None:
    federation = Federation.open(run)
    request = federation.forget(
        [LABEL], settings=ForgetSettings(method=crashing.METHOD)
    ).result.request
    waiting = f"Request {request} is staged; commit it or roll it back first."
    with nothing_written(run):
        for opened in (federation, Federation.open(run)):
            with pytest.raises(ForgetError, match=waiting):
                opened.forget([EARLIER])
            with pytest.raises(ForgetError, match=waiting):
                opened.train()
            with pytest.raises(ForgetError, match=waiting):
                opened.purge()


def test_what_was_never_staged_is_neither_committed_nor_rolled_back_nor_purged(run: Path) -> None:
    federation = Federation.open(run)
    with nothing_written(run):
        with pytest.raises(ForgetError, check=coded("nothing-staged")):
            federation.commit(force=True)
        with pytest.raises(ForgetError, check=coded("nothing-staged")):
            federation.rollback()
        with pytest.raises(ForgetError, check=coded("nothing-committed")):
            federation.purge()


def test_an_outcome_is_decided_on_once(run: Path) -> None:
    federation = Federation.open(run)
    before = {name: tensor.clone() for name, tensor in in_memory(federation).items()}
    outcome = federation.forget([LABEL], settings=ForgetSettings(method=crashing.METHOD))
    assert not equal(in_memory(federation), before)
    outcome.rollback()
    assert equal(in_memory(federation), before)
    for decide in (outcome.commit, outcome.rollback):
        with pytest.raises(ForgetError, check=coded("request-decided")):
            decide()


def interrupt_commit(run: Path) -> None:
    """Leave a run as a process does that dies once the active party has decided."""
    store = Transaction(Federation.open(run).active).store
    version = store.staged.versions()[-1]
    store.adopt(version, store.staged.digest(version))


def test_a_run_whose_commit_was_interrupted_opens_only_to_be_recovered(run: Path) -> None:
    Federation.open(run).forget([LABEL], settings=ForgetSettings(method=crashing.METHOD))
    interrupt_commit(run)
    with nothing_written(run):
        with pytest.raises(ForgetError, match=r"A commit was interrupted; run `recover\(\)`"):
            Federation.open(run)
        for verb in ("commit", "rollback", "purge", "evaluate"):
            assert "run `unlabel recover`" in unlabel(verb, run).sentence
        assert unlabel("status", run, "--json").json["together"] is False
    assert unlabel("recover", run, "--json").json["recovered"].startswith("committed request")
    assert Federation.open(run).forgotten.labels == (LABELS.index(LABEL),)


def test_the_command_decides_recovers_and_tells_in_json(run: Path) -> None:
    nothing = unlabel("recover", run, "--json").json
    newest = numbers(run, "versions")[-1]
    assert nothing == {"recovered": "nothing to recover", "version": newest, "run": str(run)}
    assert "No request is staged" in unlabel("commit", run, "--json").sentence
    assert "No request is staged" in unlabel("rollback", run, "--json").sentence
    assert "nothing to purge" in unlabel("purge", run, "--json").sentence

    open_mode = ("--label", LABEL, "--visibility", "open")
    dropped = unlabel("forget", run, *open_mode, "--json").json
    assert (dropped["staged"], dropped["committed"]) == (True, False)
    request = dropped["request"]
    status = unlabel("status", run, "--json").json
    assert status["together"] is True
    assert {stands["staged"] for stands in status["parties"].values()} == {request}
    assert request in unlabel("recover", run, "--json").json["recovered"]
    told = unlabel("rollback", run, "--json").json
    assert told == {"request": request, "rolled_back": True, "run": str(run)}

    kept = unlabel("forget", run, *open_mode, "--secret", "--json").json["request"]
    told = unlabel("commit", run, "--json").json
    assert told == {"request": kept, "committed": True, "run": str(run)}
    version = numbers(run, "versions")[-1]
    told = unlabel("purge", run, "--json").json
    assert told == {"version": version, "purged": True, "run": str(run)}

    status = unlabel("status", run, "--json").json
    assert list(status["parties"]) == list(PARTIES)
    assert status["forgotten_labels"] == [LABEL]
    assert {tuple(s["versions"]) for s in status["parties"].values()} == {(version,)}
    for party in PARTIES:
        found = unlabel("ledger", run, "--party", party, "--json").json
        assert found["party"] == party
        events = [(entry["event"], entry["request"]) for entry in found["entries"]]
        assert events == [("rollback", request), ("commit", kept), ("purge", kept)]
        secret = found["entries"][1]["note"]
        assert ("labels" in secret) == (party == "active")


def test_the_command_refuses_a_ledger_in_which_a_word_was_changed(run: Path) -> None:
    Federation.open(run).forget([LABEL], settings=ForgetSettings(method=crashing.METHOD)).commit(
        force=True
    )
    book = run / "passive-2" / "ledger.jsonl"
    book.write_text(book.read_text().replace(LABEL, EARLIER))
    assert "its chain breaks at line 1" in unlabel("ledger", run, "--party", "passive-2").sentence
