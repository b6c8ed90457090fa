"""`unlabel slots`: a hidden request at fixed times, so that its time says nothing either."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from unlabel import erasure
from unlabel.cli.output import Json, messages, print_json
from unlabel.configfile import read_run_config
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, SettingsError
from unlabel.federation import Federation
from unlabel.forget import CONTROL, Forgotten, Queue, Result, find_labels
from unlabel.train import load_holdings

ALONE = (
    "A queued request is a hidden one with default settings; give --label with --queue and no "
    "other option."
)


@dataclass(frozen=True)
class Slot:
    """What was done in one slot.

    request  its id; partners see the same of it whatever it was
    labels   that were to be forgotten, none where nothing waited
    kept     whether they are forgotten now
    why      they are not, where they were to be
    """

    request: str
    labels: tuple[str, ...]
    kept: bool
    why: str


def slots(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    every: Annotated[float, typer.Option(help="Seconds from one slot to the next.")],
    count: Annotated[int, typer.Option(help="How many slots there are.")],
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Purge after every slot; parties keep only a few versions."),
    ] = False,
    json: Json = False,
) -> None:
    """Make a hidden request at fixed times: the next that waits, else one about nothing.

    Example: unlabel slots runs/digits --every 86400 --count 30 --purge
    """
    if count < 1 or every < 0:
        raise SettingsError(
            f"Expected at least 1 slot, 0 seconds or more apart, but got {count} and {every:g}."
        )
    done: list[Slot] = []
    started = time.monotonic()
    with _until_interrupted() as stop:
        for number in range(count):
            if stop.wait(max(0.0, started + number * every - time.monotonic())):
                messages.print(f"Stopped after {len(done)} of {count} slots.")
                break
            done.append(_serve(run, purge=purge))
            _say(done[-1], f"Slot {number + 1} of {count}")
    if json:
        print_json(
            {"slots": [asdict(slot) for slot in done], "stopped": stop.is_set(), "run": str(run)}
        )


def queue_request(run: Path, labels: Sequence[str], *, alone: bool, json: bool) -> None:
    """Let a request wait for its slot; the partners hear nothing of it."""
    if not labels or not alone:
        raise SettingsError(ALONE)
    names = load_holdings(read_run_config(run), folder=run).names
    numbers = find_labels(labels, names, Forgotten())
    wanted = tuple(names[number] for number in numbers)
    place = Queue(run / ACTIVE).append(wanted)
    if json:
        print_json({"queued": list(wanted), "place": place, "run": str(run)})
    else:
        messages.print(
            f"Queued as number {place}. It is carried out by: "
            f"unlabel slots {run} --every SECONDS --count SLOTS --purge"
        )


def run_slot(federation: Federation, labels: Sequence[str]) -> Slot:
    """Make one hidden request, about labels or about nothing, and decide on it.

    It is planned as one about nothing, and the labels are put in afterwards, so that labels that
    cannot be forgotten cost no message more or less. What came to nothing is dropped in the words
    in which it would be kept.
    """
    task, request = erasure.plan(federation, dummy=True, mode="hidden")
    why = ""
    if labels:
        try:
            numbers = find_labels(labels, task.names, task.gone)
            names = tuple(task.names[number] for number in numbers)
            request = replace(request, labels=tuple(numbers), names=names)
        except ForgetError as error:
            why = str(error)
    outcome = erasure.run_request(federation, task, request, None)
    if request.labels:
        why = _came_to_nothing(outcome.result)
    kept = bool(request.labels) and not why
    if kept:
        outcome.commit()
    else:
        outcome.rollback()
    return Slot(outcome.result.request, tuple(labels), kept, why)


def _came_to_nothing(result: Result) -> str:
    """Return why a request is not kept, nothing where it is."""
    if result.still_known:
        return "The label is still predicted for many of its test rows."
    return result.failed or (CONTROL if result.control else "")


def _serve(run: Path, *, purge: bool) -> Slot:
    """Do what a slot is for, with what waits now."""
    queue = Queue(run / ACTIVE)
    federation = Federation.open(run)
    labels = queue.first()
    slot = run_slot(federation, labels)
    if labels:
        queue.drop_first()
    if purge:
        erasure.purge(federation)
    return slot


def _say(slot: Slot, title: str) -> None:
    named = ", ".join(slot.labels)
    if slot.why:
        messages.print(f"{title}: {named} not forgotten, and off the queue: {slot.why}")
    else:
        messages.print(f"{title}: {f'{named} forgotten' if slot.kept else 'nothing waited'}.")


@contextlib.contextmanager
def _until_interrupted() -> Iterator[Event]:
    """Give an event that SIGINT sets, so that a slot that has begun is finished first."""
    stop = Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
