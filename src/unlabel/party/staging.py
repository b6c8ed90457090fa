"""How a passive party serves a request to forget: begin, stage, then commit or roll back, purge.

A party decides nothing here. It keeps the weights from before a request until it learns how that
ended, and every message may be repeated: after a crash the active party sends its decision again,
and a party that has carried it out already does nothing more.
"""

from __future__ import annotations

import json

from unlabel.config import OptimiserSettings
from unlabel.errors import PartyRefused, SettingsError, refusal_of
from unlabel.files import writing
from unlabel.party.passive import OpenRequest, PassiveParty
from unlabel.party.policy import DIVERGED, END_FIRST, check_name, require
from unlabel.party.protocols import handles
from unlabel.wire import (
    BeginRequest,
    Commit,
    Done,
    Message,
    Purge,
    Rollback,
    Saved,
    Stage,
    Status,
    StatusReply,
)

#: The file in which a party keeps what crossed its boundary.
TRANSCRIPT = "transcript.jsonl"
NOTE = "the note of a request must be plain values, and lists of them, by name."


@handles(BeginRequest)
def begin_request(party: PassiveParty, message: BeginRequest) -> Message:
    """Open a request: keep the present state, then move with a fresh optimiser."""
    check_name("a request", message.request)
    _expect_staged(party, "")
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
    fits = 0 <= message.reinitialise <= 1 and message.steps >= 0
    require(fits, "it reinitialises a share from 0 to 1 of its weights, over 0 or more steps.")
    if party.open_request is None or party.open_request.request != message.request:
        party.budget.spend("requests", 1)
    if party.open_request is not None and party.open_request.request != message.request:
        _return(party)  # an earlier request that was given up without a message
    if party.open_request is None:
        state = {name: tensor.detach().clone() for name, tensor in party.bottom.state().items()}
        party.open_request = OpenRequest(message.request, state)
    if message.reinitialise:
        party.bottom.reinitialise(message.reinitialise)
    party.bottom.use_optimiser(settings, message.steps)
    party.guard.forget_norms()
    party.sent_embeddings = None
    return Done(message.step)


@handles(Stage)
def stage(party: PassiveParty, message: Stage) -> Message:
    """Keep the weights aside, without the optimiser, which would remember rows."""
    check_name("a request", message.request)
    party.guard.flush_checks()
    store, policy = party.required_store(), party.guard.policy
    _expect_staged(party, message.request)
    # A request whose end could not be noted is not begun: a ledger does not grow for ever.
    lines = len(party.ledger.entries()) if party.ledger is not None else 0
    full = f"its ledger holds {lines} lines, and `max_lines` of its policy allows no more."
    require(lines < policy.max_lines, full, "policy")
    note = _read_note(message.note)
    versions = store.versions()
    newest = max(versions, default=max(0, party.first_version - 1))
    require(
        message.version == newest + 1,
        f"a request is staged as the version that follows its newest, which is {newest}, and not "
        f"as {message.version}; where a training was interrupted, finish it first (unlabel train "
        f"--resume), else run `unlabel recover` to see where the parties stand.",
    )
    most = policy.max_versions
    require(len(versions) < most, f"it keeps {most} versions at most; purge first.", "policy")
    state = party.bottom.model_state()
    require(party.bottom.is_finite(), DIVERGED, "not-finite")
    features = party.bottom.features_digest()
    facts = {"features": features, "request": message.request, "note": note}
    digest = store.staged.save(message.version, state, facts)
    store.staged.retain((message.version,))
    party.flush_transcript()
    return Saved(message.step, digest)


@handles(Commit)
def commit(party: PassiveParty, message: Commit) -> Message:
    """Make the staged weights the party's version, and note it in the ledger."""
    check_name("a request", message.request)
    if party.store is not None:
        for store in (party.store.staged, party.store):  # before anything is touched
            exists = message.version in store.versions()
            fits = not exists or store.facts(message.version).get("request") == message.request
            require(fits, f"its version {message.version} is of another request.")
        party.store.adopt(message.version, message.digest)
        if party.ledger is not None:
            # A purge takes the weights away; their digests can still be attested.
            note = party.store.facts(message.version)["note"]
            kept = {"version": message.version, "weights": party.store.change(message.version)}
            party.ledger.append("commit", message.request, {**note, **kept})
        party.flush_transcript()
    # Another request may have been opened since; it stays open.
    if party.open_request is None or party.open_request.request == message.request:
        party.open_request = None
        party.bottom.end_request()
    return Done(message.step)


@handles(Rollback)
def rollback(party: PassiveParty, message: Rollback) -> Message:
    """Drop what a request staged; nothing happens where it staged nothing."""
    check_name("a request", message.request)
    if party.store is not None and staged_request(party) == message.request:
        staged = party.store.staged
        note = staged.facts(staged.versions()[-1])["note"]
        if party.ledger is not None:
            party.ledger.append("rollback", message.request, note)
        staged.retain(())
    party.flush_transcript()
    if party.open_request is not None and party.open_request.request == message.request:
        _return(party)
    return Done(message.step)


@handles(Purge)
def purge(party: PassiveParty, message: Purge) -> Message:
    """Remove older versions, what was staged before this one, and the transcript of before."""
    check_name("a request", message.request)
    store = party.required_store()
    exists = message.version in store.versions()
    require(exists, f"it has no version {message.version}, and purges nothing.")
    # What came later stays: the message may be repeated after the next request.
    for each in (store, store.staged):
        each.retain(tuple(v for v in each.versions() if v >= message.version))
    if party.transcript is not None:
        party.transcript.clear()
    with writing(store.home):  # one that an earlier process recorded goes too
        (store.home / TRANSCRIPT).unlink(missing_ok=True)
    if party.ledger is not None:
        party.ledger.append("purge", message.request, {"version": message.version})
    return Done(message.step)


@handles(Status)
def status(party: PassiveParty, message: Status) -> Message:
    """Tell which versions the party has, what it has staged and where its ledger ends."""
    return StatusReply(
        message.step,
        versions=party.store.versions() if party.store else (),
        staged=staged_request(party),
        ledger=party.ledger.head() if party.ledger else "",
    )


def staged_request(party: PassiveParty) -> str:
    """Return the request whose outcome waits on the party's disk, empty if none does."""
    versions = party.store.staged.versions() if party.store is not None else ()
    if party.store is None or not versions:
        return ""
    return str(party.store.staged.facts(versions[-1])["request"])


def _expect_staged(party: PassiveParty, request: str) -> None:
    """Refuse where another request than this one waits for its end."""
    staged = staged_request(party)
    require(
        staged in ("", request), f"request {staged[:40]} is staged; {END_FIRST}", "request-open"
    )


def _read_note(text: str) -> dict[str, object]:
    """Return the note of a request: an object of plain values and of lists of them."""
    try:
        note = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PartyRefused("the note of a request must be JSON.", "wrong-request") from error
    require(isinstance(note, dict), NOTE)
    items = [item for v in note.values() for item in (v if isinstance(v, list) else [v])]
    require(not any(isinstance(item, dict | list) for item in items), NOTE)
    return dict(note)


def _return(party: PassiveParty) -> None:
    """Go back to the state from before the open request."""
    assert party.open_request is not None
    party.bottom.end_request()
    party.bottom.load_state(party.open_request.before)
    party.open_request = party.sent_embeddings = None
    party.guard.reset()
