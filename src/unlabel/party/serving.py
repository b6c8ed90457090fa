"""How a passive party answers each request of training."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from unlabel._version import __version__
from unlabel.errors import CheckpointError, PartyRefused, why
from unlabel.party.bottom import SYNTHETIC
from unlabel.party.passive import RECEIVED, PassiveParty, SentEmbeddings
from unlabel.party.policy import DIVERGED, END_FIRST, require
from unlabel.party.protocols import handles
from unlabel.party.purged import decided_version, expect_purged, purged_version
from unlabel.wire import (
    AccumulateFisher,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Prepare,
    Restore,
    RetainVersions,
    Save,
    Saved,
)

log = logging.getLogger("unlabel.party")

#: Tables whose rows may move the weights.
TRAINABLE = ("main", "public", SYNTHETIC)
RETURN = "have all return to one version first (`unlabel recover`)."
AHEAD = "does not follow it; run `unlabel recover` to see where the parties stand."
#: How embeddings are asked of a bottom that never sees a label: no other way leaves a trace in it.
BLIND_MODES = ("predict", "view", "pair")


@handles(Describe)
def describe(party: PassiveParty, message: Describe) -> Message:
    """Tell the number of rows, the width of the embeddings, the versions and what was agreed.

    Where its files do not fit its ledger, or that lacks a line, a backup was restored.
    """
    entries = party.ledger.entries() if party.ledger is not None else []
    if party.store is not None and party.ledger is not None:
        expect_purged(party.store, party.ledger)
    knows = not message.ledger or message.ledger in {entry.hash for entry in entries}
    return Description(
        step=message.step,
        rows=0 if party.is_unaligned else len(party.bottom.tables["main"]),
        width=party.width,
        versions=party.store.versions() if party.store else (),
        max_rows=party.guard.policy.max_rows,
        software=f"unlabel {__version__}",
        agreement=party.agreement,
        aligned=party.people.digest if party.people is not None else "",
        knows="yes" if knows else "no",
        decided=decided_version(entries),
        purged=purged_version(entries),
    )


@handles(Prepare)
def prepare(party: PassiveParty, message: Prepare) -> Message:
    """Fit the scaling of the party's own features on the training rows."""
    require(message.steps >= 0, "a training cannot have fewer than 0 steps.")
    rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    if party.agreed_steps is not None and party.open_request is None:
        most = party.agreed_steps(len(rows))
        agreed = f"it agreed to {most} steps over {len(rows)} rows at most, not {message.steps}."
        require(message.steps <= most, agreed, "policy")
        party.steps_left = message.steps
    party.guard.flush_checks()
    party.bottom.prepare(rows, message.steps)
    party.guard.forget_norms()
    return Done(message.step)


@handles(Embed)
def embed(party: PassiveParty, message: Embed) -> Message:
    """Send embeddings; in training, keep their graph until their gradients come."""
    step, mode, table = message.step, message.mode, message.table
    other = f"its weights stem from version {_named(party.base)}, not {message.version}; {RETURN}"
    require(message.version in (-1, party.base), other, "checkpoint")
    available = party.bottom.count(table)
    require(available, f"it has no table {table[:40]!r}.")
    can_train = mode == "predict" or table in TRAINABLE
    if mode in ("pair", "view"):
        can_train = table == "main"
    is_blind = party.label_free is not None and party.label_free.keeps
    require(not is_blind or mode in BLIND_MODES, "its bottom never learns with labels.", "policy")
    learning = mode != "pair" or party.bottom.own_contrast is not None
    require(learning, "it does not learn by views now.")
    require(can_train, f"it trains on its tables {', '.join(TRAINABLE)} and on no other.")
    can_move = mode != "inputs" or table == SYNTHETIC
    require(can_move, f"gradients move the inputs of its table '{SYNTHETIC}' and of no other.")
    rows = party.guard.check_rows(message, available)
    party.budget.spend("rows", rows.numel())
    with refusing_failures(party, "fails on these rows"):
        embeddings = party.bottom.embed(rows, table=table, mode=mode, step=step)
    asked_only = mode == "predict" and table not in TRAINABLE
    party.guard.check_embeddings(embeddings.detach(), asked_only=asked_only)
    if mode in ("predict", "view"):
        party.guard.flush_checks()  # what a device flagged is read where a wait costs little
    else:
        party.sent_embeddings = SentEmbeddings(step, embeddings, mode)
    return Embeddings(step, embeddings.detach())


@handles(Gradients)
def descend(party: PassiveParty, message: Gradients) -> Message:
    """Carry the gradients through the bottom model and take one step of the optimiser."""
    part = party.label_free
    is_final = part is not None and part.keeps and party.bottom.is_frozen
    require(not is_final, "its bottom is kept for good, and no gradient moves it.", "policy")
    sent, values = take_gradients(party, message)
    if part is not None and not party.bottom.is_frozen:
        part.received.add(values)
    with refusing_failures(party, "cannot learn"):
        if sent.mode == "inputs":
            party.bottom.move_inputs(sent.embeddings, values)
        else:
            party.bottom.learn(sent.embeddings, values, message.step)
    return Done(message.step)


