"""Files as people bring them: cut off, shifted, packed twice, with their ids in odd places."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from coded import coded
from PIL import Image
from unlabel_bench.meshes import parse_off

from unlabel.config import Columns, Pictures
from unlabel.data import load_dataset, read_table
from unlabel.data.dataset import Dataset
from unlabel.data.duplicates import without_repeats
from unlabel.data.tables import dataset_encoding, load_new_rows
from unlabel.errors import DataError, RunError
from unlabel.files import write_shared

# Without the time of day: it would stand in the names of tests, which all processes must share.
PACKED = gzip.compress(("a,label\n" + "1,x\n2,y\n" * 5000).encode(), mtime=0)


# --- tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [PACKED[: len(PACKED) // 2], PACKED[:20] + bytes(4) + PACKED[24:], b"a,label\n1,x\n", b""],
)
def test_a_damaged_packed_file_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t.csv.gz").write_bytes(data)
    with pytest.raises(DataError, match=r"t\.csv\.gz' cannot be read: .+\.$"):
        load_dataset(str(tmp_path / "t.csv.gz"))


@pytest.mark.parametrize("first", ["7", "0"])
def test_a_field_without_a_name_does_not_shift_the_others(tmp_path: Path, first: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"id,a\n{first},p1,2\n1,p2,3\n")
    with pytest.raises(DataError, match="more fields"):
        read_table(path, id_column="id", missing="mean")


def test_a_comma_at_the_end_of_every_row_is_no_field(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,a,b\np1,2,3,\np2,4,5,\n")
    table = read_table(path, id_column="id", missing="mean")
    assert (table.ids.tolist(), table.values.tolist()) == (["p1", "p2"], [[2, 3], [4, 5]])


def test_ids_that_pandas_made_names_of_rows_are_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["b", "a"], "x": [1.0, 2.0]}).set_index("id")
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", id_column="id")
    assert (table.ids.tolist(), table.values.tolist()) == (["b", "a"], [[1], [2]])


# --- a whole dataset in one file -----------------------------------------------------------

SHEET = "key,age,y\n07,30,no\n3,,yes\n2,52,yes\n0,63,no\n"


def sheet(folder: Path, text: str = SHEET) -> str:
    (folder / "people.csv").write_text(text)
    return str(folder / "people.csv")


def test_rows_go_by_their_ids_and_keep_their_numbers_where_others_are_dropped(
    tmp_path: Path,
) -> None:
    named = load_dataset(sheet(tmp_path), columns=Columns(label="y", id="key", missing="drop"))
    assert named.row_names().tolist() == ["07", "2", "0"]
    assert named.x[:, 0].tolist() == [30, 52, 63]
    columns = Columns(label="y", categories=("key",), missing="drop")
    text = SHEET.replace("07", "3").replace("2,52", "3,52")
    numbered = load_dataset(sheet(tmp_path, text), columns=columns)
    assert numbered.row_names().tolist() == ["0", "2", "3"]


def test_an_id_names_one_row(tmp_path: Path) -> None:
    path = sheet(tmp_path, SHEET.replace("07", "2"))
    with pytest.raises(DataError, match="'2'"):
        load_dataset(path, columns=Columns(label="y", id="key", missing="mean"))


def test_new_rows_go_by_their_ids_or_numbers_and_unseen_categories_are_told(tmp_path: Path) -> None:
    path = Path(sheet(tmp_path, "key,job,age,y\n1,cook,3,no\n2,nurse,4,yes\n3,cook,5,no\n"))
    columns = Columns(label="y", id="key", missing="drop")
    encoding = dataset_encoding(path, columns)
    new = tmp_path / "new.csv"
    new.write_text("key,job,age\n9,cook,1\n08,judge,\n07,judge,2\n")
    found = load_new_rows(new, columns, encoding)
    assert (found.ids.tolist(), found.values[:, -1].tolist()) == (["9", "07"], [1, 2])
    assert found.notes()[0].startswith("2 values of 'job'")
    new.write_text("job,age\ncook,1\ncook,\ncook,2\n")
    assert load_new_rows(new, columns, encoding).ids.tolist() == ["0", "2"]


def test_a_sheet_of_gaps_alone_leaves_nothing_to_drop(tmp_path: Path) -> None:
    path = sheet(tmp_path, "age,y\n,no\n,yes\n")
    with pytest.raises(DataError, match="`missing: drop`"):
        load_dataset(path, columns=Columns(label="y", missing="drop"))


def test_labels_of_two_files_are_the_same_whatever_pandas_takes_them_for(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("age,y\n1,1\n2,none of them\n")
    path = sheet(tmp_path, "age,y\n3,1\n4,2\n5,1\n6,2\n")
    found = load_dataset(path, columns=Columns(label="y", test="test.csv"))
    assert found.labels == ("1", "2", "none of them")
    assert found.y.tolist() == [0, 1, 0, 1, 0, 2]


# --- what is kept of images ----------------------------------------------------------------


def write_bitmaps(folder: Path, shade: int) -> None:
    """Write images whose files differ in their pixels alone, not in name, size or time."""
    for number, label in enumerate(("cat", "dog")):
        for row in range(2):
            path = folder / label / f"{row}.bmp"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.full((8, 8), shade + 10 * row + 50 * number, dtype=np.uint8)
            Image.fromarray(pixels).save(path)
            os.utime(path, (0, 0))


def test_other_pixels_are_never_taken_for_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    write_bitmaps(tmp_path / "own", 0)
    write_bitmaps(tmp_path / "other", 100)
    small = Pictures(size=8)
    first = load_dataset("images", tmp_path / "own", pictures=small).x
    assert load_dataset("images", tmp_path / "other", pictures=small).x.min() == 100
    write_bitmaps(tmp_path / "own", 1)
    assert np.array_equal(load_dataset("images", tmp_path / "own", pictures=small).x, first + 1)
    kept = list((tmp_path / "cache").iterdir())
    assert len(kept) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_two_processes_may_keep_the_same_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, path = os.fsync, tmp_path / "kept"

    def meanwhile(handle: int) -> None:
        with monkeypatch.context() as patch:  # another process, in the middle of the first one
            patch.setattr(os, "fsync", sync)
            patch.setattr(os, "getpid", lambda: 1)
            write_shared(path, b"the same")
        sync(handle)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_shared(path, b"the same")
    assert [found.name for found in tmp_path.iterdir()] == ["kept"]
    assert path.read_bytes() == b"the same"
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, check=coded("not-written")):
        write_shared(tmp_path / "file" / "kept", b"")


def test_a_test_part_of_training_images_alone_is_refused() -> None:
    x = np.arange(4, dtype=np.uint8).repeat(64).reshape(4, 1, 8, 8)
    x[2:] = x[:2]
    data = Dataset("twice", x, np.array([0, 1, 0, 1]), ("a", "b"), test=np.array([2, 3]))
    with pytest.raises(DataError, match="all 2 test images"):
        without_repeats(data)


def test_a_line_that_lacks_what_another_has_too_many_is_found() -> None:
    text = "OFF\n3 1 0\n0 0\n0 1 0 0\n0 1 0\n3 0 1 2\n"
    with pytest.raises(DataError, match="line 3"):
        parse_off(text, "A mesh")
