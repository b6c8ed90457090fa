"""How the rows of tables are matched is a choice, which a run keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from unlabel.config import AlignSettings, RunConfig
from unlabel.config.loader import dump, parse_run, read_run_folder
from unlabel.errors import DataError, SettingsError
from unlabel.train import load_holdings

TABLES = {
    "active": {"table": "bank.csv", "label": "y"},
    "passive": [{"name": "shop", "table": "shop.csv"}],
}
PEOPLE = [f"a{n:02d}" for n in range(20)]


def write(folder: Path) -> None:
    bank = pd.DataFrame({"id": PEOPLE, "y": [0, 1] * 10})
    shop = pd.DataFrame({"id": PEOPLE, "x": range(20)})
    bank.to_csv(folder / "bank.csv", index=False)
    shop.iloc[::-1].to_csv(folder / "shop.csv", index=False)


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "private_set_intersection", None)
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)


def test_tables_in_one_place_need_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    without_library(monkeypatch)
    held = load_holdings(parse_run(TABLES, "x").under(tmp_path))
    assert held.ids.tolist() == PEOPLE
    assert held.features["shop"].values[:, 0].tolist() == list(range(20))


def test_without_the_library_both_remedies_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    without_library(monkeypatch)
    private = {**TABLES, "align": {"method": "psi"}}
    with pytest.raises(SettingsError) as caught:
        load_holdings(parse_run(private, "x").under(tmp_path))
    assert "pip install 'unlabel[federation]'" in str(caught.value)
    assert "align: {method: plaintext}" in str(caught.value)


def test_a_run_of_tables_keeps_how_its_rows_were_matched(tmp_path: Path) -> None:
    said = yaml.safe_load(dump(parse_run(TABLES, "x")))
    assert said["align"]["method"] == "plaintext"
    private = parse_run({**TABLES, "align": {"method": "psi"}}, "x")
    (tmp_path / "run.yaml").write_text(dump(private))
    assert read_run_folder(tmp_path).align == AlignSettings(method="psi")
    assert "align" not in yaml.safe_load(dump(RunConfig(data="digits")))
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(said))
    assert read_run_folder(tmp_path).align == AlignSettings(method="plaintext")
    # One from before there was a choice was matched in the clear.
    del said["align"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(said))
    assert read_run_folder(tmp_path).align.method == "plaintext"


@pytest.mark.parametrize(
    ("align", "passive", "method"),
    [
        ({}, {"table": "shop.csv"}, "plaintext"),
        ({}, {}, "psi"),
        ({"method": "psi"}, {"table": "shop.csv"}, "psi"),
        ({"method": "plaintext"}, {"table": "shop.csv"}, "plaintext"),
        ({"case": "fold"}, {"table": "shop.csv"}, "plaintext"),
        # Only private matching holds to it, so who sets it is not left without.
        ({"smallest": 50}, {"table": "shop.csv"}, "psi"),
        ({"smallest": 50, "method": "plaintext"}, {"table": "shop.csv"}, "plaintext"),
    ],
)
def test_the_method_is_what_suits_where_the_tables_lie(
    align: dict[str, object], passive: dict[str, object], method: str
) -> None:
    raw = {**TABLES, "passive": [{"name": "shop", **passive}], "align": align}
    assert parse_run(raw, "x").align.method == method


def test_an_unknown_method_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        SettingsError, match=r"`align.method` got 'plaintxt' .* Did you mean 'plaintext'"
    ):
        parse_run({**TABLES, "align": {"method": "plaintxt"}}, "x")


def test_ids_have_one_form_in_the_clear_as_well(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "shop.csv").read_text()
    (tmp_path / "shop.csv").write_text(text.replace("a", "A"))
    with pytest.raises(DataError, match=r"'shop'"):
        load_holdings(parse_run(TABLES, "x").under(tmp_path))
    folded = parse_run({**TABLES, "align": {"case": "fold"}}, "x").under(tmp_path)
    assert load_holdings(folded).ids.tolist() == PEOPLE


def test_a_table_that_its_owner_keeps_cannot_be_read_here(tmp_path: Path) -> None:
    write(tmp_path)
    config = parse_run({**TABLES, "passive": [{"name": "shop"}]}, "x").under(tmp_path)
    with pytest.raises(SettingsError, match=r"'shop'"):
        load_holdings(config)
