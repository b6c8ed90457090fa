"""A ledger that somebody fills with requests that come to nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from federations import small_holdings

from unlabel.train import assemble
from unlabel.wire import BeginRequest, Commit, Done, Prepare, Refused, Rollback, Save, Saved, Stage


def test_a_party_takes_up_no_request_whose_end_it_could_not_write_down(tmp_path: Path) -> None:
    _, passives = assemble(small_holdings(1), folder=tmp_path)
    party = passives["passive-1"]
    party.guard.policy = replace(party.guard.policy, max_lines=3)
    party.handle(Prepare(0, torch.arange(8), 1))
    party.handle(Save(0, 1))
    for number in range(3):
        name = f"r{number}"
        party.handle(BeginRequest(0, name, 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0))
        answer = party.handle(Stage(0, name, 2, "{}"))
        assert isinstance(answer, Saved)
        if number < 2:
            assert isinstance(party.handle(Rollback(0, name)), Done)
        else:  # what was taken up comes to its end
            assert isinstance(party.handle(Commit(0, name, 2, answer.digest)), Done)
    refused = party.handle(Stage(0, "r9", 3, "{}"))
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("its ledger holds 3 lines")
    assert party.ledger is not None
    assert [entry.event for entry in party.ledger.entries()] == ["rollback", "rollback", "commit"]
