"""`unlabel slots`: hidden requests at fixed times; partners cannot tell which were real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from forget.one_piece import federation
from forget.partner_view import expect_same_view, view, watch

from unlabel.errors import PartyRefused, RunError, SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Queue
from unlabel.forget.slots import run_slot, serve_slot
from unlabel.wire import Message, Refused, Transport

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small run that the tests here go on with, one after another."""
    folder = tmp_path_factory.mktemp("slots") / "run"
    words = ("--data", "digits", "--model", "convnet", "--epochs", 3)
    assert unlabel("train", *words, "--out", folder).code == 0
    return folder


def test_what_waits_is_carried_out_in_turn_and_empty_slots_look_like_it(run: Path) -> None:
    before = unlabel("evaluate", run, "--json").json
    for place, labels in enumerate((["3"], ["12"], ["3"], ["5", "6"]), 1):
        if labels == ["12"]:
            with nothing_written(run):
                assert (
                    "Unknown label '12'"
                    in unlabel("forget", run, "--label", "12", "--queue").sentence
                )
            Queue(run / "active").append(labels)  # a queue that somebody else wrote
            continue
        flags = [word for label in labels for word in ("--label", label)]
        found = unlabel("forget", run, *flags, "--queue", "--json").json
        assert (found["queued"], found["place"]) == (labels, place)
    assert unlabel("evaluate", run, "--json").json == before
    queue = run / "active" / "secrets" / "queue.json"
    assert queue.stat().st_mode & 0o777 == 0o600

    told = unlabel(
        "slots", run, "--every", "0.01", "--count", 5, "--pace", "0.005", "--purge", "--json"
    )
    done = told.json["slots"]
    assert [slot["labels"] for slot in done] == [["3"], ["12"], ["3"], ["5", "6"], []]
    assert [slot["kept"] for slot in done] == [True, False, False, True, False]
    assert "Unknown label '12'" in done[1]["why"]
    assert "already forgotten" in done[2]["why"]
    assert "12 not forgotten, and off the queue" in told.err
    assert all(slot["late"] > 0 for slot in done)  # a new top takes longer than 5 ms
    assert "choose a longer --pace than 0.005" in told.err
    assert json.loads(queue.read_text()) == []
    fed = Federation.open(run)
    assert fed.forgotten.labels == (3, 5, 6)
    assert fed.evaluate().accuracy_on([3, 5, 6]) is None  # purged: nobody knows their rows
    assert not {"3", "5", "6"} & set(fed.predict().labels)
    books = fed.ledger()
    assert [e.event for e in books["passive-1"]] == ["commit", "purge"] * 5
    own = [e.event for e in books["active"] if e.event != "purge"]
    assert own == ["commit", "rollback", "rollback", "commit", "rollback"]
    assert len(fed.active.versions.common()) == 1


def test_slots_take_the_time_they_say(run: Path) -> None:
    unlabel("slots", run, "--every", "0", "--count", 1, "--pace", 0, "--purge")
    started = time.monotonic()
    assert unlabel("slots", run, "--every", "1.5", "--count", 2, "--pace", 0, "--purge").code == 0
    assert time.monotonic() - started >= 1.5


@pytest.mark.parametrize(("every", "count"), [(1, 0), (-1, 2)])
def test_no_slots_are_refused(run: Path, every: int, count: int) -> None:
    with nothing_written(run):
        told = unlabel("slots", run, "--every", every, "--count", count)
    assert "at least 1 slot, 0 seconds or more apart" in told.sentence


