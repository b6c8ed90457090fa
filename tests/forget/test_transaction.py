"""All parties forget or none does, whenever a process dies; and what is purged is gone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.command_line import contents, nothing_written, one_thread, unlabel  # noqa: F401
from forget import crashing
from safetensors.torch import load_file
from torch import Tensor

from unlabel import Federation, erasure
from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget import Transaction
from unlabel.forget.request import commit_to
from unlabel.models import ModelSettings
from unlabel.train import RunConfig, TrainSettings
from unlabel.wire import Commit, Message, Purge, Recorder, Rollback, Transport, decode, encode

LABELS = ("aardvark", "beaver", "cormorant", "dormouse", "zebrafish")
LABEL = "zebrafish"
EARLIER = "beaver"
PARTIES = ("active", "passive-1", "passive-2")
PASSIVE = PARTIES[1:]
TESTS = Path(__file__).parents[1]

#: Files that a purge leaves as they are, because no weights and no rows stand in them.
KEPT = {"config.yaml", "metrics.jsonl"}
#: A passive party's scaling is a statistic of its own features, and no weight. The running
#: statistics of BatchNorm are frozen while the default method forgets, by design: they stand in
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


def on_disk(run: Path, version: int, shelf: str = "versions") -> Weights:
    found = {}
    for party in PARTIES:
        tensors = load_file(run / party / shelf / f"{version:06d}.safetensors")
        found |= {f"{party}/{name}": tensor for name, tensor in only_models(tensors).items()}
    return found


def in_memory(federation: Federation) -> Weights:
    states = {"active": federation.active.model_state()}
    states |= {name: party.bottom.model_state() for name, party in federation.passives.items()}
    return {f"{who}/{name}": tensor for who, s in states.items() for name, tensor in s.items()}


def equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def numbers(run: Path, shelf: str) -> tuple[int, ...]:
    """Return the versions on a shelf that all parties share, and that no party has more of."""
    found = {
        tuple(sorted(int(path.stem) for path in (run / party / shelf).glob("*.json")))
        for party in PARTIES
    }
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
    allowed = {"config.yaml", "metrics.jsonl"}
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
class Crashes:
    """A run after the death of a process at each moment of a verb.

    before   the run before the verb
    calm     the run after the verb, undisturbed
    moments  when each process died
    folders  the run after each death
    """

    before: Path
    calm: Path
    moments: list[str]
    folders: list[Path]


def crash(before: Path, verb: str, out: Path) -> Crashes:
    command = [sys.executable, crashing.__file__, before, verb, LABEL, out]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    moments = json.loads((out / "moments.json").read_text())
    return Crashes(before, out / "calm", moments, [out / f"{n:03d}" for n in range(len(moments))])


def make_ready(run: Path, verb: str) -> Path:
    """Bring a run to where a verb makes sense."""
    if verb != "forget":
        federation = Federation.open(run)
        outcome = federation.forget([LABEL], method=crashing.METHOD)
        if verb == "purge":
            outcome.commit()
    return run


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


@pytest.fixture(scope="module", params=["the first request", "a second request"])
def start(
    request: pytest.FixtureRequest, trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Truth]:
    """Return a run in which to crash: one that never forgot, or one that did and did not purge."""
    folder = tmp_path_factory.mktemp("start")
    base = Path(shutil.copytree(trained, folder / "base"))
    if request.param == "a second request":
        Federation.open(base).forget([EARLIER], method=crashing.METHOD).commit()
    version = numbers(base, "versions")[-1]
    staged = Path(shutil.copytree(base, folder / "staged"))
    make_ready(staged, "commit")
    new = on_disk(staged, version + 1, "staged")
    return base, Truth(version, on_disk(base, version), new, weights_in(base))


@pytest.mark.parametrize("verb", ["forget", "commit", "rollback", "purge"])
def test_a_death_at_any_moment_leaves_all_parties_on_the_old_weights_or_all_on_the_new(
    verb: str, start: tuple[Path, Truth], tmp_path: Path
) -> None:
    base, truth = start
    before = make_ready(Path(shutil.copytree(base, tmp_path / "before")), verb)
    crashes = crash(before, verb, tmp_path / "crashes")
    assert len(crashes.moments) > 30
    reached = set()
    for moment, folder in zip(crashes.moments, crashes.folders, strict=True):
        try:
            reached.add(expect_whole(folder, verb, truth))
        except (AssertionError, UnlabelError) as error:
            raise AssertionError(f"{verb}, {moment} ({folder.name}): {error}") from error
        shutil.rmtree(folder)
    outcomes = {
        "forget": {"old", "staged"},
        "commit": {"staged", "new"},
        "rollback": {"staged", "old"},
        "purge": {"new"},
    }
    assert reached == outcomes[verb]


@pytest.mark.parametrize("verb", ["forget", "commit", "rollback"])
def test_a_recovery_that_dies_at_any_moment_is_finished_by_the_next(
    verb: str, start: tuple[Path, Truth], tmp_path: Path
) -> None:
    base, truth = start
    before = make_ready(Path(shutil.copytree(base, tmp_path / "before")), verb)
    crashes = crash(before, verb, tmp_path / "crashes")
    # Half-way: one passive party has done what it was told and the other has not.
    told = {"forget": "Stage", "commit": "Commit", "rollback": "Rollback"}[verb]
    apart = crashes.folders[crashes.moments.index(f"after {told} at passive-1")]
    again = crash(apart, "recover", tmp_path / "again")
    assert len(again.moments) > 10
    for moment, folder in zip(again.moments, again.folders, strict=True):
        try:
            reached = expect_whole(folder, verb, truth)
        except (AssertionError, UnlabelError) as error:
            raise AssertionError(f"recover, {moment} ({folder.name}): {error}") from error
        assert reached == ("new" if verb == "commit" else "old")


def expect_whole(run: Path, verb: str, truth: Truth) -> str:
    """Check a run after a crash, recover it, do the verb again, commit and purge."""
    expect_honest(run)
    federation = Federation.open(run, recovering=True)
    said = erasure.recover(federation)
    reached, request = expect_one_state(run, federation, truth)
    assert erasure.recover(federation).startswith("request" if reached == "staged" else "nothing")
    federation = Federation.open(run)
    assert expect_one_state(run, federation, truth) == (reached, request)
    if reached == "staged":
        assert request in said
        assert not any(decisions(run, request).values()), "decided, and yet it waits"

    repeat(verb, federation, reached)
    if erasure.status(federation)["active"].staged:
        assert erasure.commit(federation) in federation_requests(run)
    elif not equal(in_memory(federation), truth.new):
        federation.forget([LABEL], method=crashing.METHOD).commit()
    assert equal(in_memory(federation), truth.new)
    assert erasure.purge(federation) == truth.version + 1
    expect_purged(run, truth.version + 1, truth.earlier)
    assert equal(on_disk(run, truth.version + 1), truth.new)
    assert equal(in_memory(Federation.open(run)), truth.new)
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
        assert "unlabel recover" in str(error)  # noqa: PT017
        return
    standing = erasure.status(federation)
    committed = {p: [e["request"] for e in ledger(run, p) if e["event"] == "commit"] for p in PARTIES}
    assert len({tuple(requests) for requests in committed.values()}) == 1
    if len({(s.version, s.staged) for s in standing.values()}) > 1:
        with nothing_written(run):
            for change in (lambda: federation.forget([LABEL]), federation.train,
                           lambda: erasure.purge(federation)):  # fmt: skip
                with pytest.raises(ForgetError, match="unlabel recover"):
                    change()


def expect_one_state(run: Path, federation: Federation, truth: Truth) -> tuple[str, str]:
    """Check that all parties stand where one of them stands; return where, and what is staged."""
    standing = erasure.status(federation)
    assert list(standing) == list(PARTIES)
    assert len({(s.version, s.staged) for s in standing.values()}) == 1, standing
    version, request = standing["active"].version, standing["active"].staged
    assert version in (truth.version, truth.version + 1)
    new = version == truth.version + 1
    expected = truth.new if new else truth.old
    assert equal(in_memory(federation), expected)
    assert equal(on_disk(run, numbers(run, "versions")[-1]), expected)
    assert (LABELS.index(LABEL) in federation.forgotten.labels) == new
    assert {name: len(entries) for name, entries in erasure.ledgers(federation).items()} == {
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
    found = {}
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
            with pytest.raises(ForgetError, match="is staged; commit it or roll it back first"):
                crashing.run_verb(federation, verb, LABEL)
    elif reached == "staged":
        crashing.run_verb(federation, verb, LABEL)
    else:
        with pytest.raises(ForgetError, match="No request is staged"):
            crashing.run_verb(federation, verb, LABEL)


def federation_requests(run: Path) -> set[str]:
    return {path.stem for path in (run / "active" / "secrets").glob("*.json")} | {
        entry["request"] for party in PARTIES for entry in ledger(run, party)
    }
