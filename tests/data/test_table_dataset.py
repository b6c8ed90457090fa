"""Texts in one CSV or Parquet file: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from unlabel.config import Columns
from unlabel.data import load_dataset
from unlabel.data.tables import load_new_texts, read_table
from unlabel.errors import DataError

TEXTS = ["where is my card", "NA", "007", "größer 大 🙂", 'he said "no", twice\nand left', "null"]
LABELS = ["lost", "other", "other", "lost", "other", "lost"]
COLUMNS = Columns(label="topic", text="words")


def frame(**more: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"topic": LABELS, "words": TEXTS, **more})


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_texts_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    write = frame().to_parquet if name.endswith("parquet") else frame().to_csv
    write(tmp_path / name, index=False)
    data = load_dataset(name, tmp_path, columns=COLUMNS)
    assert (data.name, data.layout, data.labels) == ("t", "text", ("lost", "other"))
    assert data.x.tolist() == TEXTS
    assert data.y.tolist() == [0, 1, 1, 0, 1, 0]
    assert len(data.test) == 0


def test_a_file_of_test_rows_lies_beside(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "train.csv.gz", index=False)
    frame().iloc[:2].to_csv(tmp_path / "held.csv", index=False)
    columns = Columns(label="topic", text="words", test="held.csv")
    data = load_dataset("train.csv.gz", tmp_path, columns=columns)
    assert data.test.tolist() == [6, 7]
    assert data.x[6:].tolist() == TEXTS[:2]


def test_a_column_names_the_rows_to_test_on(tmp_path: Path) -> None:
    frame(part=["train", "test", "train", "test", "train", "train"]).to_csv(
        tmp_path / "t.csv", index=False
    )
    columns = Columns(label="topic", text="words", split="part")
    assert load_dataset("t.csv", tmp_path, columns=columns).test.tolist() == [1, 3]
    frame(part=["train"] * 6).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="'test' in 'part'"):
        load_dataset("t.csv", tmp_path, columns=columns)


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_a_row_without_text_is_named(tmp_path: Path, empty: str) -> None:
    found = frame()
    found.loc[[2, 4], "words"] = empty
    found.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"row 3 .*'words' \(2 rows"):
        load_dataset("t.csv", tmp_path, columns=COLUMNS)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"text column 'word'.*'words'"):
        load_dataset("t.csv", tmp_path, columns=Columns(label="topic", text="word"))
    with pytest.raises(DataError, match="label column 'label'"):
        load_dataset("t.csv", tmp_path, columns=Columns(text="words"))
    with pytest.raises(DataError, match=r"text column 'word'.*'words'"):
        load_new_texts(tmp_path / "t.csv", Columns(text="word"))


def test_new_texts_need_no_labels(tmp_path: Path) -> None:
    frame().drop(columns="topic").to_csv(tmp_path / "new.csv", index=False)
    texts, _ = load_new_texts(tmp_path / "new.csv", COLUMNS)
    assert texts.tolist() == TEXTS


def test_no_id_means_that_one_is_missing(tmp_path: Path) -> None:
    ids = ["NA", "007", "null", "nan", "1e5", "True"]
    frame(id=ids).to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", id_column="id", text_column="words")
    assert table.ids.tolist() == ids


def test_a_partys_table_may_hold_texts(tmp_path: Path) -> None:
    ids = [f"0{n}" for n in range(6)]
    frame(id=ids, age=["1"] * 6).to_csv(tmp_path / "t.csv", index=False)
    table = read_table(
        tmp_path / "t.csv", id_column="id", label_column="topic", text_column="words"
    )
    assert table.columns == ("words",)
    assert table.texts is not None
    assert table.labels is not None
    taken = table.take([3, 0])  # type: ignore[arg-type]
    assert taken.texts is not None
    assert (taken.ids.tolist(), taken.texts.tolist()) == (["03", "00"], [TEXTS[3], TEXTS[0]])
    with pytest.raises(DataError, match="text column 'ages'"):
        read_table(tmp_path / "t.csv", id_column="id", text_column="ages")
