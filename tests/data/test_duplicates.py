"""The same picture in training and test, and what a person is told of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unlabel.cli.main import app
from unlabel.config import Pictures, RunConfig, TrainSettings
from unlabel.data import Dataset, load_dataset
from unlabel.data.duplicates import find_repeats, note_repeats, without_repeats
from unlabel.data.npz import load_npz
from unlabel.federation import Federation
from unlabel.train.notes import uneven_labels

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def dataset(kinds: list[int], labels: list[int], test: list[int]) -> Dataset:
    """Return images of which those of a kind are alike."""
    distinct = RNG.integers(0, 256, (max(kinds) + 1, 1, 4, 4), dtype=np.uint8)
    rows = np.array(test, dtype=np.int64)
    return Dataset("mine", distinct[kinds], np.array(labels), ("a", "b"), test=rows)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1))
def test_repeats_are_what_comparing_every_pair_finds(drawn: list[tuple[int, bool, bool]]) -> None:
    x = np.array([[kind] for kind, _, _ in drawn], dtype=np.uint8)
    y = np.array([label for _, label, _ in drawn], dtype=np.int64)
    tested = np.array([test for _, _, test in drawn])
    found = find_repeats(x, y, np.flatnonzero(tested))
    for row, kind in enumerate(x[:, 0]):
        same = x[:, 0] == kind
        before = same & (np.arange(len(x)) < row) & (tested == tested[row])
        in_train = bool(tested[row] and (same & ~tested).any())
        assert found.test_in_train[row] == in_train
        assert found.train_twice[row] == bool(not tested[row] and before.any())


def counts_in(data: Dataset) -> list[list[int]]:
    """Return the numbers in each note of a dataset."""
    return [[int(number) for number in re.findall(r"\d+", note)] for note in data.notes]


def test_test_rows_that_were_trained_on_are_left_out_and_told() -> None:
    data = dataset([0, 1, 1, 2, 3, 0, 4, 1], [0, 0, 0, 1, 1, 0, 1, 1], test=[4, 5, 6, 7])
    found = without_repeats(data)
    assert np.array_equal(found.x, data.x[[0, 1, 2, 3, 4, 6]])
    assert found.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.test.tolist() == [4, 5]
    assert counts_in(found) == [[2, 4, 1], [1, 4]]  # of test, with another label; of training


def test_where_a_test_part_is_drawn_every_image_is_kept_once() -> None:
    data = dataset([0, 1, 0, 2, 2, 2], [0, 0, 0, 1, 1, 1], test=[])
    found = without_repeats(data)
    assert np.array_equal(found.x, data.x[[0, 1, 3]])
    assert (found.y.tolist(), found.test.tolist()) == ([0, 0, 1], [])
    assert counts_in(found) == [[3, 6]]


def test_without_repeats_nothing_changes_and_nothing_is_said() -> None:
    data = dataset([0, 1, 2, 3], [0, 1, 0, 1], test=[3])
    for found in (without_repeats(data), note_repeats(data, "do")):
        assert found.notes == ()
        assert np.array_equal(found.x, data.x)
        assert found.test.tolist() == [3]


def test_a_file_of_arrays_tells_its_repeats_and_keeps_them(tmp_path: Path) -> None:
    data = dataset([0, 1, 2, 0, 3], [0, 1, 0, 0, 1], test=[])
    parts: dict[str, Any] = {"x_train": data.x[:3], "y_train": data.y[:3], "x_test": data.x[3:]}
    path = tmp_path / "mine.npz"
    np.savez(path, **parts, y_test=data.y[3:])
    found = load_npz(path)
    assert len(found.test) == 2
    assert counts_in(found) == [[1, 2]]
    assert "'test_in_train'" in found.notes[0]
    np.savez(path, **parts, y_test=data.y[3:], test_in_train=np.array([True, False]))
    assert (len(load_npz(path).test), load_npz(path).notes) == (1, ())
    np.savez(path, **parts, y_test=data.y[3:], test_in_train=np.array([], dtype=int))
    assert (len(load_npz(path).test), load_npz(path).notes) == (2, ())


def test_people_of_a_table_may_be_alike(tmp_path: Path) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.savez(tmp_path / "t.npz", x_train=x, y_train=[0, 1], x_test=x, y_test=[0, 1])
    assert load_npz(tmp_path / "t.npz").notes == ()


@pytest.mark.parametrize(("rows", "said"), [(3, False), (4, True)])
def test_uneven_labels_are_told_from_more_than_three_to_one(rows: int, said: bool) -> None:
    labels = torch.tensor([0] * rows + [1, 1, 0, 0, 0])  # the last four are not trained on
    train = torch.arange(rows + 1)
    notes = uneven_labels(labels, ("Normal", "Viral"), train, balanced=False)
    assert bool(notes) == said
    assert uneven_labels(labels, ("Normal", "Viral"), train, balanced=True) == ()
    if said:
        assert notes[0].startswith("Label 'Normal' has 4 training rows but 'Viral' only 1: ")


def write_images(folder: Path) -> None:
    """Write images of two labels, one of them rare, and a test image that is trained on too."""
    for part, counts in (("Training", (40, 10)), ("Testing", (4, 4))):
        for label, count in zip(("common", "rare"), counts, strict=True):
            (folder / part / label).mkdir(parents=True)
            for number in range(count):
                pixels = RNG.integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / label / f"{number}.png")
    same = (folder / "Training/common/0.png").read_bytes()
    (folder / "Testing/common/2.png").write_bytes(same)


def test_notes_reach_the_person_who_trains_and_stay_with_the_active_party(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_images(tmp_path / "own")
    (tmp_path / "run.yaml").write_text(
        "data: images\nfolder: own\npictures: {size: 8}\nmodel: {bottom: mlp}\n"
        "train: {epochs: 1, batch: 8}\n"
    )
    run = tmp_path / "run"
    app(["train", str(tmp_path / "run.yaml"), "--out", str(run), "--json"], standalone_mode=False)
    said = capsys.readouterr()
    notes = json.loads(said.out)["notes"]
    assert [note.split(":")[0] for note in notes] == [
        "1 of the 8 test images of 'images' stand in its training part too, pixel for pixel, and "
        "are left out.",
        "Label 'common' has 32 training rows but 'rare' only 8",
    ]
    assert all(f"Note: {note}\n" in said.err for note in notes)
    assert (run / "active/data-notes.txt").read_text().splitlines() == notes
    reopened = Federation.open(run)
    assert list(reopened.notes) == notes
    assert reopened.config.pictures == Pictures(size=8)
    assert len(reopened.holdings.rows.test) == 7


def test_balance_and_even_labels_leave_nothing_to_say(tmp_path: Path) -> None:
    write_images(tmp_path / "own")
    (tmp_path / "own/Testing/common/2.png").unlink()
    config = RunConfig(
        data="images",
        folder=tmp_path / "own",
        pictures=Pictures(size=8),
        train=TrainSettings(epochs=1, batch=8, balance=True),
    )
    assert Federation.create(config, tmp_path / "run").notes == ()
    assert not (tmp_path / "run/active/data-notes.txt").exists()
    assert load_dataset("digits").notes == ()
