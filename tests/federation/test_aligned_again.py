"""A party with versions that is aligned again: the rows they were trained on, and no others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from federation.matching_parties import ANY, BANK, SHOP, answered, ids_of, make, refusal

from unlabel.align import Alignment, align
from unlabel.align.psi import Receiver, Sender
from unlabel.align.store import FILE
from unlabel.errors import PartyRefused
from unlabel.party import PassiveParty
from unlabel.wire import (
    BeginRequest,
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
    Restore,
    Save,
    Saved,
    Stage,
)

#: A feature of each person, which stays theirs wherever their row stands.
FIGURES = {"a": 3.0, "b": 1.0, "c": 4.0, "d": 1.5, "x": 9.0, "newcomer": 2.0, "e": 6.0}


def start(folder: Path, ids: Sequence[str] = SHOP, **changed: float) -> PassiveParty:
    return make("shop", ids, folder, figures={**FIGURES, **changed})


def meet(party: PassiveParty, bank: Sequence[str] = BANK) -> Alignment:
    return align(LocalTransport({"shop": party}), bank, ANY)


def train(folder: Path) -> tuple[Alignment, torch.Tensor]:
    """Align a party and keep a version; return the alignment and the embeddings of all rows."""
    party = start(folder)
    found = meet(party)
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    answered(party, Save(0, 1), Saved)
    return found, embeddings(party)


def embeddings(party: PassiveParty) -> torch.Tensor:
    return answered(party, Embed(0, torch.arange(4), "predict"), Embeddings).values


@pytest.mark.parametrize(
    ("what", "ids"),
    [
        ("another order", SHOP[::-1]),
        ("a lost file", SHOP),
        ("a newcomer", [*SHOP[:2], "newcomer", *SHOP[2:]]),
        ("one less whom nobody shares", SHOP[1:]),
    ],
)
def test_the_people_of_the_versions_are_taken_up_again(
    tmp_path: Path, what: str, ids: Sequence[str]
) -> None:
    first, before = train(tmp_path)
    if what == "a lost file":
        (tmp_path / FILE).unlink()
    restarted = start(tmp_path, ids)
    assert refusal(restarted, Restore(0, 1, "")) == "not-aligned"
    assert meet(restarted).digest == first.digest
    answered(restarted, Restore(0, 1, ""), Done)
    assert torch.equal(embeddings(restarted), before)
    # Kept anew: the next start needs nobody.
    third = start(tmp_path, ids)
    answered(third, Restore(0, 1, ""), Done)
    assert torch.equal(embeddings(third), before)


def test_versions_that_are_only_staged_bind_a_party_to_their_rows_too(tmp_path: Path) -> None:
    party = start(tmp_path)
    first = meet(party)
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    answered(party, BeginRequest(0, "9f", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0), Done)
    answered(party, Stage(0, "9f", 1, json.dumps({"mode": "open"})), Saved)
    restarted = start(tmp_path, SHOP[::-1])
    with pytest.raises(PartyRefused):
        meet(restarted, BANK[:3])
    assert meet(restarted).digest == first.digest


@pytest.mark.parametrize(
    ("ids", "changed"),
    [
        (["x", "d", "c", "b"], {}),  # one of the common people has left
        ([*SHOP, "e"], {}),  # a newcomer whom the bank has too
        (SHOP[::-1], {"b": 1.25}),  # another figure of one of them
        (SHOP[::-1], {"b": 1.5, "d": 1.0}),  # two have swapped theirs
    ],
)
def test_other_rows_or_other_values_are_not(
    tmp_path: Path, ids: Sequence[str], changed: dict[str, float]
) -> None:
    train(tmp_path)
    kept = (tmp_path / FILE).read_bytes()
    restarted = start(tmp_path, ids, **changed)
    with pytest.raises(PartyRefused):
        meet(restarted)
    assert restarted.people is not None
    assert restarted.people.digest == ""
    assert (tmp_path / FILE).read_bytes() == kept


def test_a_damaged_version_is_named_and_not_passed_by(tmp_path: Path) -> None:
    train(tmp_path)
    manifest = tmp_path / "versions" / "000001.json"
    manifest.write_text(manifest.read_text().replace('"features": "', '"features": "0'))
    with pytest.raises(PartyRefused, match=r"000001\.json"):
        meet(start(tmp_path, SHOP[::-1]))


def test_where_versions_are_no_digest_of_other_people_is_told(tmp_path: Path) -> None:
    """Nobody learns the digest of known ids and one more by moving the answers."""
    train(tmp_path)
    restarted = start(tmp_path)
    answered(restarted, Match(0, "main", Receiver(BANK).masked), Matched)
    offered = answered(restarted, Offer(0, "main"), Offered)
    side = Sender(["a", "b", "c"])
    response = side.answer(offered.masked).roll(1, 0)
    assert refusal(restarted, Common(0, "main", side.setup, response)) == "checkpoint"


def test_versions_belong_to_the_rows_they_were_trained_on(tmp_path: Path) -> None:
    party = make("shop", SHOP, tmp_path)
    transport = LocalTransport({"shop": party})
    first = align(transport, BANK, ANY)
    answered(party, Prepare(0, torch.arange(4), 1), Done)
    answered(party, Save(0, 1), Saved)
    # The same people once more are fine; others are not, and nothing changes.
    assert align(transport, BANK, ANY).digest == first.digest
    with pytest.raises(PartyRefused):
        align(transport, BANK[:3], ANY)
    assert party.people is not None
    assert party.people.digest == first.digest
    assert ids_of(party, SHOP) == ["a", "b", "c", "d"]
    answered(party, Restore(0, 1, ""), Done)
