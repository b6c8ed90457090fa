"""Parties that find the rows they share: exactly those, in one order, and learning no more."""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from federation.matching_parties import (
    ALL,
    ANY,
    BANK,
    SHOP,
    answered,
    ids_of,
    make,
    make_all,
    refusal,
)

from unlabel._version import __version__
from unlabel.align import Alignment, People, align
from unlabel.align.normal import digest_of
from unlabel.align.psi import Receiver
from unlabel.align.store import FILE
from unlabel.config import AlignSettings, Policy
from unlabel.data import Features
from unlabel.data.dataset import Array
from unlabel.errors import DataError, PartyRefused, WireError
from unlabel.party import PassiveParty, describe
from unlabel.party.passive import OpenRequest
from unlabel.wire import (
    Attest,
    BeginRequest,
    Common,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    LocalTransport,
    Match,
    Matched,
    Message,
    Offer,
    Offered,
    Prepare,
    Recorder,
    Save,
    Status,
    StatusReply,
    decode,
    encode,
    kind_of,
)
from unlabel.wire.messages import PLAIN, tensors_of

# --- exact ---------------------------------------------------------------------------------


@pytest.mark.parametrize("encoded", [False, True])
def test_all_parties_end_with_the_common_rows_in_one_order(encoded: bool) -> None:
    parties = make_all()
    found = align(LocalTransport(parties, encoded=encoded), BANK, ANY)
    assert [BANK[place] for place in found.positions] == ["b", "c", "d"]
    for name, party in parties.items():
        assert ids_of(party, ALL[name]) == ["b", "c", "d"]
    assert found.digest == digest_of(["b", "c", "d"])
    assert (found.size, found.sizes) == (5, {"shop": 5, "gym": 6, "zoo": 5})
    assert found.pairwise == {"shop": 4, "gym": 4, "zoo": 4}
    assert (len(found), found.fresh) == (3, True)
    for told in describe(LocalTransport(parties)).values():
        assert (told.rows, told.aligned, told.agreement) == (3, found.digest, "agreed")
        assert told.software == f"unlabel {__version__}"


@pytest.mark.parametrize("seed", range(4))
def test_many_people_are_matched_as_sets_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = {
        name: [f"p{n:03d}" for n in rng.permutation(200)[: rng.integers(60, 200)]]
        for name in ("bank", "shop", "gym")
    }
    own = tables.pop("bank")
    parties = make_all(tables)
    found = align(LocalTransport(parties), own, ANY)
    expected = sorted(set(own).intersection(*tables.values()))
    assert [own[place] for place in found.positions] == expected
    assert all(ids_of(party, tables[name]) == expected for name, party in parties.items())
    assert found.pairwise == {name: len(set(own) & set(ids)) for name, ids in tables.items()}


def test_ids_are_compared_in_their_normal_form() -> None:
    settings = AlignSettings(smallest=1, case="fold", unicode="NFKC", trim="all")
    ids = ["ANN@x.org", "\uff10 07"]
    people = People(ids, lambda positions: Features(torch.zeros(len(positions), 1)))
    assert people.ids == ids
    people = People(ids, people.take, settings=settings)
    party = make("shop", ["none"])
    party.people = people
    found = align(LocalTransport({"shop": party}), ["007 ", "ann@X.org"], settings)
    assert len(found) == 2
    assert people.positions.tolist() == [1, 0]


# --- no more than that ---------------------------------------------------------------------


def seen(
    bank: Sequence[str], tables: Mapping[str, Sequence[str]] = ALL
) -> dict[str, list[Message]]:
    """Return every message that each passive party receives while rows are aligned."""
    received: dict[str, list[Message]] = {name: [] for name in tables}

    class Listening(LocalTransport):
        def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
            for name, request in requests.items():
                received[name].append(decode(encode(request)))
            return super().exchange(requests)

    align(Listening(make_all(tables)), bank, ANY)
    return received


def sizes(messages: Sequence[Message]) -> list[int]:
    return [len(encode(message)) for message in messages]


