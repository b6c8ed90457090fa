"""A passive party's view: what it heard, by rows, and what it computes by itself."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from cli.command_line import one_thread
from unlabel_bench.privacy.partner_view import Held, View, heard_of, hold, listening
from unlabel_bench.privacy.party_files import files_view, mentions, walk

from unlabel.errors import DataError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.wire import BeginRequest, Embed, Gradients, Message, Recorder

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def digits() -> Federation:
    federation = Federation.local("digits", model="mlp", epochs=2, public=8)
    federation.train()
    return federation


def made_view(messages: list[Message], rows: int = 6, width: int = 2) -> View:
    held = Held({}, {"main": torch.ones(rows, width)})
    moved = Held({}, {"main": torch.ones(rows, width) + torch.arange(rows)[:, None]})
    return View("p", tuple(heard_of(message) for message in messages), held, moved)


def embed(rows: list[int], step: int, mode: str = "frozen", table: str = "main") -> Message:
    return Embed(step, torch.tensor(rows), mode, table)  # type: ignore[arg-type]


def gradients(values: list[list[float]], step: int) -> Message:
    return Gradients(step, torch.tensor(values))


def test_gradients_go_to_the_rows_that_were_asked_for_in_the_same_step() -> None:
    view = made_view(
        [
            embed([4, 1], 0),
            embed([0, 2], 7, "predict"),  # looked at in between: nothing follows it
            gradients([[3.0, 4.0], [0.0, 2.0]], 0),
            embed([1], 1),
            gradients([[0.0, -6.0]], 1),
        ]
    )
    assert [push.rows.tolist() for push in view.pushes()] == [[4, 1], [1]]
    total, count = view.summed()
    assert total.tolist() == [[0, 0], [0, -4], [0, 0], [0, 0], [3, 4], [0, 0]]
    assert count.tolist() == [0, 2, 0, 0, 1, 0]
    assert view.push_norms().tolist() == [0, 4, 0, 0, 5, 0]
    assert view.asked().tolist() == [0, 2, 0, 0, 1, 0]
    assert view.asked(moving=False).tolist() == [1, 0, 1, 0, 0, 0]


def test_gradients_of_another_shape_or_step_are_for_no_rows() -> None:
    view = made_view(
        [embed([1, 2], 0), gradients([[1.0, 1.0]], 0), embed([1], 1), gradients([[1.0, 1.0]], 2)]
    )
    assert view.pushes() == []
    assert view.push_norms().sum() == 0


def test_public_samples_in_a_table_of_their_own_are_no_rows_of_the_main_one() -> None:
    view = made_view([embed([1, 2], 0, table="public"), gradients([[1.0, 0.0], [2.0, 0.0]], 0)])
    assert view.asked().sum() == 0
    assert view.summed()[1].sum() == 0
    assert [push.table for push in view.pushes()] == ["public"]


def test_a_listener_hears_what_a_recorder_keeps(digits: Federation) -> None:
    plain = digits.active.transport
    recorder = Recorder(plain, keep_tensors=True)
    digits.active.transport = recorder
    try:
        with listening(digits.active) as listener:
            digits.forget(
                [3], settings=ForgetSettings(method="renormalise", few_shot=6, retained=2)
            ).rollback()
    finally:
        digits.active.transport = plain
    heard = listener.heard["passive-1"]
    entries = [e for e in recorder.transcripts["passive-1"].entries if e.direction == "received"]
    kinds = [(e.kind, e.step, e.bytes) for e in entries]
    assert [(h.kind, h.step, h.bytes) for h in heard] == kinds
    assert {"Gradients", "Rollback"} <= {each.kind for each in heard}
    for one, other in zip(heard, entries, strict=True):
        assert one.tensors.keys() == other.tensors.keys()
        assert all(torch.equal(one.tensors[k], other.tensors[k].cpu()) for k in one.tensors)


def test_what_is_heard_does_not_change_with_the_senders_memory() -> None:
    values = torch.ones(2, 2)
    heard = heard_of(Gradients(0, values))
    values.zero_()
    assert heard.tensors["values"].sum() == 4


def test_a_party_computes_its_embeddings_itself(digits: Federation) -> None:
    party = digits.passives["passive-1"]
    held = hold(party)
    rows = torch.arange(len(digits.holdings.labels))
    assert torch.equal(held.embeddings["main"], digits.active.embeddings(rows)[0])
    assert hold(party, held) is held
    with listening(digits.active) as listener:
        outcome = digits.forget(
            [1], settings=ForgetSettings(method="renormalise", few_shot=6, retained=2)
        )
    now = hold(party, held)
    outcome.rollback()
    assert now is not held
    assert not torch.equal(now.embeddings["main"], held.embeddings["main"])
    assert hold(party, held) is held
    tunes = [h for h in listener.heard["passive-1"] if h.kind == "BeginRequest"]
    assert tunes[0].plain["lr"] > 0
    assert set(tunes[0].plain) == {f.name for f in fields(BeginRequest)} - {"step"}


# --- files -------------------------------------------------------------------------------------


def test_a_partys_files_tell_sizes_lines_and_words(tmp_path: Path) -> None:
    party = tmp_path / "run" / "left"
    (party / "versions").mkdir(parents=True)
    (party / "ledger.jsonl").write_text('{"note": {"labels": ["cat"]}}\n{"note": {}}\n')
    (party / "versions" / "1.safetensors").write_bytes(b"12345")
    (party / "versions" / "1.json").write_text('{"request": "ab", "version": 12}')
    certificate = tmp_path / "run" / "certificate.json"
    certificate.write_text('{"visibility": "open"}')
    result = files_view(party, [certificate])
    assert result.figures["files"] == 4
    assert result.figures["size versions/1.safetensors"] == 5
    assert result.figures["lines ledger.jsonl"] == 2
    assert result.figures["length ledger.jsonl labels"] == 3
    assert result.figures["length versions/1.json request"] == 2
    assert result.figures["length versions/1.json version"] == 2
    assert sorted(result.texts) == ["ab", "cat", "open"]
    assert mentions(result.texts, ["dog", "cat"]) == [0, 1]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        files_view(tmp_path / "nobody")


def test_text_that_is_no_json_is_one_value() -> None:
    assert list(walk("a line of a log")) == [("", "a line of a log")]
    assert list(walk("{broken")) == [("", "{broken")]
    assert list(walk('["a", {"b": [1, null]}]')) == [("", "a"), ("b", 1), ("b", None)]
