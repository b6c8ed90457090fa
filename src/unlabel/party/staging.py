"""How a passive party serves a request to forget: tune, stage, then commit or roll back, purge.

A party decides nothing here. It keeps the weights from before a request until it is told what
became of it, and every message may be repeated: after a crash the active party says again what it
had decided, and a party that has done it already does nothing more.
"""

from __future__ import annotations

import json

from unlabel.errors import CheckpointError, PartyRefused, RunError, SettingsError, refusal_of
from unlabel.files import writing
from unlabel.party.optimiser import OptimiserSettings
from unlabel.party.passive import Open, PassiveParty
from unlabel.party.policy import DIVERGED
from unlabel.party.protocols import handles
from unlabel.party.serving import not_written, store_of
from unlabel.wire import (
    Commit,
    Done,
    Message,
    Purge,
    Rollback,
    Saved,
    Stage,
    Standing,
    Status,
    Tune,
)

#: The file in which a party keeps what crossed its boundary.
TRANSCRIPT = "transcript.jsonl"

#: Letters and digits that name a request at most.
MAX_REQUEST = 64


@handles(Tune)
def tune(party: PassiveParty, message: Tune) -> Message:
    """Take up a request: keep the present state, then move with a fresh optimiser."""
    _check_request(message.request)
    waiting = staged_request(party)
    if waiting:
        raise PartyRefused(
            f"request {waiting} is staged; commit it or roll it back first.", "request-open"
        )
    try:
        settings = OptimiserSettings(
            lr=message.lr,
            momentum=message.momentum,
            nesterov=message.nesterov == "yes",
            weight_decay=message.weight_decay,
            schedule=message.schedule,
            warmup=message.warmup,
            optimiser=message.optimiser,
        )
    except SettingsError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    if not 0 <= message.renew <= 1 or message.steps < 0:
        raise PartyRefused(
            "it renews a share from 0 to 1 of its weights, over 0 or more steps.", "wrong-request"
        )
    if party.open is not None and party.open.request != message.request:
        _return(party)  # an earlier request that was given up without a word
    if party.open is None:
        try:
            state = party.bottom.state()
        except CheckpointError as error:
            raise PartyRefused(str(error), refusal_of(error)) from error
        party.open = Open(message.request, {k: v.detach().clone() for k, v in state.items()})
    if message.renew:
        party.bottom.renew(message.renew)
    party.bottom.tune(settings, message.steps)
    party.guard.forget_norms()
    party.pending = None
    return Done(message.step)


@handles(Stage)
def stage(party: PassiveParty, message: Stage) -> Message:
    """Keep the weights aside, without the optimiser, which would remember rows."""
    _check_request(message.request)
    party.guard.settle()
    store = store_of(party)
    waiting = staged_request(party)
    if waiting and waiting != message.request:
        raise PartyRefused(
            f"request {waiting} is staged; commit it or roll it back first.", "request-open"
        )
    _expect_lines_left(party)
    try:
        note = json.loads(message.note)
    except (ValueError, RecursionError) as error:
        raise PartyRefused("the note of a request must be JSON.", "wrong-request") from error
    if not _is_flat(note):
        raise PartyRefused(
            "the note of a request must be plain values, and lists of them, by name.",
            "wrong-request",
        )
    versions = store.versions()
    newest = max(versions, default=0)
    if message.version <= newest:
        raise PartyRefused(
            f"a request is staged as a version newer than all others, and it has version {newest} "
            f"already; where a training was interrupted, finish it first (unlabel train --resume).",
            "wrong-request",
        )
    if len(versions) >= party.guard.policy.max_versions:
        raise PartyRefused(
            f"it keeps {party.guard.policy.max_versions} versions at most; purge first.", "policy"
        )
    facts = {
        "features": party.bottom.features_digest(),
        "request": message.request,
        "note": note,
    }
    try:
        state = party.bottom.model_state()
        if not party.bottom.is_finite():
            raise PartyRefused(DIVERGED, "not-finite")
        digest = store.staged.save(message.version, state, facts)
        store.staged.keep((message.version,))
        _write_transcript(party)
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except RunError as error:
        raise not_written(error) from error
    return Saved(message.step, digest)


def _expect_lines_left(party: PassiveParty) -> None:
    """Refuse a request whose end could not be written down: a ledger does not grow for ever."""
    most = party.guard.policy.max_lines
    try:
        full = party.ledger is not None and len(party.ledger.entries()) >= most
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    if full:
        raise PartyRefused(
            f"its ledger holds {most} lines, and `max_lines` of its policy allows no more.",
            "policy",
        )


