"""A request from beginning to end: planned, carried out, staged; then decided on and remembered.

    plan (plan.py)  ->  execute (execute.py)  ->  method.run  ->  stage (transaction.py)

Each step hands one object to the next: `Work`, `Execution`, `Outcome`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from unlabel.config import ForgetSettings
from unlabel.config.forget import FEW_SHOT
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, PartyLost
from unlabel.files import DRAFT, OWNER_ONLY, beside, writing
from unlabel.forget.exact import execute_exact, plan_exact
from unlabel.forget.exact_methods import ExactWork
from unlabel.forget.execute import Execution, execute
from unlabel.forget.names import forgotten_names
from unlabel.forget.outcome import Outcome
from unlabel.forget.plan import keep_samples, own_public, plan
from unlabel.forget.privacy_loss import TotalLoss
from unlabel.forget.restored import behind, bring_up, lacks_purge
from unlabel.forget.run_interface import Run
from unlabel.forget.standing import out_of_line
from unlabel.forget.transaction import Transaction
from unlabel.forget.work import Work
from unlabel.party import Ledger, LedgerEntry
from unlabel.party.deciding import deciding
from unlabel.party.ledger import Event
from unlabel.progress import Watch, watch_nothing
from unlabel.train import Conduct, Forgotten, RequestFacts
from unlabel.train.cleared import LabelTable
from unlabel.train.given import TABLE
from unlabel.train.parts import known_labels
from unlabel.wire import Rollback

W = TypeVar("W", bound=Work)

#: Where the active party keeps what it observed of retrained models.
RETRAINED = "retrained"


def forget(
    run: Run,
    labels: Sequence[str | int] = (),
    *,
    ids: Sequence[str] = (),
    settings: ForgetSettings | None = None,
    watch: Watch = watch_nothing,
) -> Outcome:
    """Forget labels, or the labels of people, and stage what that makes."""
    if run.config.is_label_free:
        exact = plan_exact(run, labels=labels, ids=ids, settings=settings)
        exact.watch = watch
        return _staged(run, exact, execute_exact, exact.erased)
    return carry_out(run, plan(run, labels=labels, ids=ids, settings=settings), watch)


def carry_out(run: Run, work: Work, watch: Watch = watch_nothing) -> Outcome:
    """Carry a planned request out, and stage what it makes with every party."""
    work.watch = watch
    outcome = _staged(run, work, execute, work.request.rows)
    keep_samples(run, work.public)
    return outcome


def _staged(run: Run, work: W, act: Callable[[W], Execution], rows: Sequence[int]) -> Outcome:
    """Carry a request out, count what it tells, and stage what it makes.

    rows  that are forgotten with it, beside its labels
    """
    account = work.method.account
    # Counted before anything is sent: what comes of it, the partners have seen.
    total = None if account is None else run.privacy_loss.add(account)
    done = act(work)
    if total is not None:
        privacy = _with_total(done.result.privacy or {}, total)
        done = replace(done, result=replace(done.result, privacy=privacy))
    # Where labels go by their rows, the list of labels goes on without them.
    labels = () if run.config.is_label_free else work.request.labels
    _stage(run, work, done, work.earlier.plus(labels, rows))
    run.undecided = Outcome(done.result, run)
    return run.undecided


def _stage(run: Run, work: Work, done: Execution, forgotten: Forgotten) -> None:
    """Have every party stage its new weights; where that fails, return all to the old ones."""
    request, result, transaction = work.request, done.result, Transaction(run.active)
    about = RequestFacts(
        id=request.id,
        note=request.active_note(work.name),
        control=result.control,
        still_known=result.still_known,
        silent=work.method.is_silent,
        conduct=Conduct(
            visibility=result.visibility,
            aim=result.aim,
            guarantee=work.method.guarantee,
            replay=work.replay(run.holdings.ids) if isinstance(work, ExactWork) else {},
            settings=result.settings,
            privacy=result.privacy,
            failed=result.failed,
            steps=result.steps,
            seconds=result.seconds,
            transcript_bytes=result.transcript_bytes,
            public=result.public,
            tells=result.tells_partners,
            messages=done.messages,
        ),
    )
    try:
        data = run.holdings.digest()
        if isinstance(work, ExactWork):  # the new version names no label that is not there
            left = known_labels(run.holdings.labels, run.labels, forgotten.rows)[1]
            data = replace(run.holdings, names=left).digest()
        with deciding(run.folder / ACTIVE):
            transaction.stage(request, about, forgotten, base=run.version, data=data)
    except BaseException:
        with contextlib.suppress(PartyLost):  # recovery returns all to a version
            work.undo(done.before)
        transaction.secrets.drop_key(request.id)
        raise


def _with_total(figures: Mapping[str, Any], total: TotalLoss) -> dict[str, Any]:
    """Return the accountant's figures of a request with those of all hidden requests so far."""
    together = total.to_json(figures["labels"])
    sentence = figures["sentence"]
    if figures["information"] != together["information"]:
        sentence = f"{sentence} {together['sentence']}"
    return {**figures, "sentence": sentence, "total": together}