def take_gradients(
    party: PassiveParty, message: Gradients | AccumulateFisher
) -> tuple[SentEmbeddings, Tensor]:
    """Return the embeddings that gradients are for, and gradients that break no rule."""
    sent = party.sent_embeddings
    if sent is None or sent.step != message.step:
        raise PartyRefused(
            f"it has sent no embeddings to train on in step {message.step}.", "wrong-request"
        )
    announced = party.steps_left if party.open_request is None else None
    done = "no training is announced, or it has taken all of its steps; announce another."
    require(announced is None or announced > 0 or party.bottom.is_label_free, done)
    values = party.guard.check_gradients(message, sent.embeddings)
    party.budget.spend("steps", 1)
    if announced is not None:
        party.steps_left = announced - 1
    party.sent_embeddings = None
    return sent, values


@contextlib.contextmanager
def refusing_failures(party: PassiveParty, failure: str) -> Iterator[None]:
    """Turn whatever the owner's own model raises into a refusal."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        log.exception("the bottom model of %s failed", party.name)
        raise PartyRefused(f"its bottom model {failure} ({why(error)}).", "failed") from error


@handles(Save)
def save(party: PassiveParty, message: Save) -> Message:
    """Keep the present state, unless a breach of the policy or a divergence went into it.

    Versions move by one: a number far ahead could never be followed by the label holder's own, and
    an older version is what all return to. The newest may be kept again, where the label holder
    was interrupted before it noted it.
    """
    party.guard.flush_checks()
    store = party.required_store()
    versions, staged = store.versions(), store.staged.versions()
    newest = party.newest_version()
    follows = message.version in (newest, newest + 1) and message.version >= party.lowest_version
    follows |= newest < 0 and message.version == 1  # the first is 0 or 1
    require(follows, f"its newest version is {_named(newest)}, and {message.version} {AHEAD}")
    # Its state would be half-done work, and the memory of another optimiser.
    require(party.open_request is None, f"a request is open; {END_FIRST}", "request-open")
    most = party.guard.policy.max_versions
    taken = len(versions) + len(staged)  # what is staged will need its place
    fits = message.version in versions or taken < most
    require(fits, f"it keeps {most} versions at most.", "policy")
    is_older = not staged or message.version < staged[-1]
    require(is_older, f"a request is staged as this version; {END_FIRST}", "request-open")
    state = party.bottom.state()
    require(party.bottom.is_finite(), DIVERGED, "not-finite")
    facts = {"features": party.bottom.features_digest(), **_received(party)}
    digest = store.save(message.version, state, facts)
    party.base = message.version
    party.flush_transcript()
    return Saved(message.step, digest)


def _named(version: int) -> str:
    """Return the number of a version as people count it: below 0 there is none."""
    return str(version) if version >= 0 else "none"


def _received(party: PassiveParty) -> dict[str, Any]:
    """Return which gradients reached a bottom while it was made without labels."""
    if party.label_free is None or party.bottom.is_frozen:
        return {}
    return party.label_free.received.facts()


@handles(Restore)
def restore(party: PassiveParty, message: Restore) -> Message:
    """Go to a version on disk, staged or not, if it is the one that was saved with the others."""
    version, digest = message.version, message.digest
    store = party.required_store().store_with(version)
    other = f"its version {version} is not the one that was saved with the others'."
    require(not digest or store.digest(version) == digest, other, "checkpoint")
    same_features = store.facts(version).get("features") == party.bottom.features_digest()
    changed = f"its features have changed since version {version} was saved."
    require(same_features, changed, "checkpoint")
    facts = store.facts(version)
    # One of the making of a bottom that is kept for good since: only its answer was lost.
    if not party.bottom.is_frozen or RECEIVED not in facts:
        if not party.bottom.is_label_free:
            party.bottom.end_request()
        store.restore(version, party.bottom.load_state)
    if party.label_free is not None and not party.bottom.is_frozen:
        party.label_free.received.load(facts)
    try:
        party.guard.flush_checks()
    except PartyRefused as breach:  # what was flagged on a device is noted before it is forgotten
        log.warning("%s returned to a version after a breach: %s", party.name, breach)
    party.guard.reset()
    party.sent_embeddings = party.open_request = None
    party.base = version
    return Done(message.step)


@handles(RetainVersions)
def retain_versions(party: PassiveParty, message: RetainVersions) -> Message:
    """Drop every version but those named; the last one is never dropped."""
    store = party.required_store()
    has_any = set(message.versions) & set(store.versions())
    require(has_any, "it has none of the versions to keep, and drops nothing.")
    store.retain(message.versions)
    party.flush_transcript()
    return Done(message.step)
