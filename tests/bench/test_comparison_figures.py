"""Summaries, claims, choices and pages of the comparison, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unlabel_bench.comparison.claims import headline
from unlabel_bench.comparison.comparison import ComparisonSettings, TwoLabelSettings, every_method
from unlabel_bench.comparison.page import learned, page, picture, table
from unlabel_bench.measures import read_method
from unlabel_bench.paper.tables import Printed, differences, printed
from unlabel_bench.records import Records, read_lines
from unlabel_bench.summary import summarise
from unlabel_bench.sweep import SWEEPS, candidates, choices_of, choose
from unlabel_bench.trials import facts

from unlabel.errors import SettingsError
from unlabel.forget import METHODS


def line(method: str, seed: int = 0, **figures: Any) -> dict[str, Any]:
    known = {} if method == "original" else facts(read_method(method))
    return {"kind": "forget", "method": method, "seed": seed, "request": "0", **known, **figures}


def figures(stays: float, forgotten: float, asr: float, seconds: float) -> dict[str, float]:
    return {"retained": stays, "forgotten": forgotten, "asr": asr, "seconds": seconds, "bytes": 10}


LINES = [
    line("original", 0, **figures(0.90, 0.95, 0.90, 9.0), probe_linear=0.9),
    line("original", 1, **figures(0.90, 0.95, 0.90, 9.0), probe_linear=0.9),
    line("retrain", 0, **figures(0.92, 0.0, 0.20, 40.0), probe_linear=0.5),
    line("retrain", 1, **figures(0.90, 0.0, 0.30, 60.0), probe_linear=0.5),
    line("hidden", 0, **figures(0.91, 0.0, 0.15, 2.0), probe_linear=0.7),
    line("hidden", 1, **figures(0.91, 0.01, 0.27, 3.0), probe_linear=0.8),
    line("deep", 0, **figures(0.90, 0.0, 0.10, 40.0), probe_linear=0.5),
    line("deep", 1, failed="It diverged."),
    line("ascent:samples=all", 0, **figures(0.99, 0.5, 0.24, 48.0), probe_linear=0.9),
    line("mask", 0, **figures(0.99, 0.0, 0.25, 0.1), probe_linear=0.9),
]
NAMES = ("original", "retrain", "ascent:samples=all", "deep", "hidden", "mask")


def summary(lines: list[dict[str, Any]] = LINES) -> dict[str, dict[str, Any]]:
    return {x["method"]: x for x in summarise(lines, [(name, False) for name in NAMES])}


def test_means_and_ratios_by_hand() -> None:
    outcome = summary()
    ours = outcome["hidden"]
    assert ours["retained"] == {
        "mean": pytest.approx(91.0),
        "deviation": pytest.approx(0.0),
        "count": 2,
    }
    assert ours["forgotten"]["mean"] == pytest.approx(0.5)
    assert ours["forgotten"]["deviation"] == pytest.approx(0.5**0.5)
    # 15 - 20 and 27 - 30 points: each seed beside the retrained model of the same seed.
    assert ours["asr_over_retrained"]["mean"] == pytest.approx(-4.0)
    # (0.7 - 0.5) / (0.9 - 0.5) and (0.8 - 0.5) / 0.4
    assert ours["residual_linear"]["mean"] == pytest.approx((0.5 + 0.75) / 2)
    assert ours["residual_nearest"] is None
    assert ours["time_to_retrained"] == pytest.approx(2.5 / 50)
    assert outcome["retrain"]["time_to_default"] == pytest.approx(20.0)
    assert (outcome["deep"]["runs"], outcome["deep"]["failed"]) == (1, ["It diverged."])
    assert outcome["original"]["needs"] is None
    assert outcome["mask"]["control"]


def test_the_headline_holds_by_hand() -> None:
    outcome = headline(list(summary().values()))
    # Retrained models have 91.0 too; `mask` has 99 and `ascent` 99, a control and one that keeps
    # the label. The attack: 21 of 25, `deep` 10. Seconds: 40 (deep) against 2.5.
    assert {name: claim["holds"] for name, claim in outcome.items()} == {
        "retained": True,
        "asr": True,
        "time": True,
        "faster": True,
    }
    assert "91.00 at forgotten accuracy 0.50" in outcome["retained"]["sentence"]
    assert "membership attack 21.00 where retrained models have 25.00" in outcome["asr"]["sentence"]
    assert "`deep`, has 10.00" in outcome["asr"]["sentence"]
    assert "`deep`, 40.000 s, which is 16.0 times" in outcome["time"]["sentence"]


def changed(method: str, **changes: float) -> list[dict[str, Any]]:
    return [{**x, **changes} if x["method"] == method and "asr" in x else x for x in LINES]


@pytest.mark.parametrize(
    ("method", "changes", "claim"),
    [
        ("deep", {"retained": 0.916}, "retained"),  # 0.6 points above
        ("hidden", {"forgotten": 0.02}, "retained"),  # it does not forget
        ("deep", {"asr": 0.22}, "asr"),  # nearer to 25 from below
        ("hidden", {"asr": 0.26}, "asr"),  # above the retrained model
        ("deep", {"seconds": 39.0}, "time"),  # 15.6 times
        ("ascent:samples=all", {"seconds": 39.0}, "faster"),
    ],
)
def test_a_claim_that_fails_alone(method: str, changes: dict[str, float], claim: str) -> None:
    outcome = headline(list(summary(changed(method, **changes)).values()))
    assert outcome[claim]["holds"] is False


def test_ties_are_within_half_a_point_and_from_above_does_not_count() -> None:
    outcome = headline(list(summary(changed("deep", retained=0.9149, asr=0.251)).values()))
    assert outcome["retained"]["holds"] is True
    assert outcome["asr"]["holds"] is True


def test_a_headline_without_our_method_is_not_measured() -> None:
    assert {claim["holds"] for claim in headline([]).values()} == {None}
    some = [x for x in LINES if x["method"] != "retrain"]
    assert headline(list(summary(some).values()))["asr"]["holds"] is None


# --- choices ------------------------------------------------------------------------------------


def tried(name: str, stays: float | None, forgotten: float | None) -> dict[str, Any]:
    return {"method": name, "retained": stays, "forgotten": forgotten}


def test_the_choice_is_the_best_that_forgets() -> None:
    lines = [tried("a", 0.80, 0.01), tried("b", 0.85, 0.0), tried("c", 0.99, 0.011)]
    assert choose(lines) == "b"
    assert choose([tried("a", 0.85, 0.0), tried("b", 0.85, 0.0)]) == "a"


def test_where_none_forgets_the_choice_leaves_the_least_and_then_keeps_the_most() -> None:
    lines = [tried("a", 0.9, 0.3), tried("b", 0.7, 0.2), tried("c", 0.8, 0.2)]
    assert choose(lines) == "c"
    assert choose([{"method": "a", "failed": "It diverged."}, tried("b", 0.1, 1.0)]) == "b"
    assert choose([{"method": "a", "failed": "It diverged."}]) is None


def test_candidates_are_read_back_as_the_methods_of_the_sweep() -> None:
    base = "mixup-ascent"
    names = candidates(base)
    assert names[0] == base
    start: Any = read_method(base)
    changed = [{"bottom_lr": 3e-5}, {"bottom_lr": 1e-3}, {"across": 0.05}, {"across": 0.5}]
    others = [replace(start, **settings) for settings in changed]
    assert [read_method(name) for name in names] == [start, *others]
    assert candidates("mask") == []
    # Somebody's own setting is not tuned.
    assert candidates("mixup-ascent@resnet18-cifar10") == []


@pytest.mark.parametrize("name", METHODS.names())
def test_a_sweep_begins_with_the_method_and_is_as_long_as_any_other(name: str) -> None:
    method = read_method(name)
    names = candidates(name)
    if name not in SWEEPS:
        assert names == []
        return
    swept = [read_method(each) for each in names]
    assert names[0] == name
    assert len({repr(each) for each in swept}) == 5
    # What it tells partners is no matter of tuning: `hidden` may ask for all rows or for public
    # samples, as either tells nothing.
    told = [(learned(facts(each)), each.disclosure) for each in (method, *swept)]
    assert len({(words, x.gradients, x.messages) for words, x in told}) == 1


def test_choices_of_another_bench_are_taken_by_method(tmp_path: Path) -> None:
    path = tmp_path / "single.jsonl"
    records = Records(str(path), "another recipe")
    records.add(kind="choice", method="mixup-ascent", words="across=0.5")
    records.add(kind="choice", method="deep", words="")
    asked = ("mixup-ascent", "mixup-ascent@two-label-resnet18-cifar10", "deep", "mask")
    by_name = {x["method"]: x["chosen"] for x in choices_of(str(path), asked)}
    assert by_name == {"mixup-ascent": "mixup-ascent:across=0.5", "deep": "deep"}
    with pytest.raises(SettingsError, match=r"'hidden'"):
        choices_of(str(path), ("hidden",))


# --- methods, pages, records --------------------------------------------------------------------


def test_every_method_stands_in_the_tables_and_the_papers_own_with_its_preset_too() -> None:
    names = every_method(ComparisonSettings(data="cifar10", model="resnet18"), 1)
    assert names[-2:] == ("hidden", "mask")
    assert {"mixup-ascent", "mixup-ascent@resnet18-cifar10"} <= set(names)
    assert not any(name.startswith("people") for name in names)
    two = every_method(TwoLabelSettings(data="cifar100", model="vgg16"), 2)
    assert "mixup-ascent@two-label-vgg16-cifar100" in two
    assert "mixup-ascent" in every_method(ComparisonSettings(), 1)


def result(data: str, model: str) -> dict[str, Any]:
    entries = list(summary().values())
    tuned = {**entries[-2], "method": "hidden:steps=50", "tuned": True}
    entries.insert(-1, tuned)
    return {
        "request": "0",
        "summary": entries,
        "headline": headline(entries),
        "choices": [
            {
                "method": "hidden",
                "chosen": "hidden:steps=50",
                "published_won": False,
                "candidates": [tried("hidden", 0.9, 0.0), tried("hidden:x=1", None, 0)],
            }
        ],
        "records": [{"where": {"device": "H200", "torch": "2.11", "commit": "ab"}}],
        "about": {"data": data, "model": model, "parties": 2, "epochs": 1, "seeds": 2},
    }


def test_the_page_has_the_papers_figures_beside_ours() -> None:
    text = page(result("cifar10", "resnet18"))
    rows = {cells[1].strip(): cells for x in text.splitlines() if len(cells := x.split("|")) > 9}
    assert [cell.strip() for cell in rows["`retrain`"][2:4]] == ["91.00 ± 1.41", "91.26 ± 0.12"]
    assert rows["`original`"][3].strip() == "90.61"  # their baseline, printed without deviation
    names = list(rows)
    assert names[names.index("`hidden`") + 1] == "`hidden:steps=50`, tuned"
    assert rows["`hidden`"][3].strip() == ""  # not in the paper
    assert "nothing" in rows["`hidden`"][-2]
    assert "`deep` failed 1 times: It diverged." in text
    assert "holds: `hidden` has retained accuracy 91.00" in text
    assert "default: 90.00, 0.00; x=1: failed" in text
    assert "Few-Shot Forgetting without Disclosure" in text


def test_a_page_without_figures_of_the_paper_says_so() -> None:
    text = page(result("digits", "convnet"))
    assert "The paper has no figures" in text
    assert "| paper |" not in text
    assert table(result("digits", "convnet"))[0][:4] == ["method", "kept", "left", "attack"]


def test_the_table_tells_settings_apart_and_what_partners_learn() -> None:
    rows = {row[0]: row for row in table(result("digits", "convnet"))}
    assert list(rows) == [
        *("method", "original", "retrain", "ascent samples=all", "deep"),
        *("hidden", "  tuned", "mask"),
    ]
    assert [row[-1] for row in rows.values()] == [
        *("disclosed", "", "rows named", "rows named", "rows named"),
        *("nothing", "nothing", "nothing"),
    ]
    # Two blanks and a line a column.
    wide = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    assert sum(wide) + 3 * len(wide) + 1 <= 80


def test_residual_knowledge_is_left_out_where_its_ends_are_too_near_to_tell() -> None:
    def with_probes(*retrained: float) -> dict[str, Any]:
        entries = [dict(x) for x in LINES]
        for x in entries:
            if x["method"] == "retrain":
                x["probe_linear"] = retrained[x["seed"]]
        return summary(entries)["hidden"]

    assert with_probes(0.84, 0.84)["residual_linear"] is not None  # 6 points
    assert with_probes(0.86, 0.86)["residual_linear"] is None  # 4 points
    # 20 points, and 3 standard errors of 0.2 and 0.05 about 0.7.
    assert with_probes(0.5, 0.9)["residual_linear"] is None
    assert with_probes(0.65, 0.75)["residual_linear"] is not None


def test_one_seed_has_no_deviation_and_a_note_is_printed() -> None:
    lines = [x for x in LINES if x["seed"] == 0]
    about = {"data": "digits", "model": "convnet", "parties": 2, "epochs": 1, "seeds": 1}
    outcome = result("digits", "convnet") | {
        "summary": list(summary(lines).values()),
        "about": {**about, "note": "The clock was slow."},
        "records": [{"where": {"device": "d", "torch": "2", "commit": f"{'a' * 40} with changes"}}],
    }
    text = page(outcome)
    assert "±" not in text
    assert f"one seed; d, torch 2, commit {'a' * 12} with changes. Retained" in text
    assert "\n\nThe clock was slow.\n\n" in text
    assert "| 2.50 ± 0.71 |" in page(result("digits", "convnet"))  # seconds of two seeds


def test_reasons_with_figures_stand_on_pages_of_their_data_alone() -> None:
    theirs = {"retained": Printed(50.0, None)}

    def line_of(method: str, data: str) -> str:
        entry = {"method": method, "tuned": False, "retained": {"mean": 90.0}}
        return differences({"summary": [entry], "about": {"data": data}}, {method: theirs})[0]

    assert "in the sweep on CIFAR-10 with two ResNet18, label 0" in line_of("ssd", "cifar10")
    assert line_of("ssd", "mnist").endswith("We do not know why.")
    assert "Our recipe is shorter" in line_of("retrain", "mnist")


def test_a_picture_keeps_the_row_of_a_method_that_failed() -> None:
    lines = [x for x in LINES if x["method"] != "deep"] + [line("deep", failed="It diverged.")]
    outcome = result("digits", "convnet") | {"summary": list(summary(lines).values())}
    drawn = picture(outcome)
    panel = drawn.rows[0][0]
    assert panel is not None
    assert panel.yticks is not None
    assert "deep" in panel.yticks[1]
    assert [text for text, _, _ in panel.texts].count("failed") == 1
    assert panel.xlim is not None
    assert panel.xlim[0] == 0
    assert "; label 0 forgotten;" in drawn.title


def test_the_papers_own_method_and_baseline_have_our_names() -> None:
    assert str(printed(1, "resnet18", "mnist", "mixup-ascent")["asr"]) == "0.35 ± 0.01"
    assert str(printed(1, "resnet18", "mnist", "original")["retained"]) == "99.29"
    assert printed(3, "resnet18", "mnist", "retrain") == {}


def test_what_partners_are_told_in_few_words() -> None:
    names = ("deep", "amnesiac", "renormalise", "mixup-ascent", "mask", "hidden")
    assert {name: learned(facts(read_method(name))) for name in names} == {
        "deep": "rows named",
        "amnesiac": "rows shown by gradients",
        "renormalise": "samples shown by gradients",
        "mixup-ascent": "samples named",
        "mask": "nothing",
        "hidden": "nothing",
    }


def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    Records(str(path), "x").add(kind="forget", seed=0)
    whole = path.read_text()
    for torn in ('{"recipe": "x", "ki', '{"recipe": "x", "kind": "forget", "seed": 1}'):
        path.write_text(whole + torn)
        records = Records(str(path), "x")
        assert [x["seed"] for x in records.lines] == [0]
        assert path.read_text() == whole  # though nothing was added
        records.add(kind="forget", seed=2)
        assert [json.loads(x)["seed"] for x in path.read_text().splitlines()] == [0, 2]
        path.write_text(whole)
    path.write_text("no json\n" + whole)
    with pytest.raises(SettingsError):
        read_lines(path)
