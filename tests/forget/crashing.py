"""A program that runs verbs on copies of runs, and dies once at every moment of each.

    python crashing.py LABEL [RUN VERB OUT] ..

A moment is the time right before or after one party handles a message (so that it was sent, or
is about to be answered), after a file was half written, and after each fsync, rename, unlink,
rmdir, mkdir and chmod. OUT/000, OUT/001 .. are the run after a SIGKILL at each moment that finds
other files than the one before it; a death leaves nothing but files, so that all deaths among the
same ones are one death. OUT/moments.json has every moment, and the number of the run it leaves.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unlabel import Federation
from unlabel.forget import ForgetSettings
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.party import PassiveParty
from unlabel.unopened import Unopened, open_standing
from unlabel.wire import Message, kind_of

#: Quick: what is tested is what happens around the steps.
METHOD = Renormalise(steps=1)
#: Decides every draw of a request, so that each one comes to the same weights.
KEY = "5a" * 32
#: A rollback for which no table is read.
UNOPENED = "rollback without tables"
FILE_OPERATIONS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "chmod")


def run_verb(federation: Federation, verb: str, label: str) -> object:
    """Do to a run what a person would."""
    if verb == "forget":
        method = None if federation.config.is_label_free else METHOD
        return federation.forget([label], settings=ForgetSettings(method=method, key=KEY))
    verbs: dict[str, Callable[[Federation], object]] = {
        "commit": lambda federation: federation.commit(force=True),
        "rollback": Federation.rollback,
        UNOPENED: Federation.rollback,
        "purge": Federation.purge,
        "recover": Federation.recover,
        "train": Federation.train,
    }
    return verbs[verb](federation)


class Fate:
    """Counts the moments at which a process can die, and lets it die at one of them.

    run   the folder whose files tell moments apart, where no death is due
    last  the moment of death, counted from 0
    """

    def __init__(self, run: Path, last: int | None = None) -> None:
        self.run = run
        self.last = last
        self.passed = 0
        self.moments: list[tuple[str, int]] = []
        self._files = ""
        self._state = -1

    def is_due(self) -> bool:
        return self.passed == self.last

    def pass_by(self, moment: str, *, torn: bool = False) -> None:
        """Die here, or note the moment; `torn` where a death would leave half of a file."""
        if self.is_due():
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1
        if self.last is None:
            files = digest_of(self.run)
            if torn or files != self._files:
                self._state += 1
            self._files = "" if torn else files
            self.moments.append((moment, self._state))


def digest_of(folder: Path) -> str:
    """Return a digest of the names, modes and bytes of all files and folders in a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)} {path.stat().st_mode} ".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"/")
    return found.hexdigest()


def bind(fate: Fate) -> None:
    """Put this process, for the rest of its life, into the hands of fate."""

    def after(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            done = real(*args, **options)
            fate.pass_by(f"after {name} of {Path(args[0]).name}")
            return done

        return operation

    for name in FILE_OPERATIONS:
        setattr(os, name, after(name, getattr(os, name)))
    patch(os, "fsync", lambda real: _fsync(fate, real))
    patch(PassiveParty, "handle", lambda real: _handle(fate, real))


def patch(
    owner: object, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    setattr(owner, name, wrap(getattr(owner, name)))


def _fsync(fate: Fate, real: Callable[[int], None]) -> Callable[[int], None]:
    def fsync(handle: int) -> None:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode):
            if fate.is_due():
                os.ftruncate(handle, about.st_size // 2)
            fate.pass_by("half of a file", torn=True)
        real(handle)
        fate.pass_by("after fsync")

    return fsync


def _handle(fate: Fate, real: Callable[..., Message]) -> Callable[..., Message]:
    def handle(party: PassiveParty, message: Message) -> Message:
        fate.pass_by(f"before {kind_of(message)} at {party.name}")
        answer = real(party, message)
        fate.pass_by(f"after {kind_of(message)} at {party.name}")
        return answer

    return handle


def in_child(work: Callable[[], None]) -> int:
    """Run something in a copy of this process; return how the copy ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_every_moment(run: Path, verb: str, label: str, out: Path) -> None:
    out.mkdir(parents=True)
    work, told = out / "work", out / "moments.json"
    shutil.copytree(run, work)
    recovering, resume = verb == "recover", verb == "train"
    if verb == UNOPENED:
        federation = open_standing(work, deciding=True)
        assert isinstance(federation, Unopened)
    else:
        federation = Federation.open(work, record=True, recovering=recovering, resume=resume)

    def undisturbed() -> None:
        fate = Fate(work)
        bind(fate)
        run_verb(federation, verb, label)
        told.write_text(json.dumps(fate.moments))

    def disturbed(moment: int) -> None:
        bind(Fate(work, moment))
        run_verb(federation, verb, label)

    assert in_child(undisturbed) == 0
    shutil.rmtree(work)
    states = [state for _, state in json.loads(told.read_text())]
    for state in range(states[-1] + 1):
        shutil.copytree(run, work)
        last = states.index(state)
        assert in_child(lambda last=last: disturbed(last)) == -signal.SIGKILL  # type: ignore[misc]
        work.rename(out / f"{state:03d}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    words = sys.argv[2:]
    for first in range(0, len(words), 3):
        folder, verb, out = words[first : first + 3]
        die_at_every_moment(Path(folder), verb, sys.argv[1], Path(out))
