"""Hidden requests at fixed times: about labels that wait, or about nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, PartyLost, UnlabelError
from unlabel.forget.outcome import Outcome
from unlabel.forget.plan import plan
from unlabel.forget.protocol import Run
from unlabel.forget.queue import Queue
from unlabel.forget.request import find_labels
from unlabel.forget.service import carry_out, purge
from unlabel.forget.settings import ForgetSettings


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


def serve_slot(run: Run, *, purge_after: bool, settings: ForgetSettings) -> Slot:
    """Do what a slot is for, with what waits now."""
    queue = Queue(run.folder / ACTIVE)
    labels = queue.first()
    slot = run_slot(run, labels, settings)
    if labels:
        queue.drop_first()
    if purge_after:
        run.with_recovery(lambda: purge(run))
    return slot


def run_slot(run: Run, labels: Sequence[str], settings: ForgetSettings) -> Slot:
    """Make one hidden request, about labels or about nothing, and decide on it.

    It is planned as one about nothing, and the labels are put in afterwards, so that labels that
    cannot be forgotten cost no message more or less. What came to nothing is dropped in the words
    in which it would be kept.
    """
    outcome, why = run.with_recovery(lambda: _request(run, labels, settings))
    about = bool(outcome.result.labels)
    why = why or (outcome.why_not() if about else "")
    kept = about and not why
    if kept:
        try:
            outcome.commit()
        except PartyLost:
            raise
        except UnlabelError as error:  # to the partners every slot ends the same
            kept, why = False, str(error)
    if not kept:
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
