"""Matching more ids than fit into one message: the same rows, digests and points in pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from federation.matching_parties import ANY, BANK, SHOP, answered, ids_of, make, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from unlabel.align import align, pieces, psi
from unlabel.align.psi import Receiver, Sender
from unlabel.config import Policy
from unlabel.errors import PartyRefused, WireError
from unlabel.party import PassiveParty
from unlabel.wire import (
    Aligned,
    Common,
    Done,
    Limits,
    LocalTransport,
    Match,
    Matched,
    Message,
    Offer,
    Offered,
    Transport,
    decode,
    encode,
)
from unlabel.wire.codec import DEFAULT_LIMITS, encoded_size

NONE = torch.zeros(0, 33, dtype=torch.uint8)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pieces of two points."""
    monkeypatch.setattr(pieces, "PIECE", 2)


def with_keys_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the n-th key that is drawn be the number n."""
    real, numbers = psi.library(), count(1)

    def fixed(side: Any) -> Any:
        def new(*options: Any) -> Any:
            return side.CreateFromKey(next(numbers).to_bytes(32, "big"), *options)

        return SimpleNamespace(CreateFromKey=side.CreateFromKey, CreateWithNewKey=new)

    names = ("Request", "Response", "ServerSetup", "DataStructure")
    fake = SimpleNamespace(
        client=fixed(real.client),
        server=fixed(real.server),
        **{name: getattr(real, name) for name in names},
    )
    monkeypatch.setattr(psi, "library", lambda: fake)


class Kept(LocalTransport):
    """Puts together what each party was sent and what it answered, by message and field."""

    def __init__(self, parties: Mapping[str, PassiveParty]) -> None:
        super().__init__(parties, encoded=True)
        self.points: dict[tuple[str, str, str], list[torch.Tensor]] = defaultdict(list)
        self.longest = 0

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        answers = super().exchange(requests)
        for part in (requests, answers):
            for party, message in part.items():
                for name, value in vars(message).items():
                    if isinstance(value, torch.Tensor):
                        self.points[party, type(message).__name__, name].append(value)
                        self.longest = max(self.longest, len(value))
        return answers

    def whole(self) -> dict[tuple[str, str, str], bytes]:
        return {key: torch.cat(all_).numpy().tobytes() for key, all_ in self.points.items()}


names = st.lists(st.sampled_from([f"p{n}" for n in range(12)]), min_size=1, unique=True)


@settings(max_examples=8)
@given(bank=names, shop=names, gym=names, piece=st.integers(1, 13))
def test_pieces_of_any_size_are_the_whole_bit_for_bit(
    bank: list[str], shop: list[str], gym: list[str], piece: int
) -> None:
    everybody = ["all", *bank], ["all", *shop], ["all", *gym]
    found = []
    for size in (pieces.PIECE, piece):
        with pytest.MonkeyPatch.context() as patch:
            with_keys_in_order(patch)
            patch.setattr(pieces, "PIECE", size)
            parties = {"shop": make("shop", everybody[1]), "gym": make("gym", everybody[2])}
            kept = Kept(parties)
            alignment = align(kept, everybody[0], ANY)
            assert kept.longest <= size
            rows = {
                name: ids_of(party, everybody[n])
                for n, (name, party) in enumerate(parties.items(), 1)
            }
            facts = alignment.digest, alignment.sizes, alignment.pairwise
            found.append((alignment.positions.tolist(), facts, rows, kept.whole()))
    assert found[0] == found[1]
    common = sorted(set.intersection(*map(set, everybody)))
    assert [everybody[0][place] for place in found[1][0]] == common


class Narrow(Transport):
    """Reads no message of more than some bytes, at either end."""

    def __init__(self, party: PassiveParty, limits: Limits) -> None:
        super().__init__(["shop"])
        self._party = party
        self._limits = party.limits = limits

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        return {p: decode(self._party.serve(encode(m)), self._limits) for p, m in requests.items()}


def test_the_limit_on_a_message_caps_no_matching(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 ids of 33 bytes do not fit twice into 8 KiB, as 10,000,000 do not into 256 MiB."""
    limits = Limits(message=2**13)
    bank, shop = [f"p{n}" for n in range(300)], [f"p{n}" for n in range(50, 350)]
    with pytest.raises(PartyRefused, match="over the limit of 8192"):
        align(Narrow(make("shop", shop), limits), bank, ANY)
    monkeypatch.setattr(pieces, "PIECE", 100)
    party = make("shop", shop)
    assert len(align(Narrow(party, limits), bank, ANY)) == 250
    assert ids_of(party, shop) == sorted(f"p{n}" for n in range(50, 300))


def test_no_number_of_ids_makes_a_message_that_is_too_large() -> None:
    points = torch.empty(pieces.PIECE, 33, dtype=torch.uint8)
    for message in (
        Match(0, "main", points, 10**9, 10**9),
        Matched(0, points, points, 10**9),
        Offered(0, points, 10**9),
        Common(0, "main", points, points, 10**9, 10**9),
    ):
        assert encoded_size(message) < DEFAULT_LIMITS.message / 16
    assert pieces.MOST >= 10_000_000


