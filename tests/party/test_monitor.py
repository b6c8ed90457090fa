"""The active party's monitor: figures by hand, rules one by one, and trainings under attack."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from federations import small_holdings
from stress.hostile_attacks import Hostile
from torch import Tensor

from unlabel.config import MonitorSettings
from unlabel.config.loader import dump, parse_run
from unlabel.errors import PartySuspected, SettingsError
from unlabel.party import ActiveParty, PassiveParty
from unlabel.party.history import Batch, Breach, History, correlation, figures, median
from unlabel.party.monitor import AnomalyMonitor, describe_breach
from unlabel.train import Holdings, Training, assemble
from unlabel.wire import Embed, Embeddings, LocalTransport, Message

CPU = torch.device("cpu")


def steady(count: int = 40, *, noise: float = 0.02) -> list[Batch]:
    """Return batches of much the same figures."""
    draw = np.random.default_rng(3)
    around = draw.normal(0, noise, (count, 3))
    made = []
    for number, each in enumerate(around):
        size, largest, spread = (np.array([8.0, 12.0, 5.0]) * np.exp(each)).tolist()
        made.append(Batch(size, largest, spread, 0.9 + float(each[0]) / 10, float(number)))
    return made


def history(batches: list[Batch], limit: float = 4.0) -> History:
    made = History(32, limit)
    for each in batches:
        assert made.judge(each) == []
    return made


def rules(found: list[Breach]) -> set[str]:
    return {breach.rule for breach in found}


def test_the_figures_of_a_batch_are_those_worked_out_by_hand() -> None:
    values = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    size, largest, spread = figures(values).tolist()
    assert (size, largest) == (2.0, 5.0)
    # The mean row is (1, 5/3); squared distances 4 + 49/9, 1 + 4/9 and 1 + 25/9.
    assert spread == pytest.approx(math.sqrt((6 + 78 / 9) / 3))
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_correlation_is_numpys() -> None:
    draw = torch.Generator().manual_seed(1)
    one, other = (torch.randn(20, 2, 1, generator=draw) for _ in range(2))
    other += one
    expected = [np.corrcoef(one[:, k, 0], other[:, k, 0])[0, 1] for k in range(2)]
    assert correlation(one, other).tolist() == pytest.approx(expected, abs=1e-6)
    assert correlation(one, -one).tolist() == pytest.approx([-1.0, -1.0])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"size": 8.0 * 4.5}, {"size"}),
        ({"size": 8.0 / 4.5}, {"size"}),
        ({"size": 8.0 * 3.5}, set()),
        ({"largest": 12.0 * 17}, {"largest"}),
        ({"largest": 12.0 * 14, "size": 9.0}, set()),
        ({"spread": 5.0 / 18}, {"spread"}),
        ({"spread": 5.0 * 18}, set()),
        ({"spread": 0.0}, {"spread"}),
        ({"sameness": 0.4}, {"sameness"}),
        ({"sameness": -0.9}, {"sameness"}),
        ({"sameness": 0.5}, set()),
        ({"size": math.nan, "largest": math.nan}, {"finite"}),
        ({"largest": math.inf, "size": math.inf}, {"finite"}),
        ({"size": 8.0 * 70}, {"size", "drift"}),
    ],
)
def test_each_rule_has_its_limit(change: dict[str, float], expected: set[str]) -> None:
    made = history(steady())
    batch = replace(Batch(8.0, 12.0, 5.0, 0.9, 99.0), **change)
    assert rules(made.judge(batch)) == expected


def test_what_is_sent_again_is_a_replay_only_for_other_rows() -> None:
    batches = steady()
    repeated = batches[-3]
    assert rules(history(batches).judge(replace(repeated, mark=99.0))) == {"replay"}
    assert history(batches).judge(repeated) == []
    assert rules(history(batches).judge(replace(repeated, mark=99.0, spread=5.001))) == set()


def test_slow_drift_passes_every_comparison_but_the_one_with_the_beginning() -> None:
    made = history(steady())
    found = [made.judge(Batch(8.0 * 1.02**k, 12.0 * 1.02**k, 5.0 * 1.02**k)) for k in range(300)]
    first = next(k for k, breaches in enumerate(found) if breaches)
    assert rules(found[first]) == {"drift"}
    # 1.02^k > 4^3 from k = 3 ln 4 / ln 1.02 on, give or take the noise of the first window.
    assert first == pytest.approx(3 * math.log(4) / math.log(1.02), abs=3)


def test_a_party_whose_batches_differ_much_is_given_more_room() -> None:
    wild = [Batch(8.0 * 3 ** (k % 3 - 1), 100.0, 5.0) for k in range(40)]
    assert rules(history(wild).judge(Batch(8.0 * 30, 100.0, 5.0))) == set()
    assert rules(history(steady()).judge(Batch(8.0 * 30, 12.0, 5.0))) == {"size"}


def test_nothing_is_usual_before_eight_batches() -> None:
    assert history(steady(7)).judge(Batch(800.0, 1200.0, 500.0)) == []
    assert rules(history(steady(8)).judge(Batch(800.0, 1200.0, 500.0))) == {"size", "largest"}


def test_a_history_comes_back_from_plain_data() -> None:
    made = history(steady())
    repeated = History(32, 4.0)
    repeated.load(json.loads(json.dumps(made.facts())))
    assert repeated.facts() == made.facts()
    for batch in (Batch(700.0, 12.0, 5.0, 0.1), Batch(8.0, 12.0, 5.0, 0.88)):
        assert repeated.judge(batch) == made.judge(batch)


def test_a_breach_is_one_sentence_with_figure_and_limit() -> None:
    assert describe_breach(Breach("spread", 1e-7, 5.0), 4.0) == (
        "its rows hardly differ, by 1e-07 where 5 is usual (limit: a factor of 16)"
    )
    assert "drifted to size 600 where 8 was usual at first" in describe_breach(
        Breach("drift", 600.0, 8.0), 4.0
    )


@pytest.mark.parametrize(
    "settings", [{"limit": 1.0}, {"window": 8}, {"probe": 3}, {"mode": "off"}, {"limit": math.nan}]
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(settings))):
        MonitorSettings(**settings)


def test_naming_the_section_turns_the_watch_on_and_a_run_keeps_it() -> None:
    assert parse_run({"data": "digits"}, "a").monitor is None
    config = parse_run({"data": "digits", "monitor": {"limit": 3}}, "a")
    assert config.monitor == MonitorSettings(mode="refuse", limit=3.0)
    assert parse_run(yaml.safe_load(dump(config)), "b").monitor == config.monitor
    with pytest.raises(SettingsError, match=r"'limit'"):
        parse_run({"data": "digits", "monitor": {"limt": 3}}, "a")


def test_on_an_accelerator_no_value_is_read_in_a_step() -> None:
    # A meta tensor has no values, so reading one raises.
    meta = torch.device("meta")
    monitor = AnomalyMonitor(MonitorSettings(), ["a", "b"], rows=100, device=meta)
    for step in range(20):
        sent = {name: torch.empty(16, 8, device=meta) for name in monitor.parties}
        monitor.look(sent, torch.arange(16, device=meta), mode="train", table="main", step=step)
    with pytest.raises((RuntimeError, NotImplementedError)):
        monitor.flush_checks()


def test_what_waited_on_an_accelerator_is_told_later_with_its_step() -> None:
    monitor = AnomalyMonitor(MonitorSettings(), ["a"], rows=100, device=CPU)
    draw = torch.Generator().manual_seed(0)
    for step in range(20):
        values = torch.randn(16, 8, generator=draw) * (100 if step == 12 else 1)
        found = monitor._figures([values], torch.arange(16) + step, ("train", "main"))
        monitor._waiting.append(("train", "main", step, found))
    with pytest.raises(PartySuspected):
        monitor.flush_checks()
    monitor.flush_checks()  # told once


# Trainings of small federations.


def built(
    folder: Path | None, watch: MonitorSettings | None, **train: Any
) -> tuple[Holdings, ActiveParty, dict[str, PassiveParty]]:
    holdings = small_holdings(2, rows=96, **{"epochs": 6, "lr": 0.01, **train})
    holdings = replace(holdings, config=replace(holdings.config, monitor=watch))
    return holdings, *assemble(holdings, folder=folder)


def train(holdings: Holdings, active: ActiveParty) -> None:
    Training(active, holdings.rows, holdings.config.train, labels=4).run()


def weights(active: ActiveParty, passives: dict[str, PassiveParty]) -> dict[str, Tensor]:
    found = {f"active/{k}": v.clone() for k, v in active.versions.model_state().items()}
    for name, party in passives.items():
        found |= {f"{name}/{k}": v.clone() for k, v in party.bottom.model_state().items()}
    return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def turn_hostile(
    active: ActiveParty, passives: dict[str, PassiveParty], attack: str, start: int
) -> None:
    hostile = Hostile(passives["passive-1"], attack, start, 0)
    active.transport = LocalTransport({**passives, "passive-1": hostile})


def test_watching_changes_no_weight_and_finds_nothing_in_an_honest_training() -> None:
    trained = []
    for watch in (None, MonitorSettings()):
        holdings, active, passives = built(None, watch)
        train(holdings, active)
        trained.append(weights(active, passives))
    assert same(*trained)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Tensor]:
    holdings, active, passives = built(None, None)
    train(holdings, active)
    return weights(active, passives)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("not finite", "not finite"),
        ("times 100", "its rows have size"),
        ("zeros", "its rows have size"),
        ("constant", "hardly differ"),
        ("replayed", "same numbers again for other rows"),
        ("shuffled rows", "correlate by"),
        ("other rows", "correlate by"),
        ("sign flipped", "correlate by -"),
    ],
)
def test_an_attack_is_refused_at_its_first_message_and_the_training_can_go_on(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    undisturbed: dict[str, Tensor],
    attack: str,
    words: str,
) -> None:
    # 64 rows in batches of 8: the attack begins in the fifth epoch, after the first version.
    holdings, active, passives = built(tmp_path, MonitorSettings(), save_every=4)
    turn_hostile(active, passives, attack, start=36)
    with caplog.at_level(logging.WARNING, "unlabel.monitor"), pytest.raises(PartySuspected) as told:
        train(holdings, active)
    assert str(told.value).startswith("Party 'passive-1' is suspect in step 36: ")
    assert words in str(told.value)
    logged = [r.getMessage() for r in caplog.records if r.name == "unlabel.monitor"]
    assert logged
    assert all(line.startswith("Party 'passive-1' is suspect in step 36") for line in logged)
    assert "tensor" not in "".join(logged)

    # The party is honest again: from the last version training ends as if nothing had been.
    assert active.versions.common() == (1,)
    active.transport = LocalTransport(passives)
    train(holdings, active)
    assert same(weights(active, passives), undisturbed)


def test_a_warning_is_logged_and_training_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    holdings, active, passives = built(None, MonitorSettings(mode="warn"))
    turn_hostile(active, passives, "times 10", start=36)
    with caplog.at_level(logging.WARNING, "unlabel.monitor"):
        train(holdings, active)
    assert "step 36: its rows have size" in caplog.text


def test_a_history_is_kept_with_a_version_and_taken_up_with_it(tmp_path: Path) -> None:
    holdings, active, passives = built(tmp_path, MonitorSettings(), save_every=6)
    train(holdings, active)
    kept = active.monitor.facts()
    assert len(kept["watch"]["passive-1"]["last"]) == 32
    _, active, passives = built(tmp_path, MonitorSettings(), save_every=6)
    active.versions.restore(active.versions.common()[-1])
    assert active.monitor.facts() == kept
    turn_hostile(active, passives, "times 10", start=0)
    with pytest.raises(PartySuspected, match="is usual"):
        active.step(holdings.rows.train[:8], 99)


class Restless(PassiveParty):
    """Answers every question about predictions in an order of its own."""

    def handle(self, message: Message) -> Message:
        answer = super().handle(message)
        if isinstance(message, Embed) and isinstance(answer, Embeddings):
            return Embeddings(answer.step, answer.values[torch.randperm(len(answer.values))])
        return answer


def test_a_party_that_answers_one_question_in_two_ways_is_refused_before_training() -> None:
    holdings, active, passives = built(None, MonitorSettings())
    passives["passive-2"].__class__ = Restless
    with pytest.raises(PartySuspected, match=r"'passive-2'"):
        train(holdings, active)
    holdings, active, passives = built(None, MonitorSettings(probe=0))
    passives["passive-2"].__class__ = Restless
    train(holdings, active)  # lying from the beginning it is only a useless feature


def test_a_party_that_sends_one_row_for_all_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    holdings, active, passives = built(None, MonitorSettings())
    for values in passives["passive-1"].bottom.module.parameters():
        values.data.zero_()
    with caplog.at_level(logging.WARNING, "unlabel.monitor"):
        active.prepare(holdings.rows.train, 10)
    assert "Party 'passive-1' sends the same for 64 different rows." in caplog.text
