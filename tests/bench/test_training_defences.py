"""Noise and compression in training: the bench in a tiny setting, and what its recipe is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli.command_line import one_thread
from unlabel_bench.__main__ import main
from unlabel_bench.comparison import training_defences
from unlabel_bench.comparison.training_defences import TrainingDefencesSettings, levels, summarise
from unlabel_bench.originals import recipe_digest
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

TINY = TrainingDefencesSettings(
    model="mlp",
    epochs=4,
    noises=(0.0, 1e-3, 1e12),
    keeps=(1.0, 0.05),
    methods=("renormalise", "mask"),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def test_each_level_is_trained_and_forgotten_with_its_defence(tmp_path: Path) -> None:
    files = {name: str(tmp_path / "out" / name) for name in ("records", "page", "picture")}
    settings = replace(TINY, **files)  # type: ignore[arg-type]
    result = BENCHES.get("training-defences").run(settings, lambda _: None)
    by = {(x["what"], x["level"], x["method"]): x for x in result["summary"]}
    plain, noisy, few = (
        by[key, level, "original"]["retained"]["mean"]
        for key, level in (("noise", 0.0), ("noise", 1e-3), ("keep", 0.05))
    )
    assert noisy < plain - 10
    assert few > noisy
    # Without a defence both series start at the same model, which is trained once.
    assert by["keep", 1.0, "original"]["retained"]["mean"] == plain
    assert by["noise", 0.0, "renormalise"]["forgotten"]["mean"] < 5
    # A training that cannot go on is a figure too, and nothing is forgotten from it.
    assert by["noise", 1e12, "original"]["runs"] == 0
    assert "not finite" in by["noise", 1e12, "original"]["failed"][0]
    assert len(by["noise", 1e12, "mask"]["failed"]) == 1
    # Again: everything is read, nothing is done, the failed training neither.
    assert BENCHES.get("training-defences").run(settings, pytest.fail) == result
    lines = Path(files["records"]).read_text().splitlines()
    assert len({json.loads(line)["recipe"] for line in lines}) == 4
    text = Path(files["page"]).read_text()
    assert "| 1e+12 | failed | failed | failed |" in text
    assert text.count("\n| 1 | ") == 1
    assert Path(files["picture"]).read_bytes().startswith(b"\x89PNG")
    assert len(training_defences.table(result)) == 1 + 5 * 3
    json.dumps(result)


def test_a_defence_is_part_of_the_recipe_and_none_leaves_it_as_it_was() -> None:
    # As it stands in the records of digits, from before there were defences.
    assert recipe_digest(Recipe()) == "7ebb6e4fa0c8"
    digests = {
        recipe_digest(Recipe()),
        recipe_digest(Recipe(defend_gradients=("top-k:keep=0.5",))),
        recipe_digest(Recipe(defend_gradients=("top-k:keep=0.1",))),
        recipe_digest(Recipe(defend_embeddings=("quantise:bits=4",))),
    }
    assert len(digests) == 4


def test_levels_are_told_in_the_words_of_the_defences() -> None:
    result = list(levels(replace(TINY, noises=(0.0, 1e-4), keeps=(1.0, 0.25))))
    assert result == [
        ("noise", 0.0, ()),
        ("noise", 1e-4, ("gaussian:clip=0:sigma=0.01",)),
        ("keep", 1.0, ()),
        ("keep", 0.25, ("top-k:keep=0.25",)),
    ]


def test_means_are_over_seeds() -> None:
    lines = [
        {"what": "noise", "level": 0.0, "kind": "timing", "method": "original", **figures}
        for figures in ({"retained": 0.9, "forgotten": 0.8}, {"retained": 0.8, "forgotten": None})
    ]
    (entry,) = summarise(lines, ["original"])
    assert entry["retained"]["mean"] == pytest.approx(85)
    assert entry["forgotten"] == {"mean": 80.0, "deviation": 0.0, "count": 1}
    assert (entry["runs"], entry["failed"]) == (2, [])


def test_settings_that_cannot_work_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match=r"`noises`"):
        replace(TINY, noises=(-1.0,))
    with pytest.raises(SettingsError, match=r"`keeps`"):
        replace(TINY, keeps=(0.0,))
    with pytest.raises(SettingsError, match=r"`noises`"):
        BENCHES.get("training-defences").run(
            replace(TINY, defend_gradients=("top-k",)), pytest.fail
        )
    assert main(["training-defences", "seeds=0"]) == 1
    assert "at least one label and one seed" in capsys.readouterr().err