@pytest.mark.usefixtures("small")
def test_a_party_shows_nothing_of_its_ids_before_all_are_asked_about() -> None:
    party, masked = make("shop", SHOP, policy=Policy(min_common=3)), Receiver(BANK).masked
    for first in (0, 2):
        piece = masked[first : first + 2]
        matched = answered(party, Match(0, "main", piece, first, 3 - first), Matched)
        assert (len(matched.setup), len(matched.response), matched.more) == (0, 2, 0)
        assert refusal(party, Offer(0, "main")) == "wrong-request"
    told = [answered(party, Match(0, "main", masked[4:], 4, 0), Matched)]
    while told[-1].more:
        assert refusal(party, Offer(0, "main")) == "wrong-request"
        told.append(answered(party, Match(0, "main", NONE, 5, 0), Matched))
    assert [(len(each.setup), each.more) for each in told] == [(2, 3), (2, 1), (1, 0)]
    answered(party, Offer(0, "main"), Offered)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("first", "count", "more", "code"),
    [
        (0, 2, -1, "wrong-request"),
        (-2, 2, 5, "wrong-request"),
        (4, 1, 0, "wrong-request"),  # two are missing
        (2, 2, 4, "policy"),  # more in all than the party takes
        (2, 2, 0, "wrong-request"),  # fewer in all than was said
        (2, 1, 0, "policy"),
    ],
)
def test_pieces_that_do_not_follow_end_a_match(
    first: int, count: int, more: int, code: str
) -> None:
    party = make("shop", SHOP, policy=Policy(min_common=4, max_ids=5))
    masked = Receiver(BANK).masked
    answered(party, Match(0, "main", masked[:2], 0, 3), Matched)
    assert refusal(party, Match(0, "main", masked[:count], first, more)) == code
    # The right piece comes too late, also that of another table.
    assert refusal(party, Match(0, "main", masked[2:4], 2, 1)) == "wrong-request"
    assert refusal(party, Offer(0, "main")) == "wrong-request"


@pytest.mark.usefixtures("small")
def test_pieces_of_an_answer_hold_no_more_than_was_offered() -> None:
    def offered() -> tuple[PassiveParty, torch.Tensor]:
        party = make("shop", SHOP)
        align(LocalTransport({"shop": party}), BANK, ANY)  # and once more:
        for first in (0, 2, 4):
            piece = Receiver(BANK).masked[:2] if first < 4 else Receiver(BANK).masked[:1]
            more = 5 - first - len(piece)
            while answered(party, Match(0, "main", piece, first, more), Matched).more:
                piece, first = NONE, 5
        offers = [answered(party, Offer(0, "main", first), Offered) for first in (0, 2, 4)]
        assert [each.more for each in offers] == [3, 1, 0]
        return party, torch.cat([each.masked for each in offers])

    side = Sender(["a", "b", "c", "d"])
    party, masked = offered()
    assert refusal(party, Offer(0, "main", 2)) == "wrong-request"
    response = side.answer(masked)
    answered(party, Common(0, "main", side.setup[:2], response[:2], 0, 3), Done)
    answered(party, Common(0, "main", side.setup[2:], response[2:4], 2, 1), Done)
    assert answered(party, Common(0, "main", NONE, response[4:], 4, 0), Aligned).rows == 4
    assert ids_of(party, SHOP) == ["a", "b", "c", "d"]
    for wrong, code in (
        (Common(0, "main", NONE, response[2:4], 3, 0), "wrong-request"),
        (Common(0, "main", side.setup, response[2:4], 2, 1), "wrong-request"),
        (Common(0, "main", NONE, response[2:4], 2, 7), "unknown-message"),
        (Common(0, "main", NONE, NONE, 2, 3), "unknown-message"),
    ):
        party, masked = offered()
        response = side.answer(masked)
        answered(party, Common(0, "main", side.setup[:2], response[:2], 0, 3), Done)
        assert refusal(party, wrong) == code
        # The key went with it.
        assert refusal(party, Common(0, "main", NONE, response[2:], 2, 0)) == "wrong-request"


@pytest.mark.parametrize("more", [-1, 1, 2**40])
def test_a_partner_whose_pieces_do_not_end_is_named(more: int) -> None:
    class Endless(PassiveParty):
        def handle(self, message: Message) -> Message:
            if isinstance(message, Match) and message.first:
                return Matched(0, NONE, NONE, more)
            answer = super().handle(message)
            assert isinstance(answer, Matched)
            return Matched(0, answer.setup, answer.response, more)

    party = make("shop", SHOP)
    party.__class__ = Endless
    with pytest.raises(WireError, match="'shop'"):
        align(LocalTransport({"shop": party}), BANK, ANY)