def points(messages: Sequence[Message]) -> list[bytes]:
    """Return the masked ids in messages, one after the other."""
    tensors = [tensor for message in messages for tensor in tensors_of(message).values()]
    return [bytes(row) for tensor in tensors for row in tensor.tolist()]


def test_a_partner_sees_of_other_peoples_ids_only_how_many_there_are() -> None:
    one, other = seen(BANK), seen(["c", "q", "d", "b", "w"])  # a and e, or q and w beside
    for name in ALL:
        assert sizes(one[name]) == sizes(other[name])
        # Without tensors the messages are the same to the last byte.
        assert plain(one[name]) == plain(other[name])
    more = seen([*BANK, "new"])
    for name, ids in ALL.items():
        assert len(points(one[name])) == len(BANK) + 3 + len(ids)
        assert len(points(more[name])) == len(BANK) + 1 + 3 + len(ids)


def plain(messages: Sequence[Message]) -> list[tuple[str, dict[str, object]]]:
    return [
        (kind_of(message), {name: getattr(message, name) for name in PLAIN[kind_of(message)]})
        for message in messages
    ]


def test_nothing_that_is_seen_comes_twice_since_keys_are_new() -> None:
    one, second = seen(BANK), seen(BANK)
    for name in ALL:
        assert len(set(points(one[name]))) == len(points(one[name]))
        assert not set(points(one[name])) & set(points(second[name]))


def test_a_partner_does_not_learn_whom_two_others_share() -> None:
    """The bank shares e with the zoo alone; whether it does changes nothing that anybody sees."""
    without = {**ALL, "zoo": ["d", "q", "c", "z", "b"]}
    one, other = seen(BANK), seen(BANK, without)
    for name in ALL:
        assert sizes(one[name]) == sizes(other[name])
        assert plain(one[name]) == plain(other[name])


def test_every_message_of_an_alignment_is_one_of_three_and_carries_no_id() -> None:
    long = {name: [f"person-{i}" for i in ids] for name, ids in ALL.items()}
    recorder = Recorder(LocalTransport(make_all(long)), keep_tensors=True)
    align(recorder, [f"person-{i}" for i in BANK], ANY)
    for name, transcript in recorder.transcripts.items():
        kinds = [(entry.direction, entry.kind) for entry in transcript.entries]
        assert kinds == [
            *(("received", "Match"), ("sent", "Matched")),
            *(("received", "Offer"), ("sent", "Offered")),
            *(("received", "Common"), ("sent", "Aligned")),
        ]
        rows = [{field: shape[0] for field, shape in e.shapes.items()} for e in transcript.entries]
        own = len(ALL[name])
        assert rows[:5] == [
            *({"masked": 5}, {"setup": own, "response": 5}, {}),
            *({"masked": own}, {"setup": 3, "response": own}),
        ]
        for entry in transcript.entries:
            assert b"person" not in b"".join(t.numpy().tobytes() for t in entry.tensors.values())


# --- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bank", "smallest", "said"),
    [
        (["q", "w"], 1, "no id in common (shared with 'shop' 0, 'gym' 0, 'zoo' 0)"),
        (["e", "y1", "x"], 1, "no id in common (shared with 'shop' 1, 'gym' 1, 'zoo' 1)"),
        (BANK, 4, "Expected at least 4 rows that all parties share but found 3"),
    ],
)
def test_too_few_common_rows_end_it_before_a_partner_learns_anything(
    bank: list[str], smallest: int, said: str
) -> None:
    parties = make_all()
    recorder = Recorder(LocalTransport(parties))
    with pytest.raises(DataError) as caught:
        align(recorder, bank, AlignSettings(smallest=smallest))
    assert said in str(caught.value)
    for name, transcript in recorder.transcripts.items():
        assert [entry.kind for entry in transcript.entries] == ["Match", "Matched"]
        people = parties[name].people
        assert people is not None
        assert people.digest == ""


