"""What is done leaves a line: who and what, in a closed set of fields, and nothing of a person."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from party.tiny import BEGIN_REQUEST, descend, done, refusal, tiny_party

from unlabel.events import FIELDS, note
from unlabel.wire import Embed, Save, Stage

ROWS = torch.arange(3)


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """Return the fields of all records so far."""
    records = [record for record in caplog.records if record.name == "unlabel.events"]
    names = ("event", "who", *FIELDS)
    return [{n: vars(each)[n] for n in names if n in vars(each)} for each in records]


def test_what_changes_a_party_and_what_it_refuses_leave_a_line_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "unlabel.events")
    party = tiny_party(tmp_path)
    party.handle(Save(0, 0))
    for step in range(3):  # steps leave none
        descend(party, ROWS, step=step)
    done(party.handle(BEGIN_REQUEST))
    party.handle(Stage(0, "9f", 1, '{"labels": ["quokka"]}'))
    assert refusal(party.handle(Embed(0, torch.tensor([77]), "predict"))) == "wrong-request"
    party.serve(b"no message")
    tiny = {"who": "tiny"}
    assert told(caplog) == [
        {"event": "served", **tiny, "kind": "Save", "version": 0},
        {"event": "served", **tiny, "kind": "BeginRequest"},
        {"event": "served", **tiny, "kind": "Stage", "version": 1},
        {"event": "refused", **tiny, "kind": "Embed", "code": "wrong-request"},
        {"event": "refused", **tiny, "code": "unknown-message", "bytes": 10},
    ]
    lines = [r.getMessage() for r in caplog.records if r.name == "unlabel.events"]
    assert lines[3] == "refused tiny kind=Embed code=wrong-request"
    assert "quokka" not in " ".join(lines)


@pytest.mark.parametrize(
    "fields",
    [{"label": "3"}, {"code": 3}, {"version": "3"}, {"kind": "x" * 41}, {"code": "a\nb"}],
)
def test_nothing_else_can_be_told(fields: dict[str, str | float]) -> None:
    with pytest.raises(ValueError, match="has no field"):
        note("refused", "tiny", **fields)
    with pytest.raises(ValueError, match="is no event"):
        note("forgot", "tiny")  # type: ignore[arg-type]
