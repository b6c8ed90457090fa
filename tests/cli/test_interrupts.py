"""Ctrl-C ends a command with one true sentence on where things stand, and status 130."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import QUICK, nothing_written, one_thread, unlabel
from forget import crashing

from unlabel import Federation
from unlabel.cli import interrupts
from unlabel.cli.interrupts import (
    PUTTING_BACK,
    UNCHANGED,
    UNKNOWN,
    Interrupted,
    on_interrupt,
    patient_interrupts,
    standing,
    training,
)
from unlabel.errors import ForgetError, PartyRefused, RunError
from unlabel.files import write_atomically
from unlabel.forget import METHODS, Transaction
from unlabel.party import PassiveParty
from unlabel.wire import Rollback, Save

__all__ = ["one_thread"]  # a fixture for every test here

LABEL = "3"


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Have Ctrl-C heard: a shell starts what runs in the background with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# --- the sentence ----------------------------------------------------------------------------


def test_the_innermost_sentence_is_said_and_an_ordinary_error_passes() -> None:
    with pytest.raises(Interrupted, match="inner"), on_interrupt("outer"), on_interrupt("inner"):
        raise KeyboardInterrupt
    with pytest.raises(RunError), on_interrupt("outer"):
        raise RunError("Something else.")


def test_an_error_that_comes_up_while_an_interrupt_is_dealt_with_is_that_interrupt() -> None:
    def work() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ForgetError("Cannot put it back.")

    with pytest.raises(Interrupted, match="said"), on_interrupt("said"):
        work()


def test_a_command_that_says_nothing_itself_leaves_with_status_130_and_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(METHODS, "names", press_ctrl_c)
    found = unlabel("methods")
    assert (found.code, found.out, found.err) == (130, "", f"{UNKNOWN}\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def press_while_putting_back(times: int) -> bool:
    """Interrupt work, and so many times what puts it back; return whether that came to its end."""
    put_back = False

    def work() -> None:
        nonlocal put_back
        try:
            press_ctrl_c()
        finally:
            for _ in range(times):
                press_ctrl_c()
            put_back = True

    with pytest.raises(Interrupted), patient_interrupts(), on_interrupt("said"):
        work()
    return put_back


def test_the_second_ctrl_c_waits_until_all_is_put_back(capfd: pytest.CaptureFixture[str]) -> None:
    assert press_while_putting_back(1)
    assert capfd.readouterr().err == PUTTING_BACK.decode()


def test_the_third_ctrl_c_leaves_at_once() -> None:
    assert not press_while_putting_back(2)


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with patient_interrupts():
            press_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_file_that_was_being_written_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: press_ctrl_c())
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "predictions.csv", b"id,label\n")
    assert list(tmp_path.iterdir()) == []


def test_a_training_goes_on_where_it_has_begun(tmp_path: Path) -> None:
    run, second = tmp_path / "run", "unlabel train --resume --out run"
    fresh = training(run, second)
    assert fresh() == "Interrupted; the training had not begun, and nothing was written."
    write_atomically(run / "run.yaml", b"one")
    assert fresh() == f"Interrupted; go on with: {second}"
    # The run that is to be replaced still stands there: to resume it would be another training.
    replacing = training(run, second)
    assert replacing() == "Interrupted; the training had not begun, and nothing was written."
    assert training(run, second, resumed=True)() == f"Interrupted; go on with: {second}"
    write_atomically(run / "run.yaml", b"two")
    assert replacing() == f"Interrupted; go on with: {second}"


# --- what it says is true, whenever it comes ---------------------------------------------------


class Clock:
    """Counts moments, and is interrupted at some of them."""

    def __init__(self, *due: int) -> None:
        self.due = due
        self.passed = 0

    def tick(self) -> None:
        self.passed += 1
        if self.passed - 1 in self.due:
            raise KeyboardInterrupt

    def after(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is the same, with a moment before it and one after it."""

        def operation(*args: Any, **options: Any) -> Any:
            self.tick()
            done = real(*args, **options)
            self.tick()
            return done

        return operation

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("fsync", *crashing.FILE_OPERATIONS):
            patch.setattr(os, name, self.after(getattr(os, name)))
        patch.setattr(PassiveParty, "handle", self.after(PassiveParty.handle))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    Federation.local("digits", model="mlp", epochs=1, folder=folder).train()
    return folder


@pytest.fixture(scope="module")
def staged(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("staged") / "run"))
    crashing.run_verb(Federation.open(folder), "forget", LABEL)
    return folder