def test_a_party_that_is_not_aligned_serves_no_rows() -> None:
    party = make("shop", SHOP)
    told = answered(party, Describe(0), Description)
    assert (told.rows, told.aligned) == (0, "")
    answered(party, Status(0), StatusReply)
    assert refusal(party, Attest(0, "9f")) == "wrong-request"
    for message in (
        Prepare(0, torch.arange(1), 1),
        Embed(0, torch.arange(1), "predict"),
        Save(0, 1),
        BeginRequest(0, "9f", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0),
    ):
        assert refusal(party, message) == "not-aligned"
    align(LocalTransport({"shop": party}), BANK, ANY)
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    answered(party, Embed(0, torch.arange(4), "predict"), Embeddings)


def test_a_partners_policy_is_heard() -> None:
    """Its own smallest number of rows, most ids and most new people."""
    strict = make("shop", SHOP, policy=Policy(min_common=5))
    with pytest.raises(PartyRefused, match="min_common"):
        align(LocalTransport({"shop": strict}), BANK, ANY)
    assert strict.people is not None
    assert strict.people.digest == ""
    with pytest.raises(PartyRefused):
        align(LocalTransport({"shop": strict}), BANK[:4], ANY)  # a search for single people
    narrow = LocalTransport({"shop": make("shop", SHOP, policy=Policy(max_ids=4, min_common=1))})
    with pytest.raises(PartyRefused, match="max_ids"):
        align(narrow, BANK, ANY)
    closed = LocalTransport({"shop": make("shop", SHOP, policy=Policy(min_common=1, max_new=0))})
    align(closed, BANK, ANY)
    with pytest.raises(PartyRefused):
        align(closed, ["a"], ANY, table="new")


def test_requests_out_of_order_or_of_another_table_are_refused() -> None:
    party = make("shop", SHOP)
    none = torch.zeros(0, 33, dtype=torch.uint8)
    asked = Match(0, "main", Receiver(BANK).masked)
    assert refusal(party, Offer(0, "main")) == "wrong-request"
    answered(party, asked, Matched)
    assert refusal(party, Offer(0, "new")) == "wrong-request"
    five = answered(party, Offer(0, "main"), Offered)
    # One offer a match.
    assert refusal(party, Offer(0, "main")) == "wrong-request"
    assert refusal(party, Common(0, "new", none, none)) == "wrong-request"
    assert refusal(party, Common(0, "main", none, five.masked[:4])) == "unknown-message"
    # The key went with the failed attempt.
    assert refusal(party, Common(0, "main", none, five.masked)) == "wrong-request"
    for table in ("public", "synthetic", "", "../x"):
        assert refusal(party, Offer(0, table)) == "wrong-request"
        assert refusal(party, Match(0, table, five.masked)) == "wrong-request"
    assert (
        refusal(party, Match(0, "main", torch.zeros(2, 33, dtype=torch.uint8))) == "unknown-message"
    )
    nobody = make("shop", SHOP)
    nobody.people = None
    assert refusal(nobody, Offer(0, "main")) == "wrong-request"


def test_a_partner_that_asks_about_people_it_does_not_have_is_named() -> None:
    class Curious(PassiveParty):
        def handle(self, message: Message) -> Message:
            answer = super().handle(message)
            if isinstance(answer, Offered):
                return Offered(0, torch.cat([answer.masked, answer.masked[:1]]))
            return answer

    party = make("shop", SHOP)
    party.__class__ = Curious
    with pytest.raises(WireError, match="'shop'"):
        align(LocalTransport({"shop": party}), BANK, ANY)


@pytest.mark.parametrize("kind", [Matched, Offered])
def test_a_partner_that_sends_something_else_than_masked_ids_is_named(kind: type[Message]) -> None:
    class Broken(PassiveParty):
        def handle(self, message: Message) -> Message:
            answer = super().handle(message)
            if type(answer) is kind:
                spoilt = {name: torch.zeros_like(t) for name, t in tensors_of(answer).items()}
                return kind(0, **spoilt)
            return answer

    parties = make_all()
    parties["gym"].__class__ = Broken
    with pytest.raises(WireError, match="'gym'"):
        align(LocalTransport(parties), BANK, ANY)


