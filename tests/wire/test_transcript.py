"""The transcript: what a party saw, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from unlabel.errors import PartyRefused
from unlabel.party import PassiveParty
from unlabel.wire import (
    Describe,
    Embed,
    Gradients,
    LocalTransport,
    Message,
    Prepare,
    Recorder,
    Transcript,
    encode,
)
from unlabel.wire.transcript import BLOCK

MakeParties = Callable[..., dict[str, PassiveParty]]


def converse(recorder: Recorder) -> None:
    recorder.ask(Describe(0))
    recorder.ask(Prepare(0, torch.arange(20), 8))
    recorder.ask(Embed(7, torch.tensor([2, 5, 11]), "train"))
    gradients = {party: Gradients(7, torch.ones(3, 32)) for party in recorder.parties}
    recorder.tell({"mill": gradients["mill"]})


@pytest.mark.parametrize("encoded", [False, True])
def test_directions_steps_kinds_and_shapes_are_noted_in_order(
    make_parties: MakeParties, encoded: bool
) -> None:
    recorder = Recorder(LocalTransport(make_parties(), encoded=encoded))
    converse(recorder)
    noted = [(e.direction, e.step, e.kind, e.shapes) for e in recorder.transcripts["mill"].entries]
    assert noted == [
        ("received", 0, "Describe", {}),
        ("sent", 0, "Description", {}),
        ("received", 0, "Prepare", {"rows": [20]}),
        ("sent", 0, "Done", {}),
        ("received", 7, "Embed", {"rows": [3]}),
        ("sent", 7, "Embeddings", {"values": [3, 32]}),
        ("received", 7, "Gradients", {"values": [3, 32]}),
        ("sent", 7, "Done", {}),
    ]
    assert [e.kind for e in recorder.transcripts["zoo"].entries][-1] == "Embeddings"
    assert set(recorder.transcripts) == {"mill", "zoo", "bakery"}


def test_bytes_are_those_of_the_encoded_message(make_parties: MakeParties) -> None:
    sent: list[bytes] = []
    parties = make_parties()
    plain = parties["mill"].serve

    def tapped(data: bytes) -> bytes:
        answer = plain(data)
        sent.extend((data, answer))
        return answer

    parties["mill"].serve = tapped  # type: ignore[method-assign]
    recorder = Recorder(LocalTransport(parties, encoded=True))
    converse(recorder)
    transcript = recorder.transcripts["mill"]
    assert [entry.bytes for entry in transcript.entries] == [len(data) for data in sent]
    assert transcript.total_bytes("received") == sum(map(len, sent[::2]))
    assert transcript.total_bytes("sent") == sum(map(len, sent[1::2]))


def test_a_refusal_is_noted_too(make_parties: MakeParties) -> None:
    recorder = Recorder(LocalTransport(make_parties()))
    with pytest.raises(PartyRefused):
        recorder.ask(Embed(1, torch.arange(2), "train"))
    kinds = [entry.kind for entry in recorder.transcripts["bakery"].entries]
    assert kinds == ["Embed", "Refused"]


def test_a_party_notes_what_the_recorder_notes(make_parties: MakeParties) -> None:
    parties = make_parties()
    parties["mill"].transcript = Transcript()
    recorder = Recorder(LocalTransport(parties, encoded=True))
    converse(recorder)
    assert parties["mill"].transcript.entries == recorder.transcripts["mill"].entries


def test_tensors_are_kept_only_on_request_and_as_copies() -> None:
    values = torch.ones(2, 3, requires_grad=True)
    without, keeping = Transcript(), Transcript(keep_tensors=True)
    for transcript in (without, keeping):
        transcript.log("received", Gradients(0, values))
    with torch.no_grad():
        values.zero_()
    assert without.entries[0].tensors == {}
    kept = keeping.entries[0].tensors["values"]
    assert torch.equal(kept, torch.ones(2, 3))
    assert not kept.requires_grad


def test_a_recorder_keeps_tensors_only_on_request(make_parties: MakeParties) -> None:
    for keep in (False, True):
        recorder = Recorder(LocalTransport(make_parties()), keep_tensors=keep)
        converse(recorder)
        kept = [set(entry.tensors) for entry in recorder.transcripts["mill"].entries]
        values = [set(), set(), {"rows"}, set(), {"rows"}, {"values"}, {"values"}, set()]
        assert kept == (values if keep else [set()] * 8)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_file_grows_in_blocks_and_on_flush(tmp_path: Path) -> None:
    path = tmp_path / "mill" / "transcript.jsonl"
    transcript = Transcript(path=path, keep_tensors=True)
    for step in range(BLOCK - 1):
        transcript.log("received", Describe(step))
    assert not path.exists()
    transcript.log("received", Describe(BLOCK - 1))
    assert len(lines(path)) == BLOCK
    transcript.log("sent", Gradients(9, torch.zeros(1, 2)))
    assert len(lines(path)) == BLOCK
    for _ in range(2):  # a second flush has nothing to add
        transcript.flush()
        assert len(lines(path)) == BLOCK + 1
    assert [line["step"] for line in lines(path)] == [*range(BLOCK), 9]


def test_a_line_holds_everything_but_the_tensors(tmp_path: Path) -> None:
    transcript = Transcript(path=tmp_path / "t.jsonl", keep_tensors=True)
    message: Message = Gradients(4, torch.randn(2, 3))
    transcript.log("received", message)
    transcript.flush()
    assert lines(tmp_path / "t.jsonl") == [
        {
            "direction": "received",
            "step": 4,
            "kind": "Gradients",
            "shapes": {"values": [2, 3]},
            "bytes": len(encode(message)),
        }
    ]


def test_another_transcript_appends_to_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for step in (1, 2):
        transcript = Transcript(path=path)
        transcript.log("sent", Describe(step))
        transcript.flush()
    assert [line["step"] for line in lines(path)] == [1, 2]


def test_a_file_that_cannot_be_written_is_named_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").write_text("a file where the folder should be")
    transcript = Transcript(path=tmp_path / "folder" / "t.jsonl")
    for _ in range(2):
        transcript.log("sent", Describe(0))
        transcript.flush()
        assert "t.jsonl" in transcript.unwritten
    assert caplog.text.count("served on without a transcript") == 1
    (tmp_path / "folder").unlink()
    transcript.flush()
    assert transcript.unwritten == ""
    assert (tmp_path / "folder" / "t.jsonl").read_text(encoding="utf-8").count("\n") == 2


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transcript = Transcript()
    for step in range(BLOCK + 1):
        transcript.log("sent", Describe(step))
    transcript.flush()
    assert list(tmp_path.iterdir()) == []
