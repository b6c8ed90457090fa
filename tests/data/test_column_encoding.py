"""Columns of a table as numbers: categories, missing values, and what is kept of them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config import Columns, Missing
from unlabel.data import Features, Scaling, cells, load_dataset, read_table
from unlabel.data.column_encoding import FILE, MOST, Column, Encoding, stored_encoding
from unlabel.data.tables import dataset_encoding, load_new_rows
from unlabel.errors import CheckpointError, DataError

TEXT = """\
id,job,code,age,member
1,cook,2,30,True
2,nurse,1,41,False
3,cook,10,52,True
4, nurse ,2,,False
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(TEXT)
    return path


def read(path: Path, **options: Any) -> Any:
    return read_table(path, id_column="id", **options)


# --- categories ----------------------------------------------------------------------------


def test_text_becomes_a_mark_a_category_and_numbers_stay(path: Path) -> None:
    table = read(path, missing="mean")
    assert table.columns == ("job", "code", "age", "member")
    assert table.encoding.blocks == (2, 1, 1, 1)
    assert table.encoding.indicators.tolist() == [True, True, False, False, False]
    assert table.values[:3].tolist() == [[1, 0, 2, 30, 1], [0, 1, 1, 41, 0], [1, 0, 10, 52, 1]]
    assert table.values[3, [0, 1, 2, 4]].tolist() == [0, 1, 2, 0]  # blanks around a text are none
    assert np.isnan(table.values[3, 3])


def test_codes_are_categories_where_that_is_said(path: Path) -> None:
    table = read(path, categories=["code"], features=["code"])
    # Sorted as texts: 1, 10, 2.
    assert table.encoding.columns == (Column("code", ("1", "10", "2")),)
    assert table.values.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(DataError, match=r"`categories`: .*'cods'.*'code'"):
        read(path, categories=["cods"])


def test_a_category_is_the_same_however_a_file_writes_it(path: Path, tmp_path: Path) -> None:
    encoding = read(path, categories=["code"], features=["code", "member"]).encoding
    other = tmp_path / "other.csv"
    other.write_text("id,code,member\n1,2.0,TRUE\n2,10.0,false\n")
    found = read(other, features=["code", "member"], encoding=encoding)
    assert found.values.tolist() == [[0, 0, 1, 1], [0, 1, 0, 0]]
    frame = pd.DataFrame({"id": ["a", "b"], "code": [1.0, 2.0], "member": [True, False]})
    frame.to_parquet(tmp_path / "other.parquet", index=False)
    found = read(tmp_path / "other.parquet", encoding=encoding)
    assert found.values.tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]


def test_the_most_frequent_categories_have_a_mark_and_the_rest_share_one() -> None:
    # Category n stands in n + 1 rows, so the last 32 of 40 are the most frequent.
    texts = [f"c{n:02d}" for n in range(40) for _ in range(n + 1)]
    encoding = Encoding.fit(pd.DataFrame({"c": texts}), ["c"])
    (column,) = encoding.columns
    assert column == Column("c", tuple(f"c{n:02d}" for n in range(8, 40)), other=True)
    assert len(column.indicators()) == MOST + 1
    found = encoding.apply(pd.DataFrame({"c": ["c00", "c39", "never seen"]}))
    assert found.values.argmax(1).tolist() == [32, 31, 32]
    assert found.values.sum(1).tolist() == [1, 1, 1]


def test_a_category_not_seen_before_is_no_mark_and_counted(path: Path, tmp_path: Path) -> None:
    encoding = read(path, features=["job"]).encoding
    (tmp_path / "new.csv").write_text("id,job\n1,judge\n2,cook\n3,pilot\n")
    found = read(tmp_path / "new.csv", encoding=encoding)
    assert found.values.tolist() == [[0, 0], [1, 0], [0, 0]]
    (note,) = found.notes()
    assert note.startswith("2 values of 'job' are of categories that training had not")
    assert "judge" not in note


@pytest.mark.parametrize(
    "values",
    [
        [f"person {n}" for n in range(10)],
        [f"word {n % 60}" for n in range(100)],  # 60 texts in 100 rows
    ],
)
def test_ids_and_free_text_are_no_categories(values: list[str]) -> None:
    with pytest.raises(DataError, match=r"`features`, or .* `text`"):
        Encoding.fit(pd.DataFrame({"c": values}), ["c"])


def test_a_slip_of_the_pen_makes_no_categories_of_amounts(path: Path) -> None:
    path.write_text(TEXT.replace(",10,", ",ten,"))
    with pytest.raises(DataError, match=r"'code' .* row 3"):
        read(path, missing="mean")
    # Whoever means it says so.
    table = read(path, missing="mean", categories=["code"])
    assert table.encoding.columns[1].categories == ("1", "2", "ten")
    with pytest.raises(DataError, match="'code'"):
        Encoding.fit(pd.DataFrame({"code": ["1", "2", "1"]}), ["code"])


