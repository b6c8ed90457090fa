"""How the rows of tables are matched is a choice, which a run keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from unlabel.align import AlignSettings
from unlabel.configfile import dump_config, parse_config, read_run_config
from unlabel.errors import SettingsError
from unlabel.train import RunConfig, load_holdings

TABLES = {
    "active": {"table": "bank.csv", "label": "y"},
    "passive": [{"name": "shop", "table": "shop.csv"}],
}


def write(folder: Path) -> None:
    pd.DataFrame({"id": ["a", "b"], "y": [0, 1]}).to_csv(folder / "bank.csv", index=False)
    pd.DataFrame({"id": ["b", "a"], "x": [0, 1]}).to_csv(folder / "shop.csv", index=False)


def test_without_the_library_both_remedies_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setitem(sys.modules, "private_set_intersection", None)
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(SettingsError) as caught:
        load_holdings(parse_config(TABLES, "x").under(tmp_path))
    assert "pip install 'unlabel[federation]'" in str(caught.value)
    assert "align: {method: clear}" in str(caught.value)


def test_a_run_of_tables_keeps_how_its_rows_were_matched(tmp_path: Path) -> None:
    said = yaml.safe_load(dump_config(parse_config(TABLES, "x")))
    assert said["align"]["method"] == "psi"
    assert "align" not in yaml.safe_load(dump_config(RunConfig(data="digits")))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(said))
    assert read_run_config(tmp_path).align == AlignSettings()
    # One from before there was a choice was matched in the clear.
    del said["align"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(said))
    assert read_run_config(tmp_path).align.method == "clear"


def test_a_table_that_its_owner_keeps_cannot_be_read_here(tmp_path: Path) -> None:
    write(tmp_path)
    config = parse_config({**TABLES, "passive": [{"name": "shop"}]}, "x").under(tmp_path)
    with pytest.raises(SettingsError, match="party 'shop' but its owner keeps it"):
        load_holdings(config)
