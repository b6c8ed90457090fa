"""The bench `hidden-taught`: its figures are those of the models it names."""

from __future__ import annotations

from math import log

import pytest
import torch
from unlabel_bench.comparison.hidden_taught import (
    FORMS,
    HiddenTaughtSettings,
    divergence,
    measure,
    page,
    table,
)


def test_a_divergence_by_hand() -> None:
    aim = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.float64)
    first = 0.5 * log(2) + 0.5 * log(2 / 3)
    assert divergence(aim, p) == pytest.approx((first + log(2)) / 2)


def test_masks_and_forms_beside_retrained_models() -> None:
    settings = HiddenTaughtSettings(
        runs=("digits:model=mlp:top=linear:epochs=3",), labels=(3,), seeds=1, references=2
    )
    result = measure(settings, lambda _: None)
    found = {entry["model"]: entry for entry in result["summary"]}
    assert next(iter(found)) == "retrained"
    assert found["retrained"]["retained"]["count"] == 2
    original, mask, scaled = (found[m] for m in ("original", "mask", "mask, logits x 1.5"))
    # Entropy and divergence are over the labels that stay, so a mask changes neither.
    for figure in ("entropy", "divergence"):
        assert mask[figure]["mean"] == pytest.approx(original[figure]["mean"])
    assert mask["from_mask"]["mean"] == pytest.approx(0, abs=1e-6)
    assert scaled["retained"] == mask["retained"]
    assert scaled["entropy"]["mean"] < mask["entropy"]["mean"]
    assert original["forgotten"]["mean"] > 0.5
    for model in ("mask", *FORMS):
        assert found[model]["forgotten"]["mean"] == 0
    rows = table(result)
    assert len(rows) == 1 + len(found)
    text = page({**result, "settings": {"seeds": 1, "references": 2}})
    assert "| digits, mlp, linear | hidden |" in text
