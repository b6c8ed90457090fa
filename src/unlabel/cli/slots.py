"""`unlabel slots`: a hidden request at fixed times, so that its time says nothing either."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, print_json, say
from unlabel.cli.target import Kit, Run, Target
from unlabel.config import PACE

if TYPE_CHECKING:
    from unlabel.forget import Slot


def slots(
    every: Annotated[float, typer.Option(help="Seconds from one slot to the next.")],
    count: Annotated[int, typer.Option(help="How many slots there are.")],
    run: Run = None,
    federation: Kit = None,
    pace: Annotated[
        float,
        typer.Option(help="Seconds of which messages leave at multiples; 0 lets them leave."),
    ] = PACE,
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Purge after every slot; parties keep only a few versions."),
    ] = False,
    json: Json = False,
) -> None:
    """Make a hidden request at fixed times: the next that waits, else one about nothing.

    Example: unlabel slots runs/digits --every 86400 --count 30 --purge
    """
    target = Target.of(run, federation)

    def show(number: int, slot: Slot) -> None:
        named = ", ".join(slot.labels)
        sentence = f"{named} forgotten." if slot.kept else "nothing waited."
        if slot.why:
            sentence = f"{named} not forgotten, and off the queue: {slot.why}"
        say(f"Slot {number + 1} of {count}: {sentence}")
        if slot.late:
            say(
                f"{slot.late} of its messages left later than they were due, and that may tell "
                f"partners what the slot was about; choose a longer --pace than {pace:g}."
            )

    with _until_interrupted() as stop, target.open() as opened:
        done = opened.slots(every=every, count=count, pace=pace, purge=purge, watch=show, stop=stop)
    if len(done) < count:
        say(f"Stopped after {len(done)} of {count} slots.")
    if json:
        stopped = {"stopped": len(done) < count, **target.json()}
        print_json({"slots": [asdict(slot) for slot in done], **stopped})


@contextlib.contextmanager
def _until_interrupted() -> Iterator[Event]:
    """Give an event that SIGINT sets, so that a slot that has begun is finished first."""
    stop = Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
