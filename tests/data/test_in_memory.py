"""Tables given from Python: the same as in files, and the same again once they were kept."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unlabel.data import Table, frame_of, read_table, store_frame, table_store
from unlabel.data.in_memory import InMemoryTable
from unlabel.data.table_files import read_frame
from unlabel.data.table_store import COLUMN_LINES
from unlabel.errors import DataError

WHERE = "Table 'bank'"
OPTIONS: dict[str, Any] = {"id_column": "id", "label_column": "y", "missing": "mean"}


def in_memory(frame: pd.DataFrame, **options: Any) -> Table:
    return read_table(InMemoryTable(frame, WHERE), **options)


def same(one: Table, other: Table) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert np.array_equal(one.values, other.values, equal_nan=True)
    assert (one.columns, one.encoding, one.unseen) == (other.columns, other.encoding, other.unseen)
    for first, second in ((one.labels, other.labels), (one.texts, other.texts)):
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert list(map(str, first.tolist())) == list(map(str, second.tolist()))
            assert np.unique(first).tolist() == np.unique(second).tolist()


def no_parquet(_: pd.DataFrame) -> None:
    """Stand in for a machine without pyarrow."""


# --- frames and arrays ---------------------------------------------------------------------


def bank(**changed: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ["007", "8", "x9", "10"],
            "age": [30, 41, 52, 63],
            "income": [0.1, np.nan, 1e300 / 1e299, -2.5],
            "job": ["cook", "nurse", None, "cook"],
            "y": ["no", "yes", "no", "yes"],
            **changed,
        }
    )


def test_a_frame_makes_the_table_that_its_file_makes(tmp_path: Path) -> None:
    bank().to_csv(tmp_path / "bank.csv", index=False)
    from_file = read_table(tmp_path / "bank.csv", **OPTIONS)
    same(in_memory(frame_of(bank(), WHERE), **OPTIONS), from_file)
    arrays = {name: column.to_numpy() for name, column in bank().items()}
    same(in_memory(frame_of(arrays, WHERE), **OPTIONS), from_file)
    lists = {str(name): column.tolist() for name, column in bank().items()}
    same(in_memory(frame_of(lists, WHERE), **OPTIONS), from_file)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.set_index("id"),
        lambda frame: frame.set_index(["id", "age"])[["income", "job", "y"]],
        lambda frame: frame.set_index(pd.Index([5, 5, 5, 5])),
        lambda frame: frame.astype({"job": "category", "y": "category"}),
        lambda frame: frame.astype({"job": "string", "age": "Int64", "income": "Float64"}),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        lambda frame: frame.astype(object),
        lambda frame: frame.assign(job=frame["job"].fillna("")),
    ],
)
def test_the_types_and_the_index_of_a_frame_do_not_matter(change: Any) -> None:
    given_frame = change(bank())
    before = given_frame.copy(deep=True)
    made = in_memory(frame_of(given_frame, WHERE), **OPTIONS)
    same(made, in_memory(frame_of(bank(), WHERE), **OPTIONS))
    pd.testing.assert_frame_equal(given_frame, before)


def test_a_frame_is_a_copy_whose_change_nobody_sees() -> None:
    arrays = {"id": np.arange(3), "x": np.ones((3, 2)), "y": np.arange(3)}
    frame = frame_of(arrays, WHERE)
    assert list(frame.columns) == ["id", "x_0", "x_1", "y"]
    frame.loc[:, "x_0"] = 7.0
    frame.loc[:, "y"] = 9
    assert arrays["x"].tolist() == [[1, 1]] * 3
    assert arrays["y"].tolist() == [0, 1, 2]


def test_ids_are_text_whether_numbers_or_text_were_given() -> None:
    for ids in (np.array([7, 10, 8]), np.array(["7", "10", "8"]), pd.Series([7, "10", 8])):
        frame = frame_of({"id": ids, "x": np.arange(3.0)}, WHERE)
        assert in_memory(frame, id_column="id").ids.tolist() == [
            "7",
            "10",
            "8",
        ]


def test_columns_named_by_numbers_go_by_their_text() -> None:
    frame = frame_of(pd.DataFrame(np.arange(6.0).reshape(3, 2)), WHERE)
    assert in_memory(frame.assign(id=[1, 2, 3]), id_column="id").columns == (
        "0",
        "1",
    )


def test_labels_of_several_types_are_compared_as_text() -> None:
    frame = frame_of({"id": [1, 2, 3], "x": [1.0, 2.0, 3.0], "y": [1, "1", "b"]}, WHERE)
    labels = in_memory(frame, **OPTIONS).labels
    assert labels is not None
    assert labels.tolist() == ["1", "1", "b"]


@pytest.mark.parametrize("big", [">f8", ">i4", "<f4", "g", "u1", "?"])
def test_arrays_of_every_kind_of_number_are_features(big: str) -> None:
    frame = frame_of({"id": [1, 2], "x": np.array([1, 0]).astype(big)}, WHERE)
    assert in_memory(frame, id_column="id").values.tolist() == [[1], [0]]


def test_a_masked_value_is_missing() -> None:
    masked = np.ma.masked_array(np.array([1.0, 2.0]), mask=[False, True])
    frame = frame_of({"id": [1, 2], "x": masked}, WHERE)
    with pytest.raises(DataError, match=r"'x' .* row 2"):
        in_memory(frame, id_column="id")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (bank(id=[7.0, 8.0, np.nan, 9.0]), "'id' .*7.0"),
        (bank(id=["a", 7.5, "b", "c"]), "'id' .*7.5"),
        (bank(id=[b"a", b"b", b"c", b"d"]), "'id' .*b'a'"),
        (bank(id=["a", None, "c", "d"]), "row 2 .*'id'"),
        (bank(id=["a", "", "c", "d"]), "row 2 .*'id'"),
        (bank(id=["a", 7, "7", "d"]), "'7'"),
        (bank(y=["a", None, "c", "d"]), "row 2 .*'y'"),
        (bank(y=["a", "", "c", "d"]), "row 2 .*'y'"),
        (bank().drop(columns="id"), "column 'id'"),
        (bank(age=[1, 2, 3, np.inf]), "'age' .* row 4"),
        (bank(age=["1,5", "2,5", "3", "4"]), "'age' .*'1,5'"),
        (bank(age=pd.Timestamp(0)), "'age' .* datetime"),
        (bank(age=[[1]] * 4), "'age' .* list"),
        (bank().iloc[:0], "no rows"),
        (bank()[[]].reset_index(drop=True), "no rows"),
        ({}, "no rows"),
        (bank().rename(columns={"age": "income"}), "one column 'income'"),
        (bank().set_index(bank()["id"]), "one column 'id'"),
        (pd.concat({"a": bank()}, axis=1), "levels"),
        ({"id": [1, 2], "x": [1, 2, 3]}, "'id' has 2 rows and 'x' has 3"),
        ({"id": [1, 2], "x": np.zeros((2, 2, 2))}, r"'x' .*\[2, 2, 2\]"),
        ({"id": [1, 2], "x": 3}, "'x' .* type int"),
        ({"id": [1, 2], "x": np.array([1j, 2])}, "'x' .*complex"),
        ([1, 2], "type list"),
    ],
)
def test_a_bad_frame_is_refused_in_one_sentence(source: object, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        in_memory(frame_of(source, WHERE), **OPTIONS)
    assert str(caught.value).startswith(WHERE)
    assert "\n" not in str(caught.value)


def test_fractions_as_ids_of_a_file_are_refused_too(tmp_path: Path) -> None:
    pd.DataFrame({"id": [1.0, 2.0], "x": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet'.* 'id' .*1.0"):
        read_table(tmp_path / "t.parquet", id_column="id")


# --- kept in a run -------------------------------------------------------------------------

texts = st.text(max_size=6)
gap = st.none()
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "floats": st.floats(allow_nan=True, allow_infinity=False, width=64),
    "small": st.floats(width=32, allow_infinity=False).map(np.float32),
    "whole": st.integers(-(2**63), 2**63 - 1),
    "huge": st.integers(0, 2**64 - 1).map(np.uint64),
    "truth": st.booleans(),
    "maybe": st.booleans() | gap,
    "words": st.sampled_from(["NA", "1", "01", "true", "a,b", 'q"', "x\ny", " z ", "é", ""]),
    "mixed": st.sampled_from([1, "1", 2.0, "b", True, None]),
    "gaps": st.integers(-9, 9) | gap,
}


@st.composite
def sources(draw: st.DrawFn) -> pd.DataFrame:
    """Draw a frame with ids, labels and features of several types."""
    rows = draw(st.integers(1, 6))
    one_of = st.sampled_from
    ids = draw(
        st.lists(
            st.integers() | texts.filter(str.strip),
            min_size=rows,
            max_size=rows,
            unique_by=lambda one: str(one).strip(),
        )
    )
    labels = draw(
        one_of([st.integers(-9, 99), st.sampled_from(["1", "2", "10", "NA", "x"]), st.booleans()])
    )
    columns: dict[str, Any] = {"id": ids, "y": draw(st.lists(labels, min_size=rows, max_size=rows))}
    for name in draw(st.lists(one_of(sorted(CELLS)), unique=True)):
        values = draw(st.lists(CELLS[name], min_size=rows, max_size=rows))
        columns[name] = pd.array(values, dtype="Int64") if name == "gaps" else values
    return pd.DataFrame(columns)


@pytest.mark.parametrize("pyarrow", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(source=sources())
def test_a_kept_table_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, pyarrow: bool, source: pd.DataFrame
) -> None:
    folder = tmp_path_factory.getbasetemp() / "kept"
    categories = [name for name in ("words", "mixed", "maybe") if name in source]
    options = {**OPTIONS, "categories": categories}
    frame = frame_of(source, WHERE)
    try:
        made = in_memory(frame, **options)
    except DataError:
        return  # nothing of it is kept
    with pytest.MonkeyPatch.context() as patch:
        if not pyarrow:
            patch.setattr(table_store, "_as_parquet", no_parquet)
        path = store_frame(frame, folder / "table")
    assert path.name in (
        ("table.parquet", f"table{COLUMN_LINES}") if pyarrow else (f"table{COLUMN_LINES}",)
    )
    reread = read_table(path, **options)
    same(reread, made)
    # Opened with the encoding that the run kept, it is the same as well.
    same(read_table(path, **options, encoding=made.encoding), made)


@pytest.mark.parametrize("pyarrow", [True, False])
def test_a_table_of_texts_is_kept_to_the_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyarrow: bool
) -> None:
    if not pyarrow:
        monkeypatch.setattr(table_store, "_as_parquet", no_parquet)
    words = ["null", "a\0b", "x\r\ny", "w" * 200_000]
    frame = frame_of({"id": list("abcd"), "words": words, "y": [1, 2, 1, 2]}, WHERE)
    options: dict[str, Any] = {"id_column": "id", "label_column": "y", "text_column": "words"}
    same(
        read_table(store_frame(frame, tmp_path / "t"), **options),
        in_memory(frame, **options),
    )


def test_only_the_columns_of_the_run_are_kept_and_only_for_their_owner(tmp_path: Path) -> None:
    frame = frame_of(bank().assign(secret=pd.Timestamp(0)), WHERE)
    for name in ("active", "shop"):
        path = store_frame(frame, tmp_path / name / "table", ["id", "age", "y", "id"])
        assert list(read_frame(path).columns) == ["id", "age", "y"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_pyarrow_a_column_of_another_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_store, "_as_parquet", no_parquet)
    frame = frame_of(bank().assign(since=pd.Timestamp(0)), WHERE)
    with pytest.raises(DataError, match=r"'since' .*datetime"):
        store_frame(frame, tmp_path / "table")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"name": "id"}',
        b'{"name": "id", "kind": "text", "values": [1]}',
        b'{"name": "id", "kind": "object", "values": [1]}',
        b'{"name": "id", "kind": "int8", "values": [1000]}',
        b'{"name": "id", "kind": "int8", "values": ["x"]}',
        b'{"name": "id", "kind": "int8", "values": [1]}\n'
        b'{"name": "b", "kind": "text", "values": []}',
    ],
)
def test_a_damaged_kept_table_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / f"table{COLUMN_LINES}"
    path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        read_table(path, id_column="id")