@pytest.mark.long
def test_an_interruption_ends_the_slots_between_two_of_them(run: Path) -> None:
    """SIGINT in a process of its own, while the second slot is waited for."""
    words = [
        "slots",
        str(run),
        "--every",
        "600",
        "--count",
        "3",
        "--pace",
        "0.01",
        "--purge",
        "--json",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "unlabel", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    killer = threading.Timer(100, process.kill)
    killer.start()
    heard = ""
    while "Slot 1 of 3" not in heard:
        line = process.stderr.readline()
        assert line, heard
        heard += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    killer.cancel()
    assert process.returncode == 0, err
    found = json.loads(out)
    assert (len(found["slots"]), found["stopped"]) == (1, True)
    assert "Stopped after 1 of 3 slots." in err
    assert Federation.open(run).recover() == "nothing to recover"


def test_partners_cannot_tell_slots_apart(tmp_path: Path) -> None:
    views, kept = {}, {}
    for labels in (["ash"], ["cedar", "elm"], ["willow"], ["ash", "birch", "cedar", "elm"], []):
        name = "-".join(labels) or "nothing"
        fed = federation(parties=2, active_part=True, folder=tmp_path / name, epochs=30, lr=0.1)
        fed.train()
        watched = watch(fed)
        slot = run_slot(fed, labels, ForgetSettings())
        kept[name] = slot.kept
        assert bool(slot.why) == (bool(labels) and not slot.kept)
        views[name] = view(fed, watched)
    assert [kept[name] for name in ("willow", "ash-birch-cedar-elm", "nothing")] == [False] * 3
    assert kept["ash"] or kept["cedar-elm"]
    for name in views:
        expect_same_view(views["nothing"], views[name], name)


def test_every_message_of_a_slot_is_paced_and_none_waits_for_the_queue(tmp_path: Path) -> None:
    fed = federation(parties=2, folder=tmp_path, epochs=30, lr=0.1)
    fed.train()
    came: list[tuple[float, list[tuple[str, ...]]]] = []
    queue, plain = Queue(tmp_path / "active"), fed.active.transport

    class Noting(Transport):
        def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
            came.append((time.monotonic(), queue.waiting()))
            return plain.exchange(requests)

    fed.active.transport = noting = Noting(plain.parties)
    fed.queue(["ash"])
    (slot,) = fed.slots(every=0, count=1, pace=0.04, purge=True)
    ended = time.monotonic()
    assert slot.kept
    assert fed.active.transport is noting  # and no longer paced
    assert len(came) == 24
    assert all(waiting == [("ash",)] for _, waiting in came)
    # On however slow a machine: none is due sooner than half a pace after the one before, nor is
    # the next slot.
    times = [at for at, _ in came]
    assert min(later - at for at, later in pairwise([*times, ended])) >= 0.02
    assert queue.waiting() == []
    with pytest.raises(SettingsError, match="`pace` to be 0 seconds or more but got -1"):
        fed.slots(every=0, count=1, pace=-1)


@pytest.mark.parametrize("kind", ["Status", "Commit"])
def test_a_partner_that_refuses_sees_the_same_of_a_slot_about_something_and_about_nothing(
    kind: str, tmp_path: Path
) -> None:
    views = []
    for labels in (["birch"], []):
        fed = federation(parties=2, folder=tmp_path / f"run{len(labels)}", epochs=2)
        fed.train()
        plain, seen = fed.active.transport, list[str]()

        class Refusing(Transport):
            def exchange(
                self,
                requests: Mapping[str, Message],
                plain: Transport = plain,
                seen: list[str] = seen,
            ) -> dict[str, Message]:
                seen.append(type(requests["passive-1"]).__name__)
                answers = plain.exchange(requests)
                if "Stage" in seen and seen[-1] == kind:
                    answers = {**answers, "passive-1": Refused(0, "not now", "policy")}
                return answers

        fed.active.transport = Refusing(plain.parties)
        queue = Queue(fed.folder / "active")
        if labels:
            queue.append(labels)
        with pytest.raises(PartyRefused, match="not now"):
            serve_slot(fed, purge_after=False, settings=ForgetSettings(allow_collapse=True), pace=0)
        assert queue.waiting() == [tuple(labels)] * bool(labels)  # to be tried again
        views.append(seen)
    assert views[0] == views[1]


def test_what_a_silent_request_is_dropped_by_lies_ready_when_it_is_staged(tmp_path: Path) -> None:
    fed = federation(parties=2, folder=tmp_path, epochs=2)
    fed.train()
    active = tmp_path / "active"
    settings = ForgetSettings(allow_collapse=True)

    def files(folder: str) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in (active / folder).glob("*")}

    for keep in (True, False, None):
        outcome = fed.forget(["ash" if keep else "elm"], settings=settings)
        staged, unchanged = files("staged"), files("unchanged")
        assert staged.keys() == unchanged.keys()
        assert len(staged) == 2
        # As long, so that the one is read as fast as the other.
        (kept, dropped) = (next((active / f).glob("*.json")) for f in ("staged", "unchanged"))
        assert abs(kept.stat().st_size - dropped.stat().st_size) < 200
        if keep is None:  # as version 0.7 staged it
            shutil.rmtree(active / "unchanged")
        outcome.commit(force=True) if keep else outcome.rollback()
        if keep is not None:  # moved, not written
            assert (staged if keep else unchanged).items() <= files("versions").items()
        assert not files("staged")
        assert not files("unchanged")
        assert fed.forgotten.labels == (0,)
    assert fed.recover() == "nothing to recover"


def test_a_queue_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    assert queue.first() == ()
    queue.take_off(())
    assert not queue.path.exists()
    assert queue.append(["a", "b"]) == 1
    assert queue.append(["c"]) == 2
    assert queue.first() == ("a", "b")
    queue.take_off(())  # about nothing
    assert queue.waiting() == [("a", "b"), ("c",)]
    first = queue.first()
    for _ in range(2):  # as by two processes that began with the same one
        queue.take_off(first)
        assert queue.waiting() == [("c",)]
    for text in ("[", "{}", '["c"]', "[[1]]", "[[]]"):
        queue.path.write_text(text)
        with pytest.raises(RunError):
            queue.append(["d"])
        assert queue.path.read_text() == text


def test_a_run_goes_on_training_after_a_hidden_request_only_with_reveal(run: Path) -> None:
    flags = ("--every", "0", "--count", 1, "--pace", "0", "--purge")
    assert unlabel("slots", run, *flags).code == 0  # about nothing, and hidden all the same
    with nothing_written(run):
        told = unlabel("train", "--resume", "--out", run)
    assert "add --allow-disclosure if they may know" in told.sentence
    assert unlabel("train", "--resume", "--out", run, "--allow-disclosure").code == 0