def state(run: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return the versions and the staged versions of every party, byte for byte.

    A version is where its manifest is; of one that was about to be committed, the tensors may have
    moved already.
    """
    found = {}
    for manifest in (*run.glob("*/versions/*.json"), *run.glob("*/staged/*.json")):
        tensors = manifest.with_suffix(".safetensors")
        if not tensors.exists():
            tensors = manifest.parents[1] / "versions" / tensors.name
        found[str(manifest.relative_to(run))] = manifest.read_bytes(), tensors.read_bytes()
    return found


def check(run: Path, verb: str, before: object, sentence: str) -> str:
    """Check that a sentence is true of a run; return which it was."""
    if sentence == UNKNOWN:  # a second one came while it was being found out
        return "unknown"
    opened = Federation.open(run, recovering=True)
    transaction = Transaction(opened.active)
    if sentence == UNCHANGED:
        assert state(run) == before
        crashing.run_verb(Federation.open(run), verb, LABEL)
        return "unchanged"
    if "unlabel recover RUN" in sentence:
        with pytest.raises(ForgetError):
            transaction.expect_settled()
        crashing.run_verb(opened, "recover", LABEL)
        transaction.expect_together()
        assert interrupts._agreed(opened) is not None
        return "recover"
    transaction.expect_together()
    waiting = transaction.staged()
    if "is staged" in sentence:
        assert waiting is not None
        assert waiting.id in sentence
        assert {s.staged for s in transaction.statuses().values()} == {waiting.id}
        return "staged"
    assert sentence == "Interrupted; the parties agree, and `unlabel status RUN` shows on what."
    assert waiting is None
    transaction.expect_settled()
    return "decided"


def interrupt(run: Path, verb: str, clock: Clock) -> str | None:
    """Run a verb to the moment it is interrupted; return what is said then."""
    federation = Federation.open(run)
    with pytest.MonkeyPatch.context() as patch:
        clock.watch(patch)
        try:
            with on_interrupt(UNKNOWN), on_interrupt(standing(federation, "RUN")):
                crashing.run_verb(federation, verb, LABEL)
        except Interrupted as interrupted:
            return str(interrupted)
    return None


@pytest.mark.parametrize(
    ("verb", "possible"),
    [
        ("forget", {"unchanged", "staged"}),
        ("commit", {"unchanged", "recover", "decided"}),
        ("rollback", {"unchanged", "recover", "decided"}),
    ],
)
def test_what_is_said_of_a_run_is_true_whenever_an_interrupt_comes(
    verb: str, possible: set[str], trained: Path, staged: Path, tmp_path: Path
) -> None:
    """The moments are a share of all; `make stress` has every one."""
    assert said_at(verb, trained if verb == "forget" else staged, tmp_path, stride=13) <= possible


@pytest.mark.long
@pytest.mark.parametrize("often", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("verb", ["forget", "commit", "rollback"])
def test_what_is_said_of_a_run_is_true_at_every_moment(
    verb: str, often: int, trained: Path, staged: Path, tmp_path: Path
) -> None:
    found = said_at(verb, trained if verb == "forget" else staged, tmp_path, often=often)
    # After the last file of a request that is staged there is a moment too.
    past = {"staged"} if verb == "forget" else {"recover", "decided"}
    once = {"unchanged"} | past
    # Who interrupts what puts things back may leave them half-way; that is said, and mended.
    more = {"unknown", "recover"} if verb == "forget" else {"unknown"}
    assert found == once if often == 1 else found <= once | more


def said_at(verb: str, source: Path, folder: Path, *, often: int = 1, stride: int = 1) -> set[str]:
    """Interrupt a verb at its moments; return which sentences were said, all of them true."""
    before = state(source)
    clock = Clock()
    assert interrupt(Path(shutil.copytree(source, folder / "whole")), verb, clock) is None
    found = set()
    for moment in range(0, clock.passed, stride):
        run = Path(shutil.copytree(source, folder / str(moment)))
        said = interrupt(run, verb, Clock(*range(moment, moment + often)))
        assert said is not None
        found.add(check(run, verb, before, said))
        shutil.rmtree(run)
    return found


# --- what it leaves behind ---------------------------------------------------------------------


def test_a_training_interrupted_between_two_parties_is_named_where_it_is_in_the_way(
    trained: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    Federation.open(run).passives["passive-1"].handle(Save(0, 2))
    with pytest.raises(PartyRefused):
        crashing.run_verb(Federation.open(run), "forget", LABEL)
    assert "unlabel train --resume" in unlabel("recover", run, "--json").json["recovered"]
    assert state(run).keys() - state(trained).keys() == {"passive-1/versions/000002.json"}


def test_a_request_that_a_party_has_dropped_is_not_committed_but_recovered(
    staged: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(staged, tmp_path / "run"))
    opened = Federation.open(run)
    waiting = Transaction(opened.active).staged()
    assert waiting is not None
    opened.passives["passive-1"].handle(Rollback(0, waiting.id))
    for verb in ("commit", "rollback"):
        with nothing_written(run), pytest.raises(ForgetError):
            crashing.run_verb(Federation.open(run), verb, LABEL)
    done = crashing.run_verb(Federation.open(run, recovering=True), "recover", LABEL)
    assert done == f"rolled back request {waiting.id}"
    crashing.run_verb(Federation.open(run), "forget", LABEL)


# --- a real Ctrl-C -----------------------------------------------------------------------------


def test_ctrl_c_in_a_training_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    words = ["train", *QUICK, "--epochs", "100000", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unlabel", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts a job in the background has it ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    began = time.monotonic()
    while not (tmp_path / "run" / "active" / "versions" / "000003.json").exists():
        assert process.poll() is None
        assert time.monotonic() - began < 60
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert [line.partition(";")[0] for line in err.splitlines()] == ["Interrupted"]
    assert Federation.open(tmp_path / "run", resume=True).version is not None