def test_a_partner_that_compares_ids_in_another_way_is_named() -> None:
    party = make("shop", SHOP)

    class Folding(People):
        def digest_at(self, positions: Array) -> str:
            return digest_of(["other"])

    assert isinstance(party.people, People)
    party.people.__class__ = Folding
    with pytest.raises(WireError, match="`align`"):
        align(LocalTransport({"shop": party}), BANK, ANY)


# --- what is kept --------------------------------------------------------------------------


def test_an_alignment_outlives_the_process_on_both_sides(tmp_path: Path) -> None:
    def meet(bank: Sequence[str], shop: Sequence[str]) -> tuple[Alignment, Recorder]:
        party = make("shop", shop, tmp_path / "shop")
        recorder = Recorder(LocalTransport({"shop": party}))
        return align(recorder, bank, ANY, folder=tmp_path / "bank"), recorder

    first, _ = meet(BANK, SHOP)
    assert stat.S_IMODE((tmp_path / "shop" / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "bank" / FILE).stat().st_mode) == 0o600
    second, recorder = meet(BANK, SHOP)
    assert not second.fresh
    assert second.positions.tolist() == first.positions.tolist()
    assert (second.digest, second.sizes) == (first.digest, {"shop": 5})
    assert [entry.kind for entry in recorder.transcripts["shop"].entries] == [
        *("Describe", "Description")
    ]
    # A number that was raised since holds all the same.
    with pytest.raises(DataError):
        align(
            LocalTransport({"shop": make("shop", SHOP, tmp_path / "shop")}),
            BANK,
            AlignSettings(smallest=9),
            folder=tmp_path / "bank",
        )
    # Other people at the bank, or at the shop: everybody is asked again.
    assert meet([*BANK, "x"], SHOP)[0].fresh
    assert meet([*BANK, "x"], SHOP[1:])[0].fresh


def test_a_party_with_another_table_is_not_aligned_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    align(LocalTransport({"shop": make("shop", SHOP, tmp_path)}), BANK, ANY)
    second = make("shop", SHOP, tmp_path)
    assert ids_of(second, SHOP) == ["a", "b", "c", "d"]
    other = make("shop", SHOP[::-1], tmp_path)
    assert other.people is not None
    assert other.people.digest == ""
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "made for other ids" in caplog.text
    assert refusal(other, Embed(0, torch.arange(1), "predict")) == "not-aligned"


def test_an_open_request_is_in_the_way() -> None:
    party = make("shop", SHOP)
    align(LocalTransport({"shop": party}), BANK, ANY)
    party.open_request = OpenRequest("9f", {})
    with pytest.raises(PartyRefused):
        align(LocalTransport({"shop": party}), BANK[:3], ANY)


def test_new_people_are_matched_to_be_predicted_and_not_kept(tmp_path: Path) -> None:
    party = make("shop", SHOP, tmp_path, Policy(min_common=3))
    transport = LocalTransport({"shop": party})
    first = align(transport, BANK, ANY)
    kept = (tmp_path / FILE).read_bytes()
    found = align(transport, ["nobody", "x"], AlignSettings(smallest=4), table="new")
    assert found.positions.tolist() == [1]
    assert ids_of(party, SHOP, "new") == ["x"]
    assert (tmp_path / FILE).read_bytes() == kept
    assert ids_of(party, SHOP) == ["a", "b", "c", "d"]
    assert party.people is not None
    assert party.people.digest == first.digest
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    answered(party, Embed(0, torch.arange(1), "predict", "new"), Embeddings)
    assert refusal(party, Embed(0, torch.arange(1), "train", "new")) == "wrong-request"
    with pytest.raises(DataError):
        align(transport, ["nobody"], ANY, table="new")


def test_a_match_alone_changes_nothing_at_a_party() -> None:
    party = make("shop", SHOP)
    align(LocalTransport({"shop": party}), BANK, ANY)
    before = party.people
    answered(party, Match(0, "main", Receiver(BANK).masked), Matched)
    answered(party, Offer(0, "main"), Offered)
    assert party.people is before
    assert ids_of(party, SHOP) == ["a", "b", "c", "d"]