def commit(
    run: Run, request: str | None = None, *, force: bool = False, audit: dict[str, Any]
) -> str:
    """Make the staged request every party's model; return its id.

    audit  what an audit found of the request, for the ledger
    """
    run.holdings.bind(run.folder / ACTIVE)  # a run of 0.7 has no commitments yet
    with deciding(run.folder / ACTIVE):
        noted = {**audit, "forced": force}
        done = Transaction(run.active).commit(request, force=force, audit=noted)
    run.refresh(afresh=True)
    return done


def rollback(run: Run, request: str | None = None) -> str:
    """Drop the staged request; return its id."""
    with deciding(run.folder / ACTIVE):
        done = Transaction(run.active).rollback(request)
    run.refresh(afresh=True)
    return done


def purge(run: Run) -> int:
    """Remove all that stems from before the newest version, everywhere; return its number."""

    def remove_more() -> None:
        # Curves; what references saw of all rows, with their labels; keys of forgotten labels.
        home, table = run.folder / ACTIVE, LabelTable.of(run.config)
        for folder in (run.folder / "tensorboard", home / RETRAINED, beside(run.folder, DRAFT)):
            _remove(folder)
        run.holdings.bind(home)
        exact = run.config.is_label_free
        # Else that was done before the first purge.
        if not exact and not (run.holdings.labels < 0).any():
            keep_samples(run, own_public(run, FEW_SHOT))
        record = transaction.bury(run.forgotten)
        assert record is not None
        if exact:  # labels that nobody has any more are not named any more
            record = replace(record, names=run.labels)
        record.purged().write(home)
        if table is not None and table.path.resolve().parent == home.resolve():
            table.write(record, forgotten_names(run), home / TABLE)  # the run's own copy

    run.refresh()
    transaction = Transaction(run.active)
    with deciding(run.folder / ACTIVE):
        left = transaction.purge(remove_more)
    run.refresh(afresh=run.undecided is None)
    return left


def _remove(folder: Path) -> None:
    with writing(folder):
        if folder.exists():
            shutil.rmtree(folder)


def recover(run: Run) -> str:
    """Finish what a crash interrupted; return in words what was done."""
    run.holdings.bind(run.folder / ACTIVE)
    transaction = Transaction(run.active)
    with deciding(run.folder / ACTIVE):
        done = finish_interrupted(transaction)
        _remove(beside(run.folder, DRAFT))  # no update is under way
    run.refresh(afresh=True)
    if lacks_purge(transaction):
        done = f"removed what is older than version {purge(run)}, which the others have purged"
    return done


