"""The users' own tables, and the people they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.align import match_ids
from unlabel.config import FeatureChoice
from unlabel.data.tables import Table, encode_labels, read_table
from unlabel.errors import DataError

Array = npt.NDArray[Any]

TEXT = """\
id,age,income,y
007,30,1.5,yes
 8 ,41,-2,no
0x1F,52,0,yes
12345678901234567890,63,1e3,no
1.50,74,2.25,no
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "bank.csv"
    path.write_text(TEXT)
    return path


# --- reading -------------------------------------------------------------------------------


def test_an_id_stays_the_text_that_stands_in_the_file(path: Path) -> None:
    table = read_table(path, id_column="id", label_column="y")
    assert table.ids.tolist() == ["007", "8", "0x1F", "12345678901234567890", "1.50"]


def test_the_other_columns_are_features_and_the_label_is_none(path: Path) -> None:
    table = read_table(path, id_column="id", label_column="y")
    assert table.columns == ("age", "income")
    assert table.values.dtype == np.float64
    assert table.values.tolist() == [[30, 1.5], [41, -2], [52, 0], [63, 1000], [74, 2.25]]
    assert table.labels is not None
    assert table.labels.tolist() == ["yes", "no", "yes", "no", "no"]


@pytest.mark.parametrize(
    ("features", "columns"),
    [("rest", ("age", "income")), ("none", ()), (["income"], ("income",)), ([], ())],
)
def test_features_are_the_rest_none_or_named(
    path: Path, features: FeatureChoice, columns: tuple[str, ...]
) -> None:
    table = read_table(path, id_column="id", label_column="y", features=features)
    assert table.columns == columns
    assert table.values.shape == (5, len(columns))


def test_named_features_come_in_the_named_order(path: Path) -> None:
    table = read_table(path, id_column="id", features=["income", "age"])
    assert table.values[0].tolist() == [1.5, 30]


def test_a_column_that_is_not_read_may_hold_anything(path: Path) -> None:
    table = read_table(path, id_column="id", features=["age"])  # y is text
    assert table.columns == ("age",)
    assert table.labels is None


def test_a_parquet_table_is_the_same_table(path: Path) -> None:
    frame = pd.read_csv(path, dtype={"id": str})
    frame.to_parquet(path.with_suffix(".parquet"), index=False)
    csv = read_table(path, id_column="id", label_column="y")
    parquet = read_table(path.with_suffix(".parquet"), id_column="id", label_column="y")
    assert np.array_equal(csv.ids, parquet.ids)
    assert np.array_equal(csv.values, parquet.values)
    assert csv.columns == parquet.columns


def test_whole_numbers_and_truth_values_are_features(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1, 2], "a": [True, False], "b": np.array([3, 4], np.uint8)})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    table = read_table(tmp_path / "t.parquet", id_column="id")
    assert table.values.tolist() == [[1, 3], [0, 4]]
    assert table.ids.tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT.replace("id,", "key,"), {}, "'id'.* age, income, key"),
        (TEXT, {"label_column": "Y"}, "label column 'Y'"),
        (TEXT, {"id_column": "di"}, "'di'.*'id'"),
        (TEXT, {"features": ["aeg"]}, "'aeg'.*'age'"),
        (TEXT, {"features": ["id"]}, "'id' .*not a feature"),
        (
            "id,name,y\n1,ann,no\n2,bob,yes\n3,eve,no\n",
            {},
            "'name' .*`features`",
        ),
        (TEXT + "008,1,1,no\n007,2,2,no\n", {}, "'007'"),
        (TEXT + "8,1,1,no\n", {}, "'8'"),
        (TEXT + ",1,1,no\n", {}, "row 6 .*'id'"),
        (TEXT + "9,1,1,\n", {}, "row 6 .*'y'"),
        (TEXT + "9,,1,no\n", {}, "'age' .* row 6"),
        (TEXT + "9,inf,1,no\n", {}, "'age' .* row 6"),
        (TEXT + "9,1e39,1,no\n", {}, "'age' .* row 6"),
        ("id,age,income,y\n", {}, "no rows"),
        (TEXT.replace("income", "y", 1), {}, "more than one column 'y'"),
        ("", {}, "cannot be read"),
        ("id,a\n1,2,3\n1,2,3,4\n", {}, "cannot be read"),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(
    path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path, **{"id_column": "id", "label_column": "y", **options})
    assert f"Table '{path}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_not_there_or_no_table_is_named(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        path = tmp_path / name
        with pytest.raises(DataError, match=f"at '{path}'"):
            read_table(path, id_column="id")
        path.write_bytes(b"\x00\xff\xfe\x01" * 50)
        with pytest.raises(DataError, match=f"Table '{path}'"):
            read_table(path, id_column="id")
    with pytest.raises(DataError, match=f"at '{tmp_path}'"):
        read_table(tmp_path, id_column="id")


def test_rows_are_taken_in_the_order_asked_for(path: Path) -> None:
    table = read_table(path, id_column="id", label_column="y").take(np.array([3, 0]))
    assert table.ids.tolist() == ["12345678901234567890", "007"]
    assert table.values[:, 0].tolist() == [63, 30]
    assert table.labels is not None
    assert table.labels.tolist() == ["no", "yes"]
    unlabelled = Table(table.ids, table.values, table.columns).take(np.array([1]))
    assert unlabelled.labels is None


# --- labels --------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["b", "a", "zz", "É"]), min_size=2).filter(lambda y: len({*y}) > 1))
def test_labels_are_numbered_in_the_order_of_their_names(labels: list[str]) -> None:
    codes, names = encode_labels(np.array(labels))
    assert list(names) == sorted(set(labels))
    assert [names[code] for code in codes] == labels
    assert codes.dtype == np.int64


def test_numbers_make_labels_too() -> None:
    codes, names = encode_labels(np.array([10, 9, 10]))
    assert (codes.tolist(), names) == ([1, 0, 1], ("9", "10"))
    with pytest.raises(DataError, match=r"\(7\)"):
        encode_labels(np.array([7, 7]))


def test_only_a_sample_may_have_as_many_labels_as_rows() -> None:
    own = np.arange(30)
    with pytest.raises(DataError, match=r"30 .* 30 rows"):
        encode_labels(own)
    codes, names = encode_labels(own, sample=True)
    assert [int(names[code]) for code in codes] == own.tolist()


# --- matching ------------------------------------------------------------------------------


people = st.lists(st.sampled_from([f"{n:02d}" for n in range(25)]), unique=True, max_size=25)


@given(st.dictionaries(st.sampled_from(["bank", "shop", "club"]), people, min_size=1))
def test_matching_agrees_with_looking_at_every_pair(ids: dict[str, list[str]]) -> None:
    columns = {party: np.array(column, dtype=str) for party, column in ids.items()}
    first = next(iter(ids))
    expected = [
        one for one in ids[first] if all(any(one == o for o in column) for column in ids.values())
    ]
    if not expected:
        with pytest.raises(DataError, match=f"'{first}'"):
            match_ids(columns)
        return
    rows = match_ids(columns)
    assert list(rows) == list(ids)
    for party, positions in rows.items():
        assert columns[party][positions].tolist() == expected


def test_ids_are_compared_as_text() -> None:
    with pytest.raises(DataError):
        match_ids({"a": np.array(["007"]), "b": np.array(["7"])})
