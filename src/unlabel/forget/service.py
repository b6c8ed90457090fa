"""A request from beginning to end: planned, carried out, staged; then decided on and remembered.

    plan (plan.py)  ->  execute (execute.py)  ->  method.run  ->  stage (transaction.py)

Each step hands one object to the next: `Work`, `Execution`, `Outcome`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unlabel.data import ACTIVE
from unlabel.errors import PartyLost
from unlabel.files import writing
from unlabel.forget.execute import Execution, execute
from unlabel.forget.outcome import Outcome, Result
from unlabel.forget.plan import plan
from unlabel.forget.protocol import Run
from unlabel.forget.settings import ForgetSettings
from unlabel.forget.spending import Spent
from unlabel.forget.transaction import PartyStatus, Transaction
from unlabel.forget.work import Watch, Work, watch_nothing
from unlabel.party.ledger import Event
from unlabel.train import Conduct
from unlabel.train.unfinished import unfinished


def forget(
    run: Run,
    labels: Sequence[str | int] = (),
    *,
    ids: Sequence[str] = (),
    settings: ForgetSettings | None = None,
    watch: Watch = watch_nothing,
) -> Outcome:
    """Forget labels, or the labels of people, and stage what that makes."""
    return carry_out(run, plan(run, labels=labels, ids=ids, settings=settings), watch)


def carry_out(run: Run, work: Work, watch: Watch = watch_nothing) -> Outcome:
    """Carry a planned request out, and stage what it makes with every party."""
    work.watch = watch
    if work.request.rows:
        run.cover_secret.keep()
    told = work.method.account()
    # Counted before anything is sent: what comes of it, the partners have seen.
    total = None if told is None else run.spending.add(told)
    done = execute(work)
    if total is not None:
        privacy = _with_total(done.result.privacy or {}, total)
        done = replace(done, result=replace(done.result, privacy=privacy))
    _stage(run, work, done)
    run.undecided = Outcome(done.result, run)
    return run.undecided


def _stage(run: Run, work: Work, done: Execution) -> None:
    """Have every party write aside what the request made; where that fails, take it all back."""
    request, transaction = work.request, Transaction(run.active)
    try:
        transaction.stage(
            request,
            work.name,
            work.earlier.plus(request.labels, request.rows),
            base=run.version,
            control=done.result.control,
            still_known=done.result.still_known,
            silent=work.method.is_silent(),
            conduct=_conduct(done),
        )
    except BaseException:
        with contextlib.suppress(PartyLost):  # whoever goes on returns all to a version first
            work.take_back(done.before)
        transaction.drop_key(request.id)
        raise


def _with_total(own: Mapping[str, Any], total: Spent) -> dict[str, Any]:
    """Return the accountant's figures of a request with those of all hidden requests so far."""
    together = total.to_json(own["labels"])
    alone = own["information"] == together["information"]
    sentence = own["sentence"] if alone else f"{own['sentence']} {together['sentence']}"
    return {**own, "sentence": sentence, "total": together}


def _conduct(done: Execution) -> Conduct:
    result: Result = done.result
    return Conduct(
        mode=result.mode,
        settings=result.settings,
        privacy=result.privacy,
        failed=result.failed,
        steps=result.steps,
        seconds=result.seconds,
        transcript_bytes=result.transcript_bytes,
        public=result.public,
        tells=result.tells_partners,
        messages=done.messages,
    )


def dummy(run: Run, watch: Watch = watch_nothing) -> str:
    """Forget nothing, so that partners cannot tell from the time of a request that there was one.

    To them it is a hidden request that was committed; the active party drops what it made.
    """
    outcome = carry_out(run, plan(run, dummy=True), watch)
    outcome.rollback()
    return outcome.result.request


def commit(
    run: Run, request: str | None = None, *, force: bool = False, audit: dict[str, Any]
) -> str:
    """Make the staged request every party's model; return its id.

    audit  what an audit said of the request, for the ledger
    """
    done = Transaction(run.active).commit(request, force=force, audit={**audit, "forced": force})
    run.refresh(afresh=True)
    return done


def rollback(run: Run, request: str | None = None) -> str:
    """Drop the staged request; return its id."""
    done = Transaction(run.active).rollback(request)
    run.refresh(afresh=True)
    return done


def purge(run: Run) -> int:
    """Remove all that stems from before the newest version, everywhere; return its number."""
    curves = run.folder / "tensorboard"

    def remove_curves() -> None:
        with writing(curves):
            if curves.exists():
                shutil.rmtree(curves)

    run.refresh()
    left = Transaction(run.active).purge(remove_curves)
    run.refresh(afresh=run.undecided is None)
    return left


def recover(run: Run) -> str:
    """Finish what a crash interrupted; return in words what was done."""
    done = Transaction(run.active).recover()
    run.refresh(afresh=True)
    return done


@dataclass(frozen=True)
class Status:
    """Where a federation stands.

    parties           every party's versions, what it has staged and where its ledger ends
    staged            id of the request that waits for commit or rollback, empty if none does
    forgotten_labels  names of the labels that the model has forgotten
    forgotten_people  how many people's labels it has forgotten
    unfinished        a sentence where its training was interrupted, else empty
    """

    parties: Mapping[str, PartyStatus]
    staged: str
    forgotten_labels: tuple[str, ...]
    forgotten_people: int
    unfinished: str

    @property
    def together(self) -> bool:
        """Whether all parties are on the same version, with the same request staged."""
        return len({(s.version, s.staged) for s in self.parties.values()}) == 1


def status(run: Run) -> Status:
    """Return where every party stands, the active one first."""
    transaction = Transaction(run.active)
    parties = {ACTIVE: transaction.own_standing(), **transaction.standing()}
    stopped = "" if run.version is None else unfinished(run.active.versions.facts(run.version))
    return Status(
        parties=parties,
        staged=parties[ACTIVE].staged,
        forgotten_labels=tuple(run.labels[n] for n in run.forgotten.labels),
        forgotten_people=len(run.forgotten.rows),
        unfinished=stopped,
    )


def waiting(run: Run) -> str | None:
    """Return the id of the request that waits for commit or rollback, if one does."""
    staged = Transaction(run.active).staged()
    return None if staged is None else staged.id


def is_decided(run: Run, event: Event, request: str | None) -> bool:
    """Return whether the active party's own ledger has a decision on a request."""
    entries = run.active.versions.ledger.entries()
    return any((entry.event, entry.request) == (event, request) for entry in entries)
