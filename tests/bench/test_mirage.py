"""The bench `mirage` on a small run: its lines, its means, and a second start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli.command_line import one_thread
from unlabel_bench import knowledge
from unlabel_bench.comparison.mirage import NUMBERS, SHARES, MirageSettings, summarise
from unlabel_bench.originals import recipe_digest
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES
from unlabel_bench.rivals.ulira import u_lira

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

SMALL = MirageSettings(epochs=1, seeds=1, retrained=2, methods=("mask",))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(knowledge, "STEPS", 20)  # what critics find is no matter here


def test_every_model_is_measured_and_a_second_start_repeats_none(tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("records", "page")}
    settings = replace(SMALL, **files)  # type: ignore[arg-type]
    bench = BENCHES.get("mirage")
    result = bench.run(settings, lambda _: None)
    assert [x["method"] for x in result["records"]] == [
        "retrained",
        "retrained",
        "original",
        "mask",
    ]
    original, retrained, mask = result["summary"]
    assert (original["runs"], retrained["runs"], mask["runs"]) == (1, 2, 1)
    assert original["cka-original"]["mean"] == pytest.approx(1.0)
    assert original["idi"] is None or original["idi"]["mean"] == pytest.approx(1.0)
    # A mask hides an output: whatever looks below it sees the original.
    below = ("lpr", "lpr_gap", "resurfacing", "cka-original", "cka-retrained", "separability")
    assert {name: mask[name] for name in below} == {name: original[name] for name in below}
    assert mask["forgotten"]["mean"] == 0.0
    assert retrained["lpr_gap"]["mean"] == pytest.approx(0.0)
    assert retrained["cka-retrained"]["mean"] < 0.999  # to the other, not to itself
    page = Path(files["page"]).read_text()
    assert all(title in page for title in (*SHARES.values(), *NUMBERS.values()))
    assert "confidences" not in result["records"][0]
    second = bench.run(settings, pytest.fail)  # says nothing: there is nothing to do
    assert second["records"] == result["records"]
    assert second["summary"] == result["summary"]
    with pytest.raises(SettingsError, match="beside 2; name another file"):
        bench.run(replace(settings, retrained=3), pytest.fail)


def test_means_over_seeds_and_the_gap_to_the_mean_retrained_model() -> None:
    def line(method: str, seed: int, lpr: float, sure: float) -> dict[str, object]:
        return {"method": method, "seed": seed, "lpr": lpr, "confidences": [sure, sure]}

    retrained = [line("retrained", n, 0.8 + 0.1 * n, float(n)) for n in range(3)]
    deep = [line("deep", n, 0.95, 5.0 + n) for n in range(3)]
    broken = {"method": "ssd", "seed": 0, "failed": "It failed."}
    first, second, third = summarise([*retrained, *deep, broken], ("retrained", "deep", "ssd"))
    assert first["lpr"]["mean"] == pytest.approx(90)
    assert second["lpr_gap"] == {"mean": pytest.approx(5), "deviation": 0, "count": 3}
    told = u_lira([[5.0] * 2, [6.0] * 2, [7.0] * 2], [[0.0] * 2, [1.0] * 2, [2.0] * 2])
    assert second["u-lira"]["mean"] == told.value
    assert first["u-lira"] is None
    assert (third["runs"], third["failed"], third["lpr"]) == (0, ["It failed."], None)


def test_seeds_on_the_same_rows_differ_in_the_models_alone() -> None:
    recipe = Recipe(same_rows=True)
    first, second = (recipe.federation(seed) for seed in (0, 1))
    own = Recipe().federation(1)
    parts = [x.holdings.rows.train.tolist() for x in (first, second, own)]
    assert parts[0] == parts[1] != parts[2]
    weights = [next(iter(x.active.top.module.parameters())).detach() for x in (first, second)]
    assert not torch.equal(*weights)
    assert recipe_digest(recipe) != recipe_digest(Recipe())


def test_settings_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(SettingsError, match="two retrained"):
        replace(SMALL, retrained=1)
    with pytest.raises(SettingsError, match="same_rows"):
        replace(SMALL, same_rows=False)
