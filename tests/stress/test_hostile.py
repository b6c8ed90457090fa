"""The bench of hostile parties: every attack does what it says, and the figures add up."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from federations import small_holdings
from unlabel_bench.drawing import can_draw
from unlabel_bench.registry import BENCHES

from stress.fuzz_party import say_nothing
from stress.hostile import HostileSettings
from stress.hostile_attacks import ATTACKS, Hostile, ScaledGradients
from stress.hostile_honest import Alarms, Gauge, write_tables
from stress.hostile_page import summarise, table
from unlabel.config import MonitorSettings
from unlabel.errors import SettingsError
from unlabel.party import Stream
from unlabel.party.monitor import AnomalyMonitor
from unlabel.train import assemble
from unlabel.wire import Embed, Embeddings, Gradients


def answers(attack: str, mode: str = "train") -> list[torch.Tensor]:
    """Return what a party sends for four batches, hostile from the third on."""
    _, passives = assemble(small_holdings(1))
    party = passives["passive-1"]
    party.bottom.prepare(torch.arange(32), 4)
    hostile = Hostile(party, attack, 2, 0)
    entries = []
    for step in range(4):
        answer = hostile.handle(Embed(step, torch.arange(8) + 8 * step, mode))  # type: ignore[arg-type]
        assert isinstance(answer, Embeddings)
        entries.append(answer.values)
    return entries


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_begins_where_it_is_told_to_and_leaves_predictions_alone(attack: str) -> None:
    honest, spoilt = answers("none"), answers(attack)
    assert all(torch.equal(honest[k], spoilt[k]) for k in (0, 1))
    later = 3 if attack.startswith("drift") else 2  # a drift begins at a factor of 1
    assert not torch.equal(honest[later], spoilt[later])
    text = answers(attack, "predict")
    assert all(torch.equal(a, b) for a, b in zip(answers("none", "predict"), text, strict=True))


def test_the_attacks_are_what_their_names_say() -> None:
    honest = answers("none")
    assert torch.equal(answers("times 10")[2], honest[2] * 10)
    assert torch.equal(answers("replayed")[3], honest[1])
    assert torch.equal(answers("constant")[2][0], answers("constant")[2][7])
    assert sorted(answers("shuffled rows")[2][:, 0].tolist()) == sorted(honest[2][:, 0].tolist())
    assert answers("drift of 2 % a step")[3] == pytest.approx(honest[3] * 1.02)
    assert (answers("one row times 100")[2] != honest[2]).any(1).sum() == 1


def test_gradients_are_scaled_from_a_step_on() -> None:
    scale, stream = ScaledGradients(10.0, 5), Stream(0, "x")
    for step, factor in ((4, 1.0), (5, 10.0)):
        sent = scale(Gradients(step, torch.ones(2, 2)), "passive-1", stream)
        assert isinstance(sent, Gradients)
        assert sent.values.unique().tolist() == [factor]


def test_the_bench_notices_what_is_absurd_and_tells_the_damage(tmp_path: Path) -> None:
    settings = HostileSettings(
        models=("mlp",),
        seeds=1,
        epochs=4,
        attacks=("times 100", "gradients times 1000"),
        honest=False,
        page=str(tmp_path / "page.md"),
        picture=str(tmp_path / "page.png") if can_draw() else "",
    )
    result = BENCHES.get("hostile").run(settings, say_nothing)
    by = {(x["attack"], x["when"]): x for x in result["summary"]}
    assert by["times 100", "late"]["noticed"] == 1
    assert by["times 100", "late"]["steps"] == 0
    assert by["gradients times 1000", "late"]["noticed"] == 1
    assert all(x["false"] == 0 for x in result["summary"])
    assert by["times 100", "early"]["unchecked"] < by["times 100", "early"]["honest"]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| times 100 | late | mlp | 1 of 1 | 0 (at most 0) |" in page
    assert not can_draw() or (tmp_path / "page.png").stat().st_size > 10_000
    assert len(table(result)) == 1 + 4


def test_a_gauge_counts_alarms_under_each_limit() -> None:
    alarms = Alarms((2.0, 4.0))
    plain = AnomalyMonitor(MonitorSettings(), ["a"], rows=100, device=torch.device("cpu"))
    gauge = Gauge(plain, alarms)
    draw = torch.Generator().manual_seed(0)
    for step in range(20):
        values = torch.randn(16, 8, generator=draw) * (3 if step == 15 else 1)
        gauge.look({"a": values}, torch.arange(16) + step, mode="train", table="main", step=step)
    assert alarms.batches == 20
    assert (alarms.counts[2.0], alarms.counts[4.0]) == (1, 0)
    assert "step 15" in alarms.first[2.0]


def test_a_summary_is_worked_out_by_hand() -> None:
    line = {"attack": "a", "when": "late", "model": "m", "honest": 0.9, "false": False}
    lines = [
        {**line, "noticed": 0, "unchecked": 0.2, "unchecked_error": "", "stopped_at": 0.8},
        {**line, "noticed": 4, "unchecked": None, "unchecked_error": "no", "stopped_at": 0.6},
        {**line, "noticed": None, "unchecked": 0.4, "unchecked_error": "", "stopped_at": 0.7},
    ]
    (result,) = summarise(lines)
    assert (result["noticed"], result["runs"], result["steps"], result["most_steps"]) == (
        2,
        3,
        2,
        4,
    )
    assert (result["unchecked"], result["broke"]) == (pytest.approx(0.3), 1)
    assert result["stopped_at"] == pytest.approx(0.7)


def test_tables_are_written_and_wrong_settings_are_refused(tmp_path: Path) -> None:
    assert set(write_tables(tmp_path)) == {"breast cancer", "heavy tails"}
    with pytest.raises(SettingsError):
        HostileSettings(attacks=("times10",))
    with pytest.raises(SettingsError):
        HostileSettings(seeds=0)
