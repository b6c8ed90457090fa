"""The bottom for texts beside TF-IDF with a logistic regression, on a made-up corpus."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cli.command_line import user_module
from unlabel_bench.comparison.text_bottom import TextBottomSettings
from unlabel_bench.comparison.text_bottom import measure as run
from unlabel_bench.registry import BENCHES

from unlabel.config import TrainSettings
from unlabel.errors import SettingsError

#: The bottom `words` of version 0.6: the mean of word vectors, ReLU, one layer.
MEAN = """
from torch import nn

def mean(text):
    bag = nn.EmbeddingBag(text.vocabulary, 64, padding_idx=0)
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.layer = bag, nn.Linear(64, 64)
        def forward(self, x):
            return self.layer(self.bag(x.long()).relu())
    return Mean()
"""


def write_corpus(folder: Path, rows: int = 600, labels: int = 4) -> None:
    """Write texts of 90 common words, among which 4 of a label's 40 lie anywhere."""
    rng = np.random.default_rng(0)
    common = 1 / np.arange(1, 1501)
    with (folder / "made.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["topic", "note"])
        for row in range(rows):
            label = row % labels
            entries = [f"w{n}" for n in rng.choice(1500, 90, p=common / common.sum())]
            entries += [f"t{label}x{n}" for n in rng.choice(40, 4, replace=False)]
            lines.writerow([f"topic {label}", " ".join(rng.permutation(entries))])


def settings_of(folder: Path, **more: object) -> TextBottomSettings:
    source = "made.csv label=topic text=note"
    return TextBottomSettings(
        **{"sources": (source,), "folder": str(folder), "sizes": (0,), "seeds": (0,), **more}  # type: ignore[arg-type]
    )


@pytest.mark.long
def test_words_reach_a_linear_model_on_tf_idf_where_the_mean_of_vectors_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path)
    user_module(monkeypatch, tmp_path, "means", MEAN)
    messages: list[str] = []
    words = run(settings_of(tmp_path), messages.append)
    assert [group["parties"] for group in words["groups"]] == [1, 2]
    for group in words["groups"]:
        assert group["stretches"] > 80
        assert group["model"] >= group["stretches"] - 3
    (mean,) = run(settings_of(tmp_path, model="means:mean", parties=(1,)), messages.append)[
        "groups"
    ]
    assert mean["model"] < mean["whole"] - 10
    assert messages[0].startswith("made, all rows, 1 parties: ")
    lines = BENCHES.get("text-bottom").table(words)
    assert [line[2] for line in lines] == ["parties", "1", "2"]
    json.dumps(words)


def test_rows_are_drawn_from_beside_the_test_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path, rows=300)
    few = partial(TrainSettings, epochs=1)
    monkeypatch.setattr("unlabel_bench.comparison.text_bottom.TrainSettings", few)
    result = run(settings_of(tmp_path, sizes=(100, 0), parties=(1,)), lambda _: None)["runs"]
    assert [one["tested"] for one in result] == [60, 60]
    assert result[0]["trained"] < 100 < result[1]["trained"] < 240


@pytest.mark.parametrize("wrong", [{"seeds": ()}, {"sizes": (-1,)}, {"parties": ()}])
def test_settings_that_measure_nothing_are_refused(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(SettingsError, match=f"Expected `{next(iter(wrong))}` to be"):
        settings_of(tmp_path, **wrong)


def test_a_file_without_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made.csv").write_text("topic,age\na,1\nb,2\n")
    settings = settings_of(tmp_path, sources=("made.csv label=topic",))
    with pytest.raises(SettingsError, match=r"'made\.csv'"):
        run(settings, lambda _: None)
