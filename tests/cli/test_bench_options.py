"""`unlabel bench`: every setting is an option, and what else there is goes beside the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.command_line import one_thread, unlabel

__all__ = ["one_thread"]  # a fixture for every test here

COMPARE = ("bench", "single-label", "--epochs", "1", "--seeds", "1", "--methods", "mask")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_settings_are_options_and_words_alike() -> None:
    found = unlabel(*COMPARE, "--parties", "1", "--set", "labels=3", "--json").json
    assert found["settings"]["parties"] == 1
    assert found["settings"]["labels"] == [3]
    assert found["methods"] == ["mask"]
    assert found["bench"] == "single-label"


def test_the_option_wins_over_the_word() -> None:
    found = unlabel("bench", "fuzz-wire", "--set", "count=3", "--count", "2", "--json").json
    assert found["settings"]["count"] == 2


def test_what_else_there_is_goes_beside_the_json() -> None:
    unlabel(*COMPARE, "--out", "figures/x.json", "--page", "elsewhere.md")
    assert json.loads(Path("figures/x.json").read_text())["request"] == "0"
    assert {path.name for path in Path("figures").iterdir()} == {"x.json", "x.jsonl", "x.png"}
    assert "`mask`" in Path("elsewhere.md").read_text()


@pytest.mark.parametrize("out", [".", "there"])
def test_the_json_is_no_folder(out: str) -> None:
    Path("there").mkdir()
    assert unlabel(*COMPARE, "--out", out).sentence == (
        f"Expected `--out` to be a file but got the folder '{out}'."
    )


def test_a_table_is_for_people() -> None:
    shown = unlabel(*COMPARE)
    assert shown.code == 0
    assert "mask" in shown.out


def test_the_help_tells_what_each_setting_means() -> None:
    shown = " ".join(unlabel("bench", "single-label", "--help").out.replace("│", " ").split())
    for words in ("--tuned-from", "--no-tuned", "passes over the training rows", "how many seeds"):
        assert words in shown
    shown = " ".join(unlabel("bench", "two-label", "--help").out.replace("│", " ").split())
    assert "(0,2)" in shown
    assert "how many seeds" in shown


def test_a_wrong_option_is_named_with_the_nearest() -> None:
    outcome = unlabel("bench", "single-label", "--partys", "2")
    assert outcome.code == 2
    assert "--parties" in outcome.err
    assert unlabel("bench", "single-label", "--parties", "two").sentence == (
        "Expected `parties` to be int but got 'two'."
    )
    assert "Did you mean 'renormalise'?" in unlabel(*COMPARE[:-1], "renormalize").sentence
