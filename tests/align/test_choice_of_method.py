"""How the rows of tables are matched is a choice, which a run keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from unlabel.align import AlignSettings
from unlabel.configfile import dump_config, parse_config, read_run_config
from unlabel.errors import DataError, SettingsError
from unlabel.train import RunConfig, load_holdings

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
    held = load_holdings(parse_config(TABLES, "x").under(tmp_path))
    assert held.ids.tolist() == PEOPLE
    assert held.features["shop"].values[:, 0].tolist() == list(range(20))


def test_without_the_library_both_remedies_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    without_library(monkeypatch)
    private = {**TABLES, "align": {"method": "psi"}}
    with pytest.raises(SettingsError) as caught:
        load_holdings(parse_config(private, "x").under(tmp_path))
    assert "pip install 'unlabel[federation]'" in str(caught.value)
    assert "align: {method: clear}" in str(caught.value)


def test_a_run_of_tables_keeps_how_its_rows_were_matched(tmp_path: Path) -> None:
    said = yaml.safe_load(dump_config(parse_config(TABLES, "x")))
    assert said["align"]["method"] == "clear"
    private = parse_config({**TABLES, "align": {"method": "psi"}}, "x")
    (tmp_path / "config.yaml").write_text(dump_config(private))
    assert read_run_config(tmp_path).align == AlignSettings(method="psi")
    assert "align" not in yaml.safe_load(dump_config(RunConfig(data="digits")))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(said))
    assert read_run_config(tmp_path).align == AlignSettings(method="clear")
    # One from before there was a choice was matched in the clear.
    del said["align"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(said))
    assert read_run_config(tmp_path).align.method == "clear"


@pytest.mark.parametrize(
    ("align", "passive", "method"),
    [
        ({}, {"table": "shop.csv"}, "clear"),
        ({}, {}, "psi"),
        ({"method": "psi"}, {"table": "shop.csv"}, "psi"),
        ({"method": "clear"}, {"table": "shop.csv"}, "clear"),
        ({"case": "fold"}, {"table": "shop.csv"}, "clear"),
        # Only private matching holds to it, so who sets it is not left without.
        ({"smallest": 50}, {"table": "shop.csv"}, "psi"),
        ({"smallest": 50, "method": "clear"}, {"table": "shop.csv"}, "clear"),
    ],
)
def test_the_method_is_what_suits_where_the_tables_lie(
    align: dict[str, object], passive: dict[str, object], method: str
) -> None:
    raw = {**TABLES, "passive": [{"name": "shop", **passive}], "align": align}
    assert parse_config(raw, "x").align.method == method


def test_an_unknown_method_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"`align.method` got 'clera' .* Did you mean 'clear'"):
        parse_config({**TABLES, "align": {"method": "clera"}}, "x")


def test_ids_have_one_form_in_the_clear_as_well(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "shop.csv").read_text()
    (tmp_path / "shop.csv").write_text(text.replace("a", "A"))
    with pytest.raises(DataError, match="'shop' has none of the 20 ids of 'active', such as 'a00'"):
        load_holdings(parse_config(TABLES, "x").under(tmp_path))
    folded = parse_config({**TABLES, "align": {"case": "fold"}}, "x").under(tmp_path)
    assert load_holdings(folded).ids.tolist() == PEOPLE


def test_a_table_that_its_owner_keeps_cannot_be_read_here(tmp_path: Path) -> None:
    write(tmp_path)
    config = parse_config({**TABLES, "passive": [{"name": "shop"}]}, "x").under(tmp_path)
    with pytest.raises(SettingsError, match="party 'shop' but its owner keeps it"):
        load_holdings(config)
