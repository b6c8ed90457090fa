"""`unlabel bench blind-federation` over real federations, on a small table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from unlabel_bench.blind.blind_federation import BlindFederationSettings, page, table
from unlabel_bench.registry import BENCHES


@pytest.mark.long
def test_both_kinds_train_on_the_same_table_and_the_partner_is_called_rarely_in_one(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 4))
    lines = [f"P{n},{int(row.sum() > 0)},{','.join(map(str, row))}" for n, row in enumerate(x)]
    (tmp_path / "small.csv").write_text("\n".join(["who,y,a,b,c,d", *lines]) + "\n")
    settings = BlindFederationSettings(
        table="small.csv:label=y:id=who:holder=a+b", folder=str(tmp_path), width=1.0, epochs=2
    )
    result = BENCHES.get("blind-federation").run(settings, lambda _: None)
    (blind,), (supervised,) = result["runs"]["blind"], result["runs"]["supervised"]
    assert blind["traffic"]["training"]["requests"] == dict.fromkeys(
        ("BeginLabelFree", "Freeze", "Embed", "AttestBase"), 1
    )
    assert supervised["traffic"]["training"]["requests"]["Gradients"] >= 8
    assert supervised["epochs"] == 2
    assert blind["auc"] > 0.9
    assert result["ratios"]["training"][0] == supervised["training"] / blind["training"]
    assert table(result)[0] == ["what", "blind", "supervised"]
    assert "small" in page(result)
    json.dumps(result)
