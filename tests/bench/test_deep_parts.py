"""The bench `deep-parts`: it goes on from its records, which say what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench import knowledge
from unlabel_bench.comparison.deep_parts import DeepPartsSettings, measure, page, summary, table
from unlabel_bench.measures import settings_digest
from unlabel_bench.records import read_lines

from unlabel.words import parse_settings

__all__ = ["one_thread"]  # a fixture for every test here

RESULTS = Path(__file__).parents[2] / "results"
MODELS = ("original", "retrained:1", "deep:epochs=1")


def test_it_goes_on_from_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(knowledge, "STEPS", 20)  # few, to be quick
    monkeypatch.setattr(knowledge, "DRAWS", 2)
    words = ["data=digits", "model=mlp", "epochs=2", "labels=3", f"models={','.join(MODELS)}"]
    file = tmp_path / "parts.jsonl"
    settings = parse_settings(DeepPartsSettings, [*words, f"records={file}"])
    result = measure(settings, lambda _: None)
    lines, torn = read_lines(file)
    assert [line["model"] for line in lines] == list(MODELS)
    assert not torn
    assert [line["epochs"] for line in lines] == [2, 1, 1]
    assert all(line["forgotten"] == 0.0 for line in lines[1:])
    assert {line["where"]["device"][:3] for line in lines} == {"cpu"}

    said: list[str] = []
    assert measure(settings, said.append) == result
    assert said == []
    *whole, _ = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(whole), encoding="utf-8")
    second = measure(settings, said.append)
    assert [text.partition(": ")[0] for text in said] == ["seed 0 label 3 deep:epochs=1"]
    for old, new in zip(result["records"], second["records"], strict=True):
        assert {**old, "seconds": 0} == {**new, "seconds": 0}

    about = {name: getattr(settings, name) for name in ("data", "parties", "model", "epochs")}
    text = page({**second, "settings": {**about, "seeds": (0,), "note": ""}})
    assert "| 3 | deep:epochs=1 | 1 | 1 |" in text
    assert len(table(second)) == 1 + len(MODELS)


def line(model: str, epochs: int, retained: float, probe: float, told: float) -> dict[str, Any]:
    figures = dict.fromkeys(("forgotten", "asr", "few_1", "few_5", "few_10", "seconds"), 0.0)
    parts = {"retained": retained, "probe_linear": probe, "information": told}
    return {"request": "0", "model": model, "seed": 0, "epochs": epochs, **figures, **parts}


def test_gaps_by_hand() -> None:
    lines = [
        line("original", 8, 0.90, 0.95, 0.50),
        line("retrained", 8, 0.91, 0.75, 0.30),
        line("retrained:2", 2, 0.80, 0.65, 0.20),
        line("deep", 2, 0.905, 0.80, 0.35),
    ]
    found = next(entry for entry in summary(lines) if entry["model"] == "deep")
    gaps = ("gap_full", "gap_matched", "residual_full", "residual_matched", "idi", "lost")
    assert [found[name]["mean"] for name in gaps] == pytest.approx([5, 15, 0.25, 0.5, 0.25, 0.5])


@pytest.mark.parametrize("path", sorted(RESULTS.glob("deep_parts_*.jsonl")), ids=lambda p: p.stem)
def test_words_of_a_record_mean_what_was_measured(path: Path) -> None:
    """A default that changes makes its words mean another method: this fails then."""
    lines, _ = read_lines(path)
    deep = [x for x in lines if x["model"].startswith("deep")]
    assert deep
    assert [settings_digest(x["model"]) for x in deep] == [x["settings"] for x in deep]
