"""What a passive party does to its own weights and inputs beyond descending.

It sums how much each weight matters, makes inputs of its own, and changes its weights by those
sums. Nothing of it is sent to anybody, and its policy says whether it does so (`serves`).
"""

from __future__ import annotations

from collections.abc import Mapping

from unlabel.party.passive import PassiveParty
from unlabel.party.policy import check_name, require
from unlabel.party.protocols import handles
from unlabel.party.serving import refusing_failures, take_gradients
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Done,
    Message,
    SyntheticInputs,
    TransformWeights,
)

#: Sums a party keeps at a time; each is as large as its model.
MAX_SUMS = 4


@handles(AccumulateFisher)
def accumulate_fisher(party: PassiveParty, message: AccumulateFisher) -> Message:
    """Carry the gradients through the bottom model and add their squares to a sum."""
    require(party.open_request, "it sums gradients only for a request; open one first.")
    _check_name(message.sum_name, party.bottom.sums.named)
    require(message.weight > 0, "a sum takes gradients with a weight above 0.")
    of_inputs = party.sent_embeddings is not None and party.sent_embeddings.mode == "inputs"
    require(not of_inputs, "gradients of inputs say nothing about its weights.")
    sent, values = take_gradients(party, message)
    with refusing_failures(party, "cannot learn"):
        sent.embeddings.backward(values)
        party.bottom.accumulate_fisher(message.sum_name, message.weight)
    return Done(message.step)


@handles(AccumulateUpdates)
def accumulate_updates(party: PassiveParty, message: AccumulateUpdates) -> Message:
    """Add what the next step changes to a sum."""
    _check_name(message.sum_name, party.bottom.updates.named)
    party.bottom.accumulate_updates(message.sum_name)
    return Done(message.step)


@handles(SyntheticInputs)
def make_synthetic_inputs(party: PassiveParty, message: SyntheticInputs) -> Message:
    """Make inputs of the party's own, in place of those it made before."""
    _check_open(party, message.request)
    rows, most = message.rows, party.guard.policy.max_rows
    require(message.noise <= most, f"it makes up to {most} inputs.", "policy")
    positive = min(message.noise, message.rate, message.decay) >= 0
    require(positive, "it makes inputs in a number, at a rate and with a decay of 0 or more.")
    if len(rows):
        rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    require(bool(len(rows)) != bool(message.noise), "it makes copies of rows, or noise.")
    party.bottom.make_inputs(
        rows, message.noise, rule=message.rule, rate=message.rate, decay=message.decay
    )
    party.sent_embeddings = None
    return Done(message.step)


@handles(TransformWeights)
def transform_weights(party: PassiveParty, message: TransformWeights) -> Message:
    """Change the weights by the party's sums."""
    _check_open(party, message.request)
    positive = min(message.threshold, message.strength) >= 0
    require(positive, "it changes its weights by a threshold and a strength of 0 or more.")
    party.bottom.transform_weights(
        message.rule, message.sum_name, message.reference, message.threshold, message.strength
    )
    party.sent_embeddings = None
    return Done(message.step)


def _check_open(party: PassiveParty, request: str) -> None:
    is_open = party.open_request is not None and party.open_request.request == request
    require(is_open, "it does this only for a request that is open; open it first.")


def _check_name(name: str, known: Mapping[str, object]) -> None:
    check_name("a sum", name)
    require(name in known or len(known) < MAX_SUMS, f"it keeps {MAX_SUMS} sums at most.")
