"""What a passive party does to its own weights and inputs beyond descending.

None of it sends anything home: the party gathers how much each weight matters, makes inputs of its
own, and changes its weights by what it gathered. Its policy says whether it does (`serves`).
"""

from __future__ import annotations

from collections.abc import Mapping

from unlabel.errors import CheckpointError, PartyRefused, refusal_of
from unlabel.party.passive import PassiveParty
from unlabel.party.protocols import handles
from unlabel.party.serving import carried, own_model
from unlabel.party.staging import MAX_REQUEST
from unlabel.wire import Done, Draft, Message, Rewrite, Track, Weigh

#: Sums a party gathers at a time; each is as large as its model.
MAX_SUMS = 4


@handles(Weigh)
def weigh(party: PassiveParty, message: Weigh) -> Message:
    """Carry the gradients through the bottom model and note how much each weight matters."""
    if party.open is None:
        raise PartyRefused("it gathers only for a request; open one first.", "wrong-request")
    _check_name(message.into, party.bottom.sums.named)
    if message.weight <= 0:
        raise PartyRefused("what it gathers has a weight above 0.", "wrong-request")
    if party.pending is not None and party.pending.mode == "inputs":
        raise PartyRefused("gradients of inputs say nothing about its weights.", "wrong-request")
    pending, values = carried(party, message)
    with own_model(party):
        party.bottom.consider(pending.embeddings, values, message.into, message.weight)
    return Done(message.step)


@handles(Track)
def track(party: PassiveParty, message: Track) -> Message:
    """Add what the next step changes to a sum."""
    _check_name(message.into, party.bottom.moves.named)
    party.bottom.track(message.into)
    return Done(message.step)


@handles(Draft)
def draft(party: PassiveParty, message: Draft) -> Message:
    """Make inputs of the party's own, in place of those it made before."""
    _check_open(party, message.request)
    if not 0 <= message.noise <= party.guard.policy.max_rows or message.rate < 0:
        raise PartyRefused(
            f"it drafts up to {party.guard.policy.max_rows} rows, at a rate of 0 or more.",
            "policy" if message.noise > party.guard.policy.max_rows else "wrong-request",
        )
    rows = message.rows
    if len(rows):
        rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    if bool(len(rows)) == bool(message.noise) or message.decay < 0:
        raise PartyRefused(
            "it drafts copies of rows or noise, with a decay of 0 or more.", "wrong-request"
        )
    try:
        party.bottom.start_draft(
            rows,
            message.noise,
            rule=message.rule,
            rate=message.rate,
            decay=message.decay,
        )
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    party.pending = None
    return Done(message.step)


@handles(Rewrite)
def rewrite(party: PassiveParty, message: Rewrite) -> Message:
    """Change the weights by what was gathered."""
    _check_open(party, message.request)
    if message.threshold < 0 or message.strength < 0:
        raise PartyRefused(
            "it rewrites with a threshold and a strength of 0 or more.", "wrong-request"
        )
    try:
        party.bottom.rewrite(
            message.rule,
            message.by,
            message.against,
            threshold=message.threshold,
            strength=message.strength,
        )
    except CheckpointError as error:
        raise PartyRefused(str(error), refusal_of(error)) from error
    party.pending = None
    return Done(message.step)


def _check_open(party: PassiveParty, request: str) -> None:
    if party.open is None or party.open.request != request:
        raise PartyRefused(
            "it does this only for a request that is open; open it first.", "wrong-request"
        )


def _check_name(name: str, known: Mapping[str, object]) -> None:
    if not (name.isascii() and name.isalnum() and len(name) <= MAX_REQUEST):
        raise PartyRefused(
            f"a sum is named by 1 to {MAX_REQUEST} letters and digits.", "wrong-request"
        )
    if name not in known and len(known) >= MAX_SUMS:
        raise PartyRefused(f"it gathers {MAX_SUMS} sums at most.", "wrong-request")