def finish_interrupted(transaction: Transaction) -> str:
    """Bring every party to what was decided before a crash; return in words what was done.

    Where a party was restored from a backup, what was decided since is repeated (`restored`). A
    crash leaves one of five traces:

        the active party has a version that another lacks       the commit, or silent drop, goes on
        the active party has staged what it noted as dropped    the rollback goes on
        a party has staged what the active party has not        that is rolled back
        the active party has staged what another has not        that is rolled back
        the active party has staged what all others have too    nothing was decided; it waits
    """
    lacking = behind(transaction)
    statuses = transaction.statuses()
    newest = max(transaction.store.versions(), default=0)
    request = transaction.facts(newest).request if newest else None
    if lacking:
        waits = {p for p, s in statuses.items() if request is not None and s.staged == request.id}
        return bring_up(transaction, lacking, waits)
    if newest and any(newest not in status.versions for status in statuses.values()):
        if request is None:
            raise CheckpointError(
                f"A party lost version {newest}; restore its folder from a backup."
            )
        transaction.finish_commit(newest)
        return f"{'rolled back' if request.dropped else 'committed'} request {request.id}"
    if request is not None:
        # Everybody has the version, but a ledger's line may be missing; to repeat the commit
        # changes nothing else.
        transaction.finish_commit(newest)
    dropped: list[str] = []
    staged = transaction.staged()
    if staged is not None:
        is_dropped = transaction.is_noted("rollback", staged.id)
        if not is_dropped and any(s.staged != staged.id for s in statuses.values()):
            is_dropped = True
            dropped.append(staged.id)
        if is_dropped:
            transaction.drop_staged(staged.id)
            staged = None
    waiting = staged.id if staged is not None else ""
    for party, status in statuses.items():
        if status.staged and status.staged != waiting:
            transaction.active.transport.tell({party: Rollback(0, status.staged)})
            dropped.append(status.staged)
    entries = transaction.ledger.entries()
    transaction.secrets.drop_strays({e.request for e in entries if e.event == "commit"} | {waiting})
    if dropped:
        return f"rolled back request {dropped[0]}"
    if waiting:
        return f"request {waiting} is staged and waits for commit or rollback"
    locked = out_of_line(newest, statuses)
    if locked:
        raise CheckpointError(locked[0], code="interrupted")
    if any(version > newest for status in statuses.values() for version in status.versions):
        # The active party writes a version of training last, and lacks it.
        return "no request was interrupted, but a training: go on with `unlabel train --resume`"
    return "nothing to recover"


def waiting(run: Run) -> str | None:
    """Return the id of the request that waits for commit or rollback, if one does."""
    staged = Transaction(run.active).staged()
    return None if staged is None else staged.id


def is_decided(run: Run, event: Event, request: str | None) -> bool:
    """Return whether the active party's ledger has a decision on a request."""
    return request is not None and Transaction(run.active).is_noted(event, request)


def read_ledgers(folder: Path, parties: Iterable[str]) -> Mapping[str, list[LedgerEntry]]:
    """Return the ledger of every party whose subfolder lies here; a broken or cut one raises.

    parties  names of the passive parties, none where they keep their ledgers themselves

    No data and no model is opened for it.
    """
    ledgers = {ACTIVE: Ledger(folder / ACTIVE, mode=OWNER_ONLY).entries()}
    ledgers |= {name: Ledger(folder / name).entries() for name in parties if name != ACTIVE}
    lines: dict[str, list[tuple[str, str]]] = {}
    for entry in ledgers[ACTIVE]:
        for party in entry.note.get("parties", []) if entry.event == "restore" else []:
            lines.pop(party, None)  # of before its backup was restored, which stands in the ledger
        for party, head in entry.note.get("heads", {}).items():
            lines.setdefault(party, []).append((head, entry.at))
    for party, seen in lines.items():
        hashes = {"", *(e.hash for e in ledgers.get(party, []))}
        for head, at in seen if party in ledgers else []:
            if head not in hashes:
                raise CheckpointError(
                    f"Ledger '{party}/ledger.jsonl' was cut off: it lacks a line that the active "
                    f"party saw in it at {at}."
                )
    return ledgers
