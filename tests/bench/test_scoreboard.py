"""The scoreboard: what records say and nothing else, up to date, and usable in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from report.browser import Browser, browser
from unlabel_bench.scoreboard.rows import Row, read
from unlabel_bench.scoreboard_command import written

__all__ = ["browser", "one_thread"]  # fixtures

RESULTS = Path(__file__).parents[2] / "results"
PAGE = RESULTS / "scoreboard.html"
MAIN = "cifar10_resnet18_single.json"
#: Our default of the time of that record.
OURS = "hidden:samples=public"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read(RESULTS)


def of(rows: list[Row], record: str, method: str, **more: Any) -> Row:
    (row,) = [
        row
        for row in rows
        if row["record"] == record
        and row["method"] == method
        and all(row[name] == value for name, value in more.items())
    ]
    return row


@pytest.mark.parametrize("name", ["scoreboard.html", "scoreboard.json"])
def test_it_is_what_the_records_say_today(name: str) -> None:
    stands = (RESULTS / name).read_text(encoding="utf-8")
    assert stands == written(RESULTS)[name], (
        f"results/{name} is out of date: run `unlabel bench scoreboard`."
    )


def test_figures_are_those_of_the_record_run_by_run(rows: list[Row]) -> None:
    record = json.loads((RESULTS / MAIN).read_text(encoding="utf-8"))
    row = of(rows, MAIN, OURS, swept=False)
    lines = {
        (line["method"], line["seed"]): line
        for line in record["records"]
        if line["kind"] == "forget" and line["method"] in (OURS, "retrain")
    }
    for figure in ("retained", "forgotten"):
        values = [100 * lines[OURS, seed][figure] for seed in range(3)]
        assert row[figure]["mean"] == pytest.approx(mean(values))
        assert row[figure]["runs"] == 3
    ratios = [lines[OURS, n]["asr"] / lines["retrain", n]["asr"] for n in range(3)]
    assert row["attack_ratio"]["mean"] == pytest.approx(mean(ratios))
    timed = [lines[OURS, seed]["seconds_all"] for seed in range(3)]
    assert row["seconds_first"]["mean"] == pytest.approx(mean(each[0] for each in timed))
    assert row["seconds_warm"]["mean"] == pytest.approx(mean(each[-1] for each in timed))
    assert (row["visibility"], row["depth"], row["aim"]) == ("hidden", None, "top")


def test_blind_and_tuned_runs_are_rows_and_what_they_lack_is_missing(rows: list[Row]) -> None:
    record = "digits_blind_images.json"
    (line,) = [
        line
        for line in json.loads((RESULTS / record).read_text(encoding="utf-8"))["summary"]
        if (line["kind"], line["top"]) == ("refit", "mlp")
    ]
    blind, tuned = of(rows, record, "refit (mlp top)"), of(rows, record, "restart")
    assert blind["retained"]["mean"] == pytest.approx(100 * line["retained"]["mean"])
    assert [row["bottoms"] for row in (blind, tuned)] == ["blind", "tuned"]
    assert [row["visibility"] for row in (blind, tuned)] == ["hidden", "open"]
    assert {row["depth"] for row in (blind, tuned)} == {"bottoms"}
    for figure in ("attack_ratio", "residual", "bytes"):
        assert blind[figure] is None


def test_settings_of_a_sweep_are_a_row_of_their_own(rows: list[Row]) -> None:
    swept = [row["method"] for row in rows if row["record"] == MAIN and row["swept"]]
    assert swept
    assert all(":" in name for name in swept)


def test_one_run_has_no_deviation(rows: list[Row]) -> None:
    row = of(rows, "cifar10_resnet18_runtime.json", "renormalise")
    assert row["retained"]["deviation"] is None
    assert row["retained"]["mean"] > 0


def test_a_folder_without_records_is_refused_and_stays_empty(tmp_path: Path) -> None:
    done = unlabel("bench", "scoreboard", "--results", str(tmp_path))
    assert done.code == 1
    assert not list(tmp_path.iterdir())


#: Numbers of a column in the rows that are shown, in their order; missing ones are null.
SHOWN = """(name => {
  const heads = [...document.querySelectorAll('.board thead th')];
  const column = heads.findIndex(head => head.textContent === name);
  return [...document.querySelectorAll('.board tbody tr:not([hidden])')]
    .map(row => row.cells[column].dataset.value).map(v => v === undefined ? null : Number(v));
})"""
PRESS = """(name => [...document.querySelectorAll('.board thead button')]
  .find(button => button.textContent === name).click())"""
SORTED = "document.querySelector('[aria-sort]').getAttribute('aria-sort')"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_sorts_and_filters_in_silence(browser: Browser, width: int, scheme: str) -> None:
    browser.show(PAGE, width, 900, scheme)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    for name in ("residual", "retained"):
        for order in ("ascending", "descending"):
            browser.ask(f"{PRESS}('{name}')")
            assert browser.ask(SORTED) == order
            values = browser.ask(f"{SHOWN}('{name}')")
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=order == "descending")
            assert values[: len(known)] == known  # what is missing stands last
    before = len(values)
    browser.ask(
        "(s => { s.value = 'Digits'; s.dispatchEvent(new Event('input', {bubbles: true})) })"
        "(document.getElementById('data'))"
    )
    places = "[...document.querySelectorAll('.board tbody tr:not([hidden])')]"
    shown = browser.ask(f"{places}.map(row => row.dataset.data)")
    assert set(shown) == {"Digits"}
    assert len(shown) != before
    marks = "document.querySelectorAll('svg [data-row]:not([hidden])').length"
    assert 0 < browser.ask(marks) <= len(shown)
    assert browser.complaints() == []
    assert browser.requests() == [PAGE.resolve().as_uri()]


def test_a_keyboard_reaches_every_heading(browser: Browser) -> None:
    browser.show(PAGE, 1280, 900)
    heads = browser.ask("document.querySelectorAll('.board thead th').length")
    assert browser.ask("document.querySelectorAll('.board thead th > button').length") == heads
    browser.ask("document.querySelectorAll('.board thead button')[1].focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")
    assert browser.ask(SORTED) == "ascending"