def _write_transcript(party: PassiveParty) -> None:
    """Write down what was recorded: a request may be far smaller than a block of it."""
    if party.transcript is not None:
        party.transcript.flush()


@handles(Commit)
def commit(party: PassiveParty, message: Commit) -> Message:
    """Make what was staged the party's version, and note it in the ledger."""
    _check_request(message.request)
    if party.store is not None:
        try:
            for shelf in (party.store.staged, party.store):  # before anything is touched
                there = message.version in shelf.versions()
                if there and shelf.facts(message.version).get("request") != message.request:
                    raise PartyRefused(
                        f"its version {message.version} is of another request.", "wrong-request"
                    )
            party.store.adopt(message.version, message.digest)
            if party.ledger is not None:
                note = party.store.facts(message.version)["note"]
                # A purge takes the weights away; what they were can still be attested.
                made = {
                    "version": message.version,
                    "weights": party.store.change(message.version),
                }
                party.ledger.append("commit", message.request, {**note, **made})
            _write_transcript(party)
        except CheckpointError as error:
            raise PartyRefused(str(error), refusal_of(error)) from error
        except RunError as error:
            raise not_written(error) from error
    if party.open is None or party.open.request == message.request:  # not one that came since
        party.open = None
        party.bottom.settle()
    return Done(message.step)


@handles(Rollback)
def rollback(party: PassiveParty, message: Rollback) -> Message:
    """Drop what a request made; a request that left nothing is no reason to complain."""
    _check_request(message.request)
    try:
        if party.store is not None and staged_request(party) == message.request:
            staged = party.store.staged
            note = staged.facts(staged.versions()[-1])["note"]
            if party.ledger is not None:
                party.ledger.append("rollback", message.request, note)
            staged.keep(())
        _write_transcript(party)
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except RunError as error:
        raise not_written(error) from error
    if party.open is not None and party.open.request == message.request:
        _return(party)
    return Done(message.step)


@handles(Purge)
def purge(party: PassiveParty, message: Purge) -> Message:
    """Remove older versions, what was staged before this one, and the transcript of before."""
    _check_request(message.request)
    store = store_of(party)
    if message.version not in store.versions():
        raise PartyRefused(
            f"it has no version {message.version}, and purges nothing.", "wrong-request"
        )
    try:
        # What came later stays: the word to purge may come again after the next request.
        for shelf in (store, store.staged):
            shelf.keep(tuple(v for v in shelf.versions() if v >= message.version))
        if party.transcript is not None:
            party.transcript.clear()
        with writing(store.home):  # one that an earlier sitting recorded goes too
            (store.home / TRANSCRIPT).unlink(missing_ok=True)
        if party.ledger is not None:
            party.ledger.append("purge", message.request, {"version": message.version})
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except RunError as error:
        raise not_written(error) from error
    return Done(message.step)


@handles(Status)
def status(party: PassiveParty, message: Status) -> Message:
    """Tell where the party stands."""
    try:
        return Standing(
            message.step,
            versions=party.store.versions() if party.store else (),
            staged=staged_request(party),
            ledger=party.ledger.head() if party.ledger else "",
        )
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error


def staged_request(party: PassiveParty) -> str:
    """Return the request whose outcome waits on the party's disk, empty if none does."""
    if party.store is None or not party.store.staged.versions():
        return ""
    staged = party.store.staged
    try:
        return str(staged.facts(staged.versions()[-1])["request"])
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error


def _check_request(request: str) -> None:
    """Refuse a name that could be mistaken for anything but the name of a request."""
    if not (request.isascii() and request.isalnum() and len(request) <= MAX_REQUEST):
        raise PartyRefused(
            f"a request is named by 1 to {MAX_REQUEST} letters and digits, not {request[:40]!r}.",
            "wrong-request",
        )


def _is_flat(note: object) -> bool:
    """Tell whether a note is an object of plain values and of lists of them."""
    if not isinstance(note, dict):
        return False
    items = [item for v in note.values() for item in (v if isinstance(v, list) else [v])]
    return not any(isinstance(item, dict | list) for item in items)


def _return(party: PassiveParty) -> None:
    """Go back to the state from before the open request."""
    assert party.open is not None
    party.bottom.settle()
    party.bottom.load_state(party.open.before)
    party.open = None
    party.pending = None
    party.guard.reset()
