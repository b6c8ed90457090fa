"""How a passive party answers each request of training."""

from __future__ import annotations

from unlabel.errors import CheckpointError, PartyRefused, RunError
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.passive import PassiveParty, Pending
from unlabel.party.protocols import handles
from unlabel.wire import (
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Keep,
    Message,
    Prepare,
    Restore,
    Save,
)


@handles(Describe)
def describe(party: PassiveParty, message: Describe) -> Message:
    """Tell the number of rows, the width of the embeddings and the versions on disk."""
    versions = party.store.versions() if party.store else ()
    return Description(message.step, len(party.bottom.tables["main"]), party.width, versions)


@handles(Prepare)
def prepare(party: PassiveParty, message: Prepare) -> Message:
    """Fit the scaling of the party's own features on the training rows."""
    if message.steps < 0:
        raise PartyRefused("a training cannot have fewer than 0 steps.")
    rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    party.guard.settle()
    party.bottom.prepare(rows, message.steps)
    return Done(message.step)


@handles(Embed)
def embed(party: PassiveParty, message: Embed) -> Message:
    """Send embeddings; in training, remember the way back until their gradients come."""
    if message.table not in party.bottom.tables:
        raise PartyRefused(f"it has no table '{message.table[:40]}'.")
    rows = party.guard.check_rows(message, len(party.bottom.tables[message.table]))
    try:
        embeddings = party.bottom.embed(
            rows, table=message.table, mode=message.mode, step=message.step
        )
    except CheckpointError as error:
        raise PartyRefused(str(error)) from error
    except (RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise PartyRefused(f"its bottom model fails on these rows ({first}).") from error
    if message.mode == "train":
        party.pending = Pending(message.step, embeddings)
    return Embeddings(message.step, embeddings.detach())


@handles(Gradients)
def descend(party: PassiveParty, message: Gradients) -> Message:
    """Carry the gradients through the bottom model and take one step of the optimiser."""
    pending = party.pending
    if pending is None or pending.step != message.step:
        raise PartyRefused(f"it has sent no embeddings to train on in step {message.step}.")
    values = party.guard.check_gradients(message, pending.embeddings)
    party.pending = None
    pending.embeddings.backward(values)
    party.bottom.descend(message.step)
    return Done(message.step)


@handles(Save)
def save(party: PassiveParty, message: Save) -> Message:
    """Keep the present state, unless a breach of the policy went into it."""
    party.guard.settle()
    store = _store(party)
    versions = store.versions()
    if message.version < 0:
        raise PartyRefused("versions are counted from 0.")
    if message.version not in versions and len(versions) >= party.guard.policy.max_versions:
        raise PartyRefused(f"it keeps {party.guard.policy.max_versions} versions at most.")
    try:
        store.save(message.version, party.bottom.state(), {})
        if party.transcript is not None:
            party.transcript.flush()
    except (CheckpointError, RunError) as error:
        raise PartyRefused(str(error)) from error
    return Done(message.step)


@handles(Restore)
def restore(party: PassiveParty, message: Restore) -> Message:
    """Return to a version on disk."""
    try:
        _store(party).restore(message.version, party.bottom.load_state)
    except CheckpointError as error:
        raise PartyRefused(str(error)) from error
    party.guard.reset()
    party.pending = None
    return Done(message.step)


@handles(Keep)
def keep(party: PassiveParty, message: Keep) -> Message:
    """Drop every version but those named; the last one is never dropped."""
    store = _store(party)
    if not set(message.versions) & set(store.versions()):
        raise PartyRefused("it has none of the versions to keep, and drops nothing.")
    store.keep(message.versions)
    return Done(message.step)


def _store(party: PassiveParty) -> CheckpointStore:
    if party.store is None:
        raise PartyRefused("it has no folder to keep versions in.")
    return party.store