def test_what_is_neither_a_number_nor_a_category_is_named() -> None:
    dates = pd.DataFrame({"day": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    with pytest.raises(DataError, match=r"'day' .*datetime"):
        Encoding.fit(dates, ["day"])
    with pytest.raises(DataError, match=r"'c' .* list"):
        Encoding.fit(pd.DataFrame({"c": [[1], [2]]}), ["c"])
    numbers = Encoding.fit(pd.DataFrame({"x": [1.0, 2.0]}), ["x"])
    with pytest.raises(DataError, match="'x' is not numeric"):
        numbers.apply(pd.DataFrame({"x": ["many", "few"]}))


# --- missing values ------------------------------------------------------------------------


def test_missing_values_are_refused_with_the_choices_named(path: Path) -> None:
    with pytest.raises(DataError, match=r"'age' .* row 4 \(1 rows .*mean`, `flag` or"):
        read(path)
    path.write_text(TEXT.replace(",cook,10", ",,10"))
    with pytest.raises(DataError, match=r"'job' .* row 3"):
        read(path)


def test_flag_adds_a_mark_where_the_column_missed_values(path: Path) -> None:
    table = read(path, missing="flag", features=["code", "age"])
    assert table.encoding.blocks == (1, 2)
    assert table.values[:, 2].tolist() == [0, 0, 0, 1]
    assert table.encoding.indicators.tolist() == [False, False, True]


@pytest.mark.parametrize("missing", ["mean", "flag"])
def test_a_missing_category_is_one_of_its_own(path: Path, missing: Missing) -> None:
    path.write_text(TEXT.replace(",cook,10", ",,10"))
    table = read(path, missing=missing, features=["job"])
    assert table.values.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_drop_leaves_rows_out_and_their_categories_too(path: Path) -> None:
    path.write_text(TEXT.replace("4, nurse ", "4,judge"))
    table = read(path, missing="drop")
    assert table.ids.tolist() == ["1", "2", "3"]
    assert table.encoding.columns[0].categories == ("cook", "nurse")
    path.write_text("id,a,b\n1,,2\n2,3,\n")
    with pytest.raises(DataError, match="`missing: drop`"):
        read(path, missing="drop")


@pytest.mark.parametrize("missing", get_args(Missing))
def test_an_infinite_number_is_refused_whatever_the_choice(path: Path, missing: Missing) -> None:
    path.write_text(TEXT.replace(",41,", ",inf,"))
    with pytest.raises(DataError, match=r"'age' .* row 2"):
        read(path, missing=missing)


def test_the_mean_is_that_of_the_training_rows_filled_in_by_hand() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(50, 9, size=(400, 3))
    gaps = rng.random((400, 3)) < 0.3
    train = torch.arange(0, 400, 2)
    held = np.where(gaps, np.nan, values)
    mean = np.nanmean(held[train.numpy()], axis=0)
    by_hand = np.where(gaps, mean, values)

    found = Scaling.fit(Features(torch.from_numpy(held), may_miss=True), train)
    expected = Scaling.fit(Features(torch.from_numpy(by_hand)), train)
    assert torch.allclose(found.mean, expected.mean, rtol=1e-14)
    assert torch.allclose(found.std, expected.std, rtol=1e-14)
    scaled = found.apply(torch.from_numpy(held))
    assert torch.allclose(scaled, expected.apply(torch.from_numpy(by_hand)), atol=1e-7)
    assert (scaled[torch.from_numpy(gaps)] == 0).all()


def test_a_column_that_training_never_saw_is_zero() -> None:
    held = torch.tensor([[1.0, torch.nan], [3.0, torch.nan], [5.0, 7.0]])
    scaling = Scaling.fit(Features(held, may_miss=True), torch.tensor([0, 1]))
    assert scaling.apply(held[:2])[:, 1].tolist() == [0, 0]
    assert torch.isfinite(scaling.apply(held)).all()


def test_marks_are_left_alone_by_scaling(path: Path) -> None:
    features = read(path, missing="mean").features()
    scaling = Scaling.fit(features, torch.arange(4))
    assert scaling.mean[0, :2].tolist() == [0, 0]
    assert scaling.std[0, :2].tolist() == [1, 1]
    assert scaling.apply(features.values)[:, :2].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert scaling.mean[0, 3] == 41  # (30 + 41 + 52) / 3


def test_missing_numbers_are_allowed_only_where_they_were_chosen() -> None:
    with pytest.raises(DataError):
        Features(torch.tensor([[torch.nan]]))
    with pytest.raises(DataError):
        Features(torch.tensor([[torch.inf]]), may_miss=True)


# --- what is kept --------------------------------------------------------------------------


def test_an_encoding_is_kept_for_its_owner_alone_and_read_back(path: Path, tmp_path: Path) -> None:
    encoding = read(path, missing="flag", categories=["code"]).encoding
    encoding.store(tmp_path / "shop")
    assert stat.S_IMODE((tmp_path / "shop" / FILE).stat().st_mode) == 0o600
    assert stored_encoding(tmp_path / "shop") == encoding
    # A table of plain numbers has nothing to remember, and drops what an earlier one kept.
    Encoding.fit(pd.DataFrame({"x": [1, 2]}), ["x"]).store(tmp_path / "shop")
    assert stored_encoding(tmp_path / "shop") is None


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"missing": "guess", "columns": []}', '{"missing": "mean", "columns": [1]}'],
)
def test_a_damaged_encoding_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CheckpointError, match=FILE):
        stored_encoding(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "mean"}, "`missing: flag`, not 'mean'"),
        ({"features": ["age", "job"]}, "`features` job, age"),
        ({"categories": ["age"]}, "'age', .*`categories`"),
    ],
)
def test_settings_that_changed_since_are_refused(
    path: Path, options: dict[str, Any], message: str
) -> None:
    encoding = read(path, features=["job", "age"], missing="flag").encoding
    with pytest.raises(DataError, match=message):
        read(path, **{"missing": "flag", **options}, encoding=encoding)


