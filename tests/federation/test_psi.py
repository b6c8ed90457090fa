"""Private set intersection of two sets: exact, and the same as the plain library."""

from __future__ import annotations

import private_set_intersection.python as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unlabel.align import psi
from unlabel.align.psi import Receiver, Sender
from unlabel.errors import WireError

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), unique=True)


def found_in(asking: list[str], answering: list[str]) -> list[str]:
    """Return the ids that the asker finds."""
    asker, answerer = Receiver(asking), Sender(answering)
    positions = asker.common(answerer.setup, answerer.answer(asker.masked)).tolist()
    assert positions == sorted(positions)
    return [asking[place] for place in positions]


def rows(points: Tensor) -> list[bytes]:
    return [bytes(row) for row in points.tolist()]


@settings(max_examples=60, deadline=None)
@given(IDS, IDS)
def test_what_is_found_is_the_intersection(one: list[str], other: list[str]) -> None:
    there = set(other)
    assert found_in(one, other) == [text for text in one if text in there]


def plainly(asking: list[str], answering: list[str]) -> list[int]:
    """Return the positions that the library finds in one piece on one core."""
    client, server = plain.client.CreateWithNewKey(True), plain.server.CreateWithNewKey(True)
    response = server.ProcessRequest(client.CreateRequest(asking))
    setup = server.CreateSetupMessage(1e-9, len(asking), answering, plain.DataStructure.RAW)
    return sorted(client.GetIntersection(setup, response))


@pytest.mark.parametrize(("asking", "answering"), [(700, 500), (300, 900), (3, 900), (900, 3)])
def test_pieces_on_many_cores_find_what_one_piece_finds(
    monkeypatch: pytest.MonkeyPatch, asking: int, answering: int
) -> None:
    monkeypatch.setattr(psi, "PIECE", 64)
    monkeypatch.setattr(psi, "SMALL", 0)
    one = [f"person {number * 7919 % 1000}" for number in range(asking)]
    other = [f"person {number * 104729 % 1500}" for number in range(answering)]
    expected = plainly(one, other)
    assert 0 < len(expected) < max(asking, answering)
    for count in (1, 3):
        monkeypatch.setattr(psi, "cores", lambda count=count: count)
        assert found_in(one, other) == [one[place] for place in expected]


def test_progress_is_told_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psi, "PIECE", 100)
    monkeypatch.setattr(psi, "SMALL", 0)
    told: list[tuple[int, int, str]] = []
    ids = [str(number) for number in range(250)]
    asker = Receiver(ids, watch=lambda *what: told.append(what))
    assert told == [(n, 250, "masking ids") for n in (100, 200, 250)]
    told.clear()
    answerer = Sender(ids[:1], watch=lambda *what: told.append(what))
    response = answerer.answer(asker.masked)
    assert [what[2] for what in told] == ["masking ids"] + ["answering"] * 3
    told.clear()
    asker.common(answerer.setup, response)
    assert told[-1] == (250, 250, "matching ids")


def test_what_is_sent_is_sorted_and_never_the_same_twice() -> None:
    ids = [f"{number:04d}" for number in range(50)]
    sent = [rows(Receiver(ids).masked) for _ in range(2)] + [rows(Sender(ids).setup) for _ in "12"]
    for each in sent:
        assert each == sorted(each)
    assert len({point for each in sent for point in each}) == 4 * 50


def test_the_order_of_a_table_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one key, a table and the same table in another order send the same bytes."""
    key = plain.client.CreateWithNewKey(True).GetPrivateKeyBytes()
    same = plain.client.CreateFromKey(key, True), plain.server.CreateFromKey(key, True)
    monkeypatch.setattr(plain.client, "CreateWithNewKey", lambda *_: same[0])
    monkeypatch.setattr(plain.server, "CreateWithNewKey", lambda *_: same[1])
    ids = [f"{number:04d}" for number in range(50)]
    assert torch.equal(Receiver(ids).masked, Receiver(ids[::-1]).masked)
    assert torch.equal(Sender(ids).setup, Sender(ids[::-1]).setup)


def test_masked_ids_are_points_under_a_key_of_their_own() -> None:
    """The same id masked by two sides has two forms: without a key they cannot be compared."""
    one, other = Receiver(["ann", "bob"]), Receiver(["ann", "bob"])
    assert one.masked.shape == (2, psi.POINT)
    assert not set(rows(one.masked)) & set(rows(other.masked))
    # A key that is not the asker's finds nothing, though both sets are the same.
    answerer = Sender(["ann", "bob"])
    assert other.common(answerer.setup, answerer.answer(one.masked)).tolist() == []


@pytest.mark.parametrize("count", [1, 2])
def test_points_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(psi, "SMALL", 0)
    monkeypatch.setattr(psi, "cores", lambda: count)
    answerer = Sender(["ann"])
    for junk in (torch.zeros(3, 33, dtype=torch.uint8), torch.full((1, 33), 255).byte()):
        with pytest.raises(WireError):
            answerer.answer(junk)
        with pytest.raises(WireError):
            Receiver(["a"] * len(junk)).common(answerer.setup, junk)
    for shape in ((2, 32), (2, 34), (2, 0)):
        with pytest.raises(WireError):
            answerer.answer(torch.zeros(shape, dtype=torch.uint8))


def test_an_answer_to_another_question_is_refused() -> None:
    asker, answerer = Receiver(["ann", "bob"]), Sender(["bob"])
    response = answerer.answer(asker.masked)
    with pytest.raises(WireError):
        asker.common(answerer.setup, response[:1])
    assert asker.common(answerer.setup.flip(0), response).tolist() == [1]


def test_nobody_at_all_is_a_set_too() -> None:
    assert found_in([], ["ann"]) == []
    assert found_in(["ann"], []) == []
