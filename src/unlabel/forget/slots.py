"""Hidden requests at fixed times: about labels that wait, or about nothing.

What waits stands in a file of the active party that nobody else can read, the next request first:

    [["cat"], ["dog", "owl"]]
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from unlabel.config import ForgetSettings
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, RunError
from unlabel.files import write_atomically
from unlabel.forget.outcome import Outcome
from unlabel.forget.plan import plan
from unlabel.forget.request import find_labels
from unlabel.forget.request_secrets import QUEUE
from unlabel.forget.run_interface import Run
from unlabel.forget.service import carry_out
from unlabel.party.deciding import deciding
from unlabel.wire.paced import Paced, wait_until


class Queue:
    """The requests that wait, in the order in which they came."""

    def __init__(self, home: Path) -> None:
        self.path = home / "secrets" / QUEUE

    def waiting(self) -> list[tuple[str, ...]]:
        """Return the labels of every request that waits, or say that the file is damaged."""
        if not self.path.exists():
            return []
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8"))
            if not isinstance(entries, list) or not all(map(_is_request, entries)):
                raise ValueError("An entry is no list of labels.")
        except (OSError, ValueError) as error:
            raise RunError(
                f"The queue '{self.path}' cannot be read; expected a list of lists of labels; "
                f"remove it and queue its requests again."
            ) from error
        return [tuple(labels) for labels in entries]

    def append(self, labels: Sequence[str]) -> int:
        """Let a request wait; return its place, counted from 1."""
        with self._alone():
            waiting = [*self.waiting(), tuple(labels)]
            self._write(waiting)
            return len(waiting)

    def first(self) -> tuple[str, ...]:
        """Return the labels of the next request, none where nothing waits."""
        return next(iter(self.waiting()), ())

    def take_off(self, labels: Sequence[str]) -> None:
        """Take the first request off, once it is decided on; for none write as much."""
        with self._alone():
            waiting = self.waiting()
            if self.path.exists():
                # Not another's, where two processes began with the same one.
                is_first = waiting[:1] == [tuple(labels)]
                self._write(waiting[1:] if is_first else waiting)

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes out: one may queue while another takes off."""
        return deciding(self.path.parent.parent)

    def _write(self, waiting: Sequence[Sequence[str]]) -> None:
        text = json.dumps([list(labels) for labels in waiting])
        write_atomically(self.path, text.encode(), mode=0o600)


def _is_request(entry: object) -> bool:
    named = isinstance(entry, list) and all(isinstance(label, str) for label in entry)
    return named and bool(entry)


@dataclass(frozen=True)
class Slot:
    """What was done in one slot.

    request  its id; partners see the same of it whatever it was
    labels   that were to be forgotten, none where nothing waited
    kept     whether they are forgotten now
    why      they are not, where they were to be
    late     messages that were not ready when they were due; such a delay may tell something
    """

    request: str
    labels: tuple[str, ...]
    kept: bool
    why: str
    late: int = 0


def serve_slots(
    run: Run,
    *,
    every: float,
    count: int,
    pace: float,
    purge_after: bool,
    settings: ForgetSettings,
    watch: Callable[[int, Slot], None] | None = None,
    stop: Event | None = None,
) -> list[Slot]:
    """Serve slots that begin at fixed times; one that takes longer delays the next.

    every     seconds from one slot to the next
    settings  of the requests; each has draws of its own, and they are decided before it begins
    watch     called with the number of a slot and what was done in it
    stop      ends it before the next slot, once it is set
    """
    done: list[Slot] = []
    stop, started = stop or Event(), time.monotonic()
    for number in range(count):
        decided = replace(settings, key=secrets.token_hex(32))
        if wait_until(started + number * every, sleep=stop.wait):
            break
        done.append(serve_slot(run, purge_after=purge_after, settings=decided, pace=pace))
        if watch is not None:
            watch(number, done[-1])
    return done


def serve_slot(run: Run, *, purge_after: bool, settings: ForgetSettings, pace: float) -> Slot:
    """Do what a slot is for, with what waits now; messages leave at multiples of `pace`."""
    queue, plain = Queue(run.folder / ACTIVE), run.active.transport
    paced = run.active.transport = Paced(plain, pace)
    try:
        labels = queue.first()
        slot = run_slot(run, labels, settings)
        try:
            if purge_after:
                run.purge()
        finally:
            queue.take_off(labels)  # only now: no message waits for it
        paced.wait()  # nor does the next slot
    finally:
        run.active.transport = plain
    return replace(slot, late=paced.late)


def run_slot(run: Run, labels: Sequence[str], settings: ForgetSettings) -> Slot:
    """Make one hidden request, about labels or about nothing, and decide on it.

    It is planned as one about nothing and the labels are put in afterwards: those that cannot be
    forgotten cost no message more or less, and are dropped in the words of a commit.
    """
    outcome, why = run.with_recovery(lambda: _request(run, labels, settings))
    about = bool(outcome.result.labels)
    if about:
        why = why or outcome.why_not() or run.why_not_committed(outcome.result.request)
    kept = about and not why
    # What goes wrong now ends both kinds of slots alike: a partner that refuses learns nothing.
    if kept:
        outcome.commit()
    else:
        outcome.rollback()
    return Slot(outcome.result.request, tuple(labels), kept, why)


def _request(run: Run, labels: Sequence[str], settings: ForgetSettings) -> tuple[Outcome, str]:
    """Carry out one request; return also why the labels could not be put in, where that is so."""
    work, why = plan(run, dummy=True, settings=settings), ""
    if labels:
        try:
            numbers = find_labels(labels, work.names, work.earlier)
            names = tuple(work.names[number] for number in numbers)
            work = replace(work, request=replace(work.request, labels=tuple(numbers), names=names))
        except ForgetError as error:
            why = str(error)
    return carry_out(run, work), why