def test_a_column_added_since_is_not_looked_at_and_a_lost_one_is_named(path: Path) -> None:
    encoding = read(path, features=["job", "code"]).encoding
    path.write_text("id,new,code,job\n1,x,5,cook\n")
    assert read(path, encoding=encoding).values.tolist() == [[1, 0, 5]]
    path.write_text("id,cod,job\n1,5,cook\n")
    with pytest.raises(DataError, match=r"'code'.*'cod'"):
        read(path, encoding=encoding)


# --- a whole dataset in one file -----------------------------------------------------------

SHEET = """\
key,job,age,part,y
a,cook,30,train,no
b,nurse,,train,yes
c,cook,52,train,yes
d,judge,63,test,no
"""


def test_a_sheet_is_encoded_as_tables_are(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(SHEET)
    columns = Columns(label="y", split="part", id="key", missing="flag")
    data = load_dataset(str(path), columns=columns)
    assert data.blocks == (3, 2)
    assert data.test.tolist() == [3]
    assert data.x[[0, 2, 3]].tolist() == [[1, 0, 0, 30, 0], [1, 0, 0, 52, 0], [0, 1, 0, 63, 0]]
    frame = pd.read_csv(path)
    frame[["key", "job", "age"]].to_csv(tmp_path / "table.csv", index=False)
    table = read_table(tmp_path / "table.csv", id_column="key", missing="flag")
    assert np.array_equal(table.values, data.x, equal_nan=True)
    assert np.array_equal(table.encoding.indicators, data.indicators)


def test_rows_that_a_sheet_drops_leave_the_test_part_in_place(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(SHEET)
    columns = Columns(label="y", split="part", id="key", missing="drop")
    data = load_dataset(str(path), columns=columns)
    assert data.x[:, -1].tolist() == [30, 52, 63]
    assert (data.y.tolist(), data.test.tolist()) == ([0, 1, 0], [2])


def test_new_rows_of_a_sheet_need_no_label_and_the_runs_own_categories(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(SHEET)
    (tmp_path / "new.csv").write_text("age,job\n20,nurse\n21,pilot\n")
    columns = Columns(label="y", split="part", id="key", missing="mean")
    encoding = dataset_encoding(tmp_path / "people.csv", columns)
    rows = load_new_rows(tmp_path / "new.csv", columns, encoding)
    assert rows.values.tolist() == [[0, 0, 1, 20], [0, 0, 0, 21]]


def test_a_sheet_names_a_column_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(SHEET)
    with pytest.raises(DataError, match=r"'kez'.*'key'"):
        load_dataset(str(tmp_path / "people.csv"), columns=Columns(label="y", id="kez"))


COLUMNS: tuple[st.SearchStrategy[Any], ...] = (
    st.floats(allow_infinity=False, width=32),
    st.floats(),
    st.integers(-(2**62), 2**62),
    st.booleans(),
)


@given(st.data())
def test_columns_that_are_read_together_are_those_that_are_read_one_by_one(data: Any) -> None:
    kinds = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    rows = data.draw(st.integers(1, 5))
    lists = [data.draw(st.lists(kind, min_size=rows, max_size=rows)) for kind in kinds]
    frame = pd.DataFrame({f"c{place}": np.array(values) for place, values in enumerate(lists)})
    encoding = Encoding("mean", tuple(Column(str(name)) for name in frame.columns))
    outcomes: list[Any] = []
    for few in (cells.FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cells, "FEW", few)
            try:
                read = encoding.apply(frame)
                outcomes.append((read.values.tobytes(), read.whole.tobytes()))
            except DataError as error:
                outcomes.append((str(error), b""))
    assert outcomes[0] == outcomes[1]
