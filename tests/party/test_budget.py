"""What a party serves in a day: counted before it is served, and not forgotten by a restart."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from federations import small_holdings
from party.tiny import BEGIN_REQUEST, descend, done, embed, refusal, tiny_party

from unlabel.config import Policy, TrainSettings
from unlabel.errors import CheckpointError, PartyRefused
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.party.budget import BUDGET, Budget
from unlabel.train.assembly import agreed_steps
from unlabel.train.epochs import MOST
from unlabel.wire import Embed, Gradients, Prepare, Rollback

ROWS = torch.arange(3)
LIMITS = Policy(max_rows_a_day=300, max_steps_a_day=100, max_requests_a_day=2)


class Clock:
    """A day that is changed by hand."""

    def __init__(self) -> None:
        self.day = "2026-11-18"

    def __call__(self) -> str:
        return self.day


@pytest.mark.parametrize("what", ["rows", "steps", "requests"])
def test_a_day_has_its_limit_and_the_next_one_begins_anew(tmp_path: Path, what: str) -> None:
    clock = Clock()
    budget = Budget(LIMITS, tmp_path, clock)
    limit = {"rows": 300, "steps": 100, "requests": 2}[what]
    for _ in range(limit):
        budget.spend(what, 1)
    sentence = rf"serves {limit} {what} a day .* 0 are left and 1 were .* from 00:00 UTC"
    with pytest.raises(PartyRefused, match=sentence) as caught:
        budget.spend(what, 1)
    assert caught.value.code == "budget"
    clock.day = "2026-11-17"  # set back
    with pytest.raises(PartyRefused):
        budget.spend(what, 1)
    clock.day = "2026-11-19"
    budget.spend(what, limit)


def test_a_day_ahead_of_the_clock_is_named_and_no_day_promised(tmp_path: Path) -> None:
    clock = Clock()
    clock.day = "2036-01-01"
    Budget(LIMITS, tmp_path, clock).spend("rows", 300)
    clock.day = "2026-11-18"  # set right
    budget = Budget(LIMITS, tmp_path, clock)
    with pytest.raises(
        PartyRefused, match=r"2036-01-01, which lies ahead .* budget\.json"
    ) as caught:
        budget.spend("rows", 1)
    assert "00:00" not in str(caught.value)
    assert "2036-01-01" in budget.ahead()
    (tmp_path / BUDGET).unlink()
    budget = Budget(LIMITS, tmp_path, clock)
    budget.spend("rows", 300)
    assert budget.ahead() == ""


def test_more_than_a_day_has_room_for_is_refused_without_a_promise(tmp_path: Path) -> None:
    with pytest.raises(PartyRefused, match="301 were asked for at once") as caught:
        Budget(LIMITS, tmp_path, Clock()).spend("rows", 301)
    assert caught.value.code == "budget"
    assert "00:00" not in str(caught.value)


def test_a_party_that_is_killed_has_no_more_left_than_before(tmp_path: Path) -> None:
    clock, served = Clock(), 0
    for _ in range(10_000):  # killed after every request
        try:
            Budget(LIMITS, tmp_path, clock).spend("rows", 1)
        except PartyRefused:
            break
        served += 1
    assert 30 <= served <= 300
    budget = Budget(LIMITS, tmp_path / "other", clock)
    for _ in range(300):
        budget.spend("rows", 1)
    with pytest.raises(PartyRefused):
        Budget(LIMITS, tmp_path / "other", clock).spend("rows", 1)


def test_without_limits_nothing_is_counted_or_written(tmp_path: Path) -> None:
    budget = Budget(Policy(), tmp_path)
    budget.spend("rows", 10**9)
    assert budget.served.rows == 0
    assert not (tmp_path / BUDGET).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": "1"}', '{"more": 1}', '{"day": 1}'])
def test_a_count_that_cannot_be_read_is_not_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / BUDGET).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"budget\.json' cannot be read"):
        Budget(LIMITS, tmp_path)


def test_a_party_counts_rows_gradients_and_requests_and_says_so_by_a_code(tmp_path: Path) -> None:
    party = tiny_party(tmp_path, policy=replace(LIMITS, max_rows_a_day=9, max_steps_a_day=2))
    for step in range(2):
        descend(party, ROWS, step=step)
    found = embed(party, ROWS)
    assert refusal(party.handle(Gradients(0, found))) == "budget"
    assert refusal(party.handle(Embed(0, ROWS, "predict"))) == "budget"
    for name in ("a1", "a1", "b2"):  # one that is opened twice counts once
        done(party.handle(replace(BEGIN_REQUEST, request=name)))
    done(party.handle(Rollback(0, "b2")))
    assert refusal(party.handle(replace(BEGIN_REQUEST, request="c3"))) == "budget"
    kept = json.loads((tmp_path / BUDGET).read_bytes())
    assert (kept["rows"], kept["steps"], kept["requests"]) == (9, 2, 2)
    reopened = tiny_party(tmp_path, policy=LIMITS)
    assert refusal(reopened.handle(replace(BEGIN_REQUEST, request="c3"))) == "budget"


def test_steps_are_bound_to_what_was_agreed() -> None:
    party = tiny_party()
    party.agreed_steps = agreed_steps(TrainSettings(epochs=2, batch=2))
    rows = torch.arange(5)
    assert refusal(party.handle(Prepare(0, rows, 5))) == "policy"
    assert refusal(party.handle(Prepare(0, rows, 2**62))) == "policy"
    done(party.handle(Prepare(0, rows, 3)))
    for step in range(3):
        descend(party, ROWS, step=step)
    found = embed(party, ROWS)
    assert refusal(party.handle(Gradients(0, found))) == "wrong-request"
    done(party.handle(BEGIN_REQUEST))  # a request has steps of its own
    descend(party, ROWS)
    assert agreed_steps(TrainSettings(batch=10))(100) == MOST * 10


def test_what_a_hidden_request_takes_does_not_depend_on_its_label(tmp_path: Path) -> None:
    holdings = small_holdings(2, rows=240)
    policy = Policy(max_rows_a_day=10**6, max_steps_a_day=10**6, max_requests_a_day=10)
    config = replace(holdings.config, policy=policy)
    settings = ForgetSettings(method="hidden", visibility="hidden", any_public=True, key="00" * 32)
    found = []
    for label in ("a", "c"):
        fed = Federation.of(replace(holdings, config=config), tmp_path / label)
        fed.train()
        fed.forget([label], settings=settings)
        found.append({name: asdict(party.budget.served) for name, party in fed.passives.items()})
    assert found[0] == found[1]
    assert all(each["rows"] > 0 and each["requests"] <= 1 for each in found[0].values())
