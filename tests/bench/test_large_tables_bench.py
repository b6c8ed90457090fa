"""The bench of large tables: its stages on a small one, and what its page says of them."""

from __future__ import annotations

import json
from pathlib import Path

from unlabel_bench.speed import large_stage
from unlabel_bench.speed.large_tables import FORMS, LargeTablesSettings, make_tables, measure, page

from unlabel.data import read_table


def test_every_form_holds_the_same_table_and_stages_follow_each_other(tmp_path: Path) -> None:
    make_tables(tmp_path, 1000, 6, seed=0)
    forms = [
        read_table(tmp_path / f"bank.{form}", id_column="id", label_column="kind") for form in FORMS
    ]
    assert all((each.ids == forms[0].ids).all() for each in forms)
    assert all(each.values.tobytes() == forms[0].values.tobytes() for each in forms[:2])
    assert abs(forms[2].values - forms[0].values).max() < 1e-12
    assert forms[0].columns == ("x0", "x1", "x2")
    assert len(forms[0].encoding.columns[2].categories or ()) == 3
    assert large_stage.train(tmp_path, "run")["used"] == 900
    large_stage.forget(tmp_path, "")
    large_stage.commit(tmp_path, "")


def test_what_is_recorded_is_not_measured_again(tmp_path: Path) -> None:
    records = tmp_path / "lines.jsonl"
    lines = [
        {
            "recipe": "50 columns, seed 0",
            "rows": rows,
            "stage": "read",
            "about": f"bank.{form}",
            "seconds": 9.0,
            "cpu": 1 + rows / 1e5,
            "peak_bytes": 2**30 * rows // 10**5,
        }
        for rows in (10_000, 1_000_000)
        for form in FORMS
    ]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = LargeTablesSettings((10_000, 1_000_000), stages=("read",), records=str(records))
    result = measure(settings, print)
    text = page({**result, "settings": {"columns": 50}})
    assert "| read bank.csv | 1,000,000 | 11.0 | 10.0 | 10.00 |" in text
    assert "**missed**, 10.00 GiB" in text
    assert "Not recorded at 1,000,000 rows: match shop, train run" in text
