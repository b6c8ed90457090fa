"""The bench `late-parties`: slow links, waiting by formula, records, and the page it fills."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federations import small_holdings

from unlabel.bench.late_parties import LatePartiesSettings, run, waiting
from unlabel.bench.late_parties_link import Behind, draw_delays, time_of
from unlabel.bench.late_parties_page import around, page, summarise, table
from unlabel.errors import SettingsError
from unlabel.party import describe
from unlabel.party.lateness import Lateness
from unlabel.train import Training, assemble
from unlabel.wire import Gradients, LocalTransport, Refused

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "robustness" / "late-parties.md"
RESULT = ROOT / "results" / "late_parties.json"


@pytest.mark.parametrize("late", [0, 1, 3])
def test_a_link_that_is_behind_gives_the_weights_of_a_late_training(late: int) -> None:
    """Gradients that come late and batches that are asked for early are the same thing."""
    found = []
    for link in (False, True):
        holdings = small_holdings(
            2, bottom="small_models:dropout_bottom", epochs=1, late=late, late_rule="plain"
        )
        active, passives = assemble(holdings)
        if link:
            active.lateness = Lateness()
            links = {name: Behind(party, late) for name, party in passives.items()}
            active.transport = LocalTransport(links)
        Training(active, holdings.rows, holdings.config.train, labels=4).run()
        describe(active.transport)  # whatever is no batch lets the link catch up
        assert all(len(party.backlog) == 0 for party in passives.values())
        found.append(
            [
                *active.top.module.state_dict().values(),
                *(v for p in passives.values() for v in p.bottom.module.state_dict().values()),
            ]
        )
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_link_that_is_behind_tells_of_a_refusal() -> None:
    holdings = small_holdings(1, late=1)
    _, passives = assemble(holdings)
    link = Behind(passives["passive-1"], 1)
    assert not isinstance(link.handle(Gradients(0, torch.zeros(8, 5))), Refused)
    assert isinstance(link.handle(Gradients(1, torch.zeros(8, 5))), Refused)


def by_formula(delays: np.ndarray, late: int, own: float) -> float:
    """Return the time of a training, each moment by its own formula and by no loop over time."""
    steps, parties, _ = delays.shape

    @cache
    def active(t: int) -> float:
        return (
            max([active(t - 1), *(embedded(k, t) for k in range(parties))]) + own if t >= 0 else 0
        )

    @cache
    def embedded(k: int, t: int) -> float:
        if late == 0:
            start = max((learned(j, t - 1) for j in range(parties)), default=0.0)
        elif t <= late:
            start = embedded(k, t - 1) if t else 0.0
        else:
            start = max(active(t - late - 1), learned(k, t - late - 1))
        return start + float(delays[t, k, 0])

    @cache
    def learned(k: int, t: int) -> float:
        if t < 0:
            return 0.0
        asked = min(t + late, steps - 1)
        busy = embedded(k, asked) if t + late < steps else learned(k, t - 1)
        busy = max(busy, embedded(k, asked))
        return max(active(t), busy) + float(delays[t, k, 1])

    return max(learned(k, steps - 1) for k in range(parties))


@pytest.mark.parametrize("late", [0, 1, 2, 4])
@pytest.mark.parametrize("parties", [1, 3])
def test_the_time_of_a_training_is_that_of_the_formula(late: int, parties: int) -> None:
    delays = draw_delays(parties, 5, spread=1.0, seed=late)
    assert time_of(delays, late, 0.5) == pytest.approx(by_formula(delays, late, 0.5), rel=1e-12)


def test_delays_have_mean_one_and_the_spread_asked_for() -> None:
    delays = draw_delays(2, 50_000, spread=0.5, seed=0)
    assert delays.shape == (50_000, 2, 2)
    assert delays.mean() == pytest.approx(1.0, abs=0.01)
    assert np.log(delays).std() == pytest.approx(0.5, abs=0.01)
    assert (draw_delays(2, 3, spread=0.0, seed=0) == 1.0).all()


def test_lateness_saves_waiting_and_more_where_answers_take_random_time() -> None:
    found = {(x["spread"], x["late"]): x["time"] for x in waiting(LatePartiesSettings())}
    assert all(found[spread, 0] == 1.0 for spread in (0.0, 0.5, 1.0))
    # Without chance a party is busy for 2 of the 2.5 units of a step, and lateness hides the rest.
    assert found[0.0, 1] == pytest.approx(0.8, abs=0.002)
    assert found[1.0, 4] < found[1.0, 1] < found[0.5, 1] < found[0.0, 1]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LatePartiesSettings:
    folder = tmp_path_factory.mktemp("late")
    return LatePartiesSettings(
        model="mlp",
        epochs=1,
        seeds=(0,),
        lates=(0, 2),
        methods=("hidden", "retrain"),
        corrections=("plain", "both"),
        spreads=(0.5,),
        records=str(folder / "lines.jsonl"),
        page=str(folder / "page.md"),
    )


@pytest.fixture(scope="module")
def result(settings: LatePartiesSettings) -> dict[str, Any]:
    return run(settings, lambda _: None)


def test_the_bench_measures_trainings_and_requests(result: dict[str, Any]) -> None:
    kinds = [(x["kind"], x["late"], x.get("who"), x.get("rule")) for x in result["records"]]
    trainings = [kind[1:] for kind in kinds if kind[0] == "training"]
    every = [(2, who, rule) for who in ("all", "one") for rule in ("plain", "both")]
    assert trainings == [(0, "all", "plain"), *every]
    forgets = [
        (x["late"], x["method"], x["rule"]) for x in result["records"] if x["kind"] == "forget"
    ]
    in_step = [(0, "hidden", "plain"), (0, "retrain", "plain")]
    assert forgets == [*in_step, (2, "hidden", "plain"), (2, "hidden", "both")]
    assert [(x["late"], x["method"]) for x in result["records"] if x["kind"] == "request"] == [
        (2, "hidden")
    ]
    assert len({x["accuracy"] for x in result["records"] if x["kind"] == "training"}) > 1
    assert len(table(result)) == 3


def test_hidden_sends_no_gradients_and_minds_no_late_ones(result: dict[str, Any]) -> None:
    lines = [x for x in result["records"] if x.get("method") == "hidden"]
    in_step = next(x for x in lines if x["kind"] == "forget" and x["late"] == 0)
    late = next(x for x in lines if x["kind"] == "request")
    assert all(late[name] == in_step[name] for name in ("retained", "forgotten", "asr"))


def test_a_bench_that_starts_again_repeats_nothing(
    settings: LatePartiesSettings, result: dict[str, Any]
) -> None:
    said: list[str] = []
    again = run(settings, said.append)
    assert said == []
    assert again["records"] == result["records"]


def test_a_seed_that_broke_off_is_counted_and_left_out_of_the_mean() -> None:
    key = {"kind": "training", "late": 4, "who": "all", "rule": "plain"}
    lines = [{**key, "seed": 0, "accuracy": 0.5}, {**key, "seed": 1, "failed": "It diverged."}]
    (entry,) = summarise(lines)
    assert (entry["runs"], entry["failed"]) == (2, 1)
    assert entry["accuracy"] == {"mean": 0.5, "deviation": 0.0, "count": 1}


def test_a_page_keeps_all_but_its_figures(result: dict[str, Any]) -> None:
    first = page(result, "# Mine\n<!-- figures: late-parties -->\nold\n<!-- end -->\nThe end.\n")
    assert first.startswith("# Mine\n<!-- figures: late-parties -->\n\ndigits, mlp")
    assert first.endswith("<!-- end -->\nThe end.\n")
    assert "old" not in first
    assert page(result, first) == first


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("Somebody's page.\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="name another file"):
        run(LatePartiesSettings(page=str(other)), lambda _: None)
    assert other.read_text(encoding="utf-8") == "Somebody's page.\n"


@pytest.mark.parametrize(
    "wrong",
    [{"corrections": ("fast",)}, {"who": ("nobody",)}, {"lates": (-1,)}, {"methods": ("magic",)}],
)
def test_wrong_settings_of_the_bench_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        LatePartiesSettings(**wrong)


def test_the_page_in_the_docs_shows_the_recorded_figures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    around(text)
    if RESULT.exists():
        assert page(json.loads(RESULT.read_text(encoding="utf-8")), text) == text
