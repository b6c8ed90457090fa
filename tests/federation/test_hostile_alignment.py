"""An active party that does not keep to the steps of an alignment."""

from __future__ import annotations

import pytest
import torch
from federation.matching_parties import ANY, BANK, SHOP, answered, ids_of, make, refusal
from torch import Tensor

from unlabel.align import align
from unlabel.align.psi import Receiver, Sender
from unlabel.config import SERVES, Policy
from unlabel.party import PassiveParty
from unlabel.wire import (
    Aligned,
    Common,
    Done,
    Embed,
    Embeddings,
    LocalTransport,
    Match,
    Matched,
    Offer,
    Offered,
    Prepare,
)


def trained(policy: Policy) -> PassiveParty:
    """Return a party that shares a, b, c and d with the bank, and has x beside."""
    party = make("shop", SHOP, policy=policy)
    align(LocalTransport({"shop": party}), BANK, ANY)
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    return party


def trained_under(policy: Policy) -> PassiveParty:
    """Return the same party with a policy that its owner set after the rows were aligned."""
    party = trained(Policy(min_common=3))
    party.guard.policy = policy
    return party


def moved_on(masked: Tensor, known: list[str], table: str = "new") -> Common:
    """Return answers to an offer that are true but for their place, which is the next one's."""
    side = Sender(known)
    return Common(0, table, side.setup, side.answer(masked).roll(1, 0))


def asked_for(known: list[str], table: str = "new") -> Match:
    return Match(0, table, Receiver(known).masked)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(min_common=3, max_new=0),
        Policy(min_common=3, serves=tuple(kind for kind in SERVES if kind != "Match")),
    ],
)
def test_who_matches_no_new_people_takes_none_up_by_the_later_steps(policy: Policy) -> None:
    """What leads to rows under the default policy leads to none under this one."""
    for allowed, party in ((True, trained(Policy(min_common=3))), (False, trained_under(policy))):
        matched = party.handle(asked_for(["d"]))
        offered = party.handle(Offer(0, "new"))
        assert isinstance(matched, Matched) is isinstance(offered, Offered) is allowed
        masked = offered.masked if isinstance(offered, Offered) else Receiver(SHOP).masked
        assert isinstance(party.handle(moved_on(masked, ["d"])), Aligned) is allowed
        assert ("new" in party.bottom.tables) is allowed
        asked = party.handle(Embed(0, torch.arange(1), "predict", "new"))
        assert isinstance(asked, Embeddings) is allowed


def test_no_more_rows_are_taken_than_were_asked_about() -> None:
    party = trained(Policy(min_common=3, max_new=2))
    answered(party, asked_for(["d", "c"]), Matched)
    offered = answered(party, Offer(0, "new"), Offered)
    assert refusal(party, moved_on(offered.masked, ["b", "c", "d"])) == "wrong-request"
    assert "new" not in party.bottom.tables
    # The same of rows to train on: four of them stand, and two cannot become five.
    party.guard.policy = Policy(min_common=2)
    answered(party, asked_for(["d", "c"], "main"), Matched)
    offered = answered(party, Offer(0, "main"), Offered)
    assert refusal(party, moved_on(offered.masked, SHOP, "main")) == "wrong-request"
    assert ids_of(party, SHOP) == ["a", "b", "c", "d"]


def test_a_match_opens_one_alignment_of_its_own_table() -> None:
    party = trained(Policy(min_common=3, max_new=2))
    answered(party, asked_for(["d", "c", "b"], "main"), Matched)
    assert refusal(party, Offer(0, "new")) == "wrong-request"
    answered(party, asked_for(["d"]), Matched)
    offered = answered(party, Offer(0, "new"), Offered)
    answered(party, moved_on(offered.masked, ["d"]), Aligned)
    assert refusal(party, Offer(0, "new")) == "wrong-request"
    # A match that is refused, or cannot be read, opens nothing.
    spoilt = Match(0, "new", torch.zeros(1, 33, dtype=torch.uint8))
    for refused in (asked_for([]), asked_for(["d", "c", "b"]), spoilt):
        refusal(party, refused)
        assert refusal(party, Offer(0, "new")) == "wrong-request"


def test_moved_answers_lead_to_a_stranger_but_not_to_the_digest_of_an_id() -> None:
    """What alignment.md says remains: the row of somebody else, of whom no id can be tried."""
    party = trained(Policy(min_common=3))
    taken = set()
    for _ in range(60):
        answered(party, asked_for(["d"]), Matched)
        offered = answered(party, Offer(0, "new"), Offered)
        answer = answered(party, moved_on(offered.masked, ["d"]), Aligned)
        assert (answer.rows, answer.digest) == (1, "")
        taken |= set(ids_of(party, SHOP, "new"))
    assert "x" in taken  # one of the four others every time: 0.75 ** 60 is no chance to miss her
