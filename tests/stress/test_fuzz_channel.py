"""The fuzz of the channel: a clean one passes, and faults that are put in are found."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from small_parties import make_kits, small_keys

from stress.fuzz_channel import FEDERATION, MOST, Ends, FuzzChannelSettings, measure, sealed
from unlabel.errors import SettingsError, WireError
from unlabel.remote.frames import PIECE, Frame, Kind
from unlabel.remote.hub import Hub
from unlabel.remote.hub_members import Member
from unlabel.remote.local_cluster import free_port
from unlabel.remote.responder import Responder

__all__ = ["small_keys"]  # a fixture for every test here


def say(text: str) -> None:
    """Report progress to nobody."""


def test_hostile_frames_do_nothing_that_is_not_allowed() -> None:
    found = measure(FuzzChannelSettings(count=1_500, seed=1), say)
    assert found["violations"] == []
    assert found["frames"] == 1_500
    assert min(found["taken"][what] for what in found["taken"]) > 5
    assert set(found["sessions"]) == {"party", "hub", "outside"}
    assert found["messages"] > 100


def test_no_more_than_a_frame_is_kept_however_much_comes_behind_an_unfinished_one(
    tmp_path: Path,
) -> None:
    make_kits(tmp_path, FEDERATION.replace("PORT", str(free_port())))
    ends = Ends(tmp_path, random.Random(0))
    try:
        hostile, own = ends.shaken()
        assert own.feed(sealed(hostile, struct.pack(">IBQQ", MOST, Kind.PING, 1, 1))) == []
        with pytest.raises(WireError, match="sends a frame of"):
            own.feed(sealed(hostile, b"\xff" * 8 * MOST))
        assert len(own._plain) <= MOST + PIECE
    finally:
        ends.close()


def test_a_hub_that_takes_any_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: Hub, member: Member, frame: Frame) -> None:
        member.pending = None

    monkeypatch.setattr(Hub, "_take", take)
    (first, *_) = measure(FuzzChannelSettings(count=500), say)["violations"]
    assert first["what"] == "took an answer to what was not asked"


def test_a_party_that_stumbles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(self: Responder, frame: Frame) -> Frame | None:
        return Frame(frame.kind, frame.body[: frame.body[0]])  # there may be none

    monkeypatch.setattr(Responder, "answer", stumble)
    found = measure(FuzzChannelSettings(count=200), say)["violations"]
    assert found[0]["party"] == "party"
    assert "IndexError" in found[0]["what"]


def test_a_fuzz_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="count"):
        FuzzChannelSettings(count=0)
