"""How a passive party answers each request of training."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from torch import Tensor

from unlabel._version import __version__
from unlabel.errors import CheckpointError, PartyRefused, RunError, refusal_of, why
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.draft import DRAFT
from unlabel.party.lateness import Pending
from unlabel.party.passive import PassiveParty
from unlabel.party.policy import DIVERGED
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
    Saved,
    Weigh,
)

log = logging.getLogger("unlabel.party")

#: Tables whose rows may move the weights.
TRAINABLE = ("main", "public", DRAFT)


@handles(Describe)
def describe(party: PassiveParty, message: Describe) -> Message:
    """Tell the number of rows, the width of the embeddings, the versions and what was agreed."""
    versions = party.store.versions() if party.store else ()
    return Description(
        step=message.step,
        rows=0 if party.waits else len(party.bottom.tables["main"]),
        width=party.width,
        versions=versions,
        max_rows=party.guard.policy.max_rows,
        software=f"unlabel {__version__}",
        agreed=party.agreed,
        aligned=party.people.digest if party.people is not None else "",
    )


@handles(Prepare)
def prepare(party: PassiveParty, message: Prepare) -> Message:
    """Fit the scaling of the party's own features on the training rows."""
    if message.steps < 0:
        raise PartyRefused("a training cannot have fewer than 0 steps.", "wrong-request")
    rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    party.guard.settle()
    if party.backlog.late:  # of a training that broke off, and nothing may be foreseen from it
        party.pending = None
    party.bottom.prepare(rows, message.steps)
    party.guard.forget_norms()
    return Done(message.step)


@handles(Embed)
def embed(party: PassiveParty, message: Embed) -> Message:
    """Send embeddings; in training, remember the way back until their gradients come."""
    available = party.bottom.count(message.table)
    if not available:
        raise PartyRefused(f"it has no table {message.table[:40]!r}.", "wrong-request")
    if message.mode != "predict" and message.table not in TRAINABLE:
        *most, last = TRAINABLE
        named = f"{', '.join(most)} and {last}"
        raise PartyRefused(f"it trains on its tables {named} and on no other.", "wrong-request")
    if message.mode == "inputs" and message.table != DRAFT:
        raise PartyRefused(
            f"gradients move the inputs of its table '{DRAFT}' and of no other.", "wrong-request"
        )
    rows = party.guard.check_rows(message, available)
    try:
        embeddings = party.bottom.embed(
            rows,
            table=message.table,
            mode=message.mode,
            step=message.step,
            ahead=len(party.backlog) if party.backlog.late else None,
        )
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except Exception as error:  # the owner's own model may raise anything
        log.exception("the bottom model of %s failed", party.name)
        raise PartyRefused(
            f"its bottom model fails on these rows ({why(error)}).", "failed"
        ) from error
    party.guard.check_embeddings(embeddings.detach())
    if message.mode == "predict":
        party.guard.settle()  # what a device flagged is read where a wait costs little
    else:
        party.pending = Pending(message.step, embeddings, message.mode)
    return Embeddings(message.step, embeddings.detach())


@handles(Gradients)
def descend(party: PassiveParty, message: Gradients) -> Message:
    """Carry the gradients through the bottom model and take one step of the optimiser."""
    pending, values = carried(party, message)
    with own_model(party):
        if pending.mode == "inputs":
            party.bottom.redraft(pending.embeddings, values)
        else:
            party.bottom.learn(pending.embeddings, values, message.step)
    return Done(message.step)


def carried(party: PassiveParty, message: Gradients | Weigh) -> tuple[Pending, Tensor]:
    """Return the embeddings that gradients are for, with gradients that break no rule."""
    pending = party.backlog.find(message.step)
    if pending is None:
        raise PartyRefused(
            f"it has sent no embeddings to train on in step {message.step}.", "wrong-request"
        )
    values = party.guard.check_gradients(message, pending.embeddings)
    party.backlog.take(message.step)
    return pending, values


@contextlib.contextmanager
def own_model(party: PassiveParty) -> Iterator[None]:
    """Turn whatever the owner's own model raises into a refusal."""
    try:
        yield
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except Exception as error:
        log.exception("the bottom model of %s failed", party.name)
        raise PartyRefused(f"its bottom model cannot learn ({why(error)}).", "failed") from error


@handles(Save)
def save(party: PassiveParty, message: Save) -> Message:
    """Keep the present state, unless a breach of the policy or a divergence went into it."""
    party.guard.settle()
    store = store_of(party)
    versions = store.versions()
    if message.version < 0:
        raise PartyRefused("versions are counted from 0.", "wrong-request")
    if party.open is not None:  # half-done work, and the memory of another optimiser
        raise PartyRefused("a request is open; commit it or roll it back first.", "request-open")
    staged = store.staged.versions()
    taken = len(versions) + len(staged)  # what is staged will need its place
    if message.version not in versions and taken >= party.guard.policy.max_versions:
        raise PartyRefused(
            f"it keeps {party.guard.policy.max_versions} versions at most.", "policy"
        )
    if staged and message.version >= staged[-1]:
        raise PartyRefused(
            "a request is staged as this version; commit it or roll it back first.", "request-open"
        )
    try:
        state = party.bottom.state()
        if not party.bottom.is_finite():
            raise PartyRefused(DIVERGED, "not-finite")
        facts = {"features": party.bottom.features_digest()}
        digest = store.save(message.version, state, facts)
        if party.transcript is not None:
            party.transcript.flush()
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    except RunError as error:
        raise not_written(error) from error
    return Saved(message.step, digest)


@handles(Restore)
def restore(party: PassiveParty, message: Restore) -> Message:
    """Go to a version on disk, staged or not, if it is the one that was saved with the others."""
    store = store_of(party)
    try:
        store = store.shelf_of(message.version)
        if message.digest and store.digest(message.version) != message.digest:
            raise PartyRefused(
                f"its version {message.version} is not the one that was saved with the others'.",
                "checkpoint",
            )
        if store.facts(message.version).get("features") != party.bottom.features_digest():
            raise PartyRefused(
                f"its features have changed since version {message.version} was saved.",
                "checkpoint",
            )
        party.bottom.settle()
        store.restore(message.version, party.bottom.load_state)
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    try:
        party.guard.settle()
    except PartyRefused as breach:  # what was flagged on a device is noted before it is forgotten
        log.warning("%s returned to a version after a breach: %s", party.name, breach)
    party.guard.reset()
    party.pending = None
    party.open = None
    return Done(message.step)


@handles(Keep)
def keep(party: PassiveParty, message: Keep) -> Message:
    """Drop every version but those named; the last one is never dropped."""
    store = store_of(party)
    if not set(message.versions) & set(store.versions()):
        raise PartyRefused(
            "it has none of the versions to keep, and drops nothing.", "wrong-request"
        )
    try:
        store.keep(message.versions)
        if party.transcript is not None:
            party.transcript.flush()
    except RunError as error:
        raise not_written(error) from error
    return Done(message.step)


def not_written(error: RunError) -> PartyRefused:
    """Return a refusal that says why, and not where on its disk the party keeps things."""
    log.error("%s", error)
    cause = error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) else "see its log"
    return PartyRefused(
        f"it cannot write to its own folder ({reason}); free some room there.", "not-written"
    )


def store_of(party: PassiveParty) -> CheckpointStore:
    """Return the party's store of versions, or refuse what needs one."""
    if party.store is None:
        raise PartyRefused("it has no folder to keep versions in.", "wrong-request")
    return party.store
