"""Yahoo! Answers, read from small files in the official layout."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from unlabel_bench.sources import yahoo_answers

from unlabel.data import load_dataset
from unlabel.data.splits import check_split, split_texts
from unlabel.errors import DataError

NAMES = [f"Topic {n} & more" for n in range(1, 11)]
Line = tuple[object, ...]


def line(label: object, *fields: str) -> Line:
    return (label, *fields)


def write(folder: Path, name: str, lines: list[Line]) -> None:
    """Write a file as the official ones are: every field quoted, quotes inside doubled."""
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "classes.txt").write_text("\n".join(NAMES) + "\n", encoding="utf-8")
    for name, rows in (("train.csv", 3), ("test.csv", 2)):
        lines = [
            line(label, f"title {label} {row}?", "", f"answer of {name}")
            for row in range(rows)
            for label in range(1, 11)
        ]
        write(tmp_path, name, lines)
    return tmp_path


def test_the_official_layout_is_read(folder: Path) -> None:
    data = load_dataset("yahoo-answers", folder)
    assert (data.layout, data.x.shape, data.labels) == ("text", (50,), tuple(NAMES))
    assert data.test.tolist() == list(range(30, 50))
    assert data.y[:11].tolist() == [*range(10), 0]
    assert data.x[0] == "title 1 0? answer of train.csv"
    assert data.x[30] == "title 1 0? answer of test.csv"
    check_split(data, "texts")


def test_quotes_new_lines_and_empty_fields(folder: Path) -> None:
    lines = [line(label, f"t{label}", "", "") for label in range(1, 11)]
    lines[0] = line(1, 'why "this"?', r"first\nsecond", "a, b\nc")
    lines[1] = line(2, "", "", "größer 大")
    lines.insert(2, line(2, "", r"\n", " "))  # not a word in it
    write(folder, "train.csv", lines)
    data = load_dataset("yahoo-answers", folder)
    assert data.x[0] == 'why "this"? first second a, b c'
    assert data.x[1] == "größer 大"
    assert data.y[:10].tolist() == list(range(10))  # the row without a word is left out
    halves = split_texts(data.x.tolist()[:1], 2)
    assert halves == {"passive-1": ['why "this"? first second'], "passive-2": ["a, b c"]}


def test_the_first_rows_of_each_label_are_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (yahoo_answers.TRAINED, yahoo_answers.TESTED) == (5000, 2000)
    monkeypatch.setattr(yahoo_answers, "TRAINED", 2)
    monkeypatch.setattr(yahoo_answers, "TESTED", 1)
    data = load_dataset("yahoo-answers", folder)
    assert len(data.y) == 30
    assert data.test.tolist() == list(range(20, 30))
    assert [text.split()[2] for text in data.x[:20]] == ["0?"] * 10 + ["1?"] * 10


@pytest.mark.parametrize(
    ("label", "fields", "message"),
    [
        ("0", ("t", "", ""), "line 4: .*'0'"),
        ("11", ("t", "", ""), "line 4: .*'11'"),
        ("sport", ("t", "", ""), "line 4: .*'sport'"),
        ("²", ("t", "", ""), "line 4: .*'²'"),
        ("1", ("t", ""), "line 4: .* 4 .* 3"),
        ("1", ("t", "", "", ""), "line 4: .* 4 .* 5"),
    ],
)
def test_a_bad_line_is_named(
    folder: Path, label: str, fields: tuple[str, ...], message: str
) -> None:
    lines = [line(n, "t", "", "") for n in range(1, 11)]
    write(folder, "test.csv", [*lines[:3], line(label, *fields), *lines[3:]])
    with pytest.raises(DataError, match=message):
        load_dataset("yahoo-answers", folder)


def test_a_class_without_rows_is_noticed(folder: Path) -> None:
    write(folder, "test.csv", [line(n, "t", "", "") for n in range(1, 10)])
    with pytest.raises(DataError, match=r"test\.csv' .*class 10"):
        load_dataset("yahoo-answers", folder)


def test_files_that_are_no_csv_are_refused(folder: Path) -> None:
    (folder / "train.csv").write_bytes(b'"1","never ended\n')
    with pytest.raises(DataError, match=r"train\.csv' is no CSV"):
        load_dataset("yahoo-answers", folder)
    (folder / "train.csv").write_bytes(b'"1","\xff\xfe","",""\n')
    with pytest.raises(DataError, match=r"train\.csv' is no CSV"):
        load_dataset("yahoo-answers", folder)


@pytest.mark.parametrize("name", ["train.csv", "test.csv", "classes.txt"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        load_dataset("yahoo-answers", folder)


def test_names_must_be_ten(folder: Path) -> None:
    (folder / "classes.txt").write_text("\n".join(NAMES[:9] + NAMES[:1]))
    with pytest.raises(DataError, match=r"classes\.txt'.* 10 .* 9 "):
        load_dataset("yahoo-answers", folder)


def test_without_a_folder_the_error_says_where_the_data_is() -> None:
    with pytest.raises(DataError, match=r"Zhang, Zhao and LeCun.*`folder`"):
        load_dataset("yahoo-answers")
