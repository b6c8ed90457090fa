"""A table is the same whether its file is read in pieces or as a whole."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlabel.data import read_table, table_files
from unlabel.data.cells import foreign_numbers, texts_of
from unlabel.data.column_encoding import Encoding
from unlabel.data.column_files import FileColumns
from unlabel.data.table_files import open_table, read_frame
from unlabel.errors import DataError

#: What stands in the cells of a column: each list is one that some piece can be alone with.
CELLS = [
    ["1", "2", "-0", "12345678901234567890", "9007199254740993"],
    ["1", "2", ""],
    ["1.5", "2", "1e-7", "0.1", ""],
    ["True", "False", "TRUE", ""],
    ["cook", "nurse", "1", "1.0", " nurse"],
    ["NA", "", "x"],
]


def csv_of(columns: list[list[str]]) -> str:
    lines = [",".join(["id", *(f"c{n}" for n in range(len(columns)))])]
    for number, row in enumerate(zip(*columns, strict=True)):
        lines.append(",".join([f"0{number}", *row]))
    return "\n".join(lines) + "\n"


@st.composite
def tables(draw: st.DrawFn) -> str:
    rows = draw(st.integers(2, 9))
    kinds = draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3))
    cells = [st.lists(st.sampled_from(kind), min_size=rows, max_size=rows) for kind in kinds]
    return csv_of([draw(each) for each in cells])


def whole(text: str) -> pd.DataFrame:
    """Return what pandas itself makes of a file as a whole."""
    frame = pd.read_csv(
        io.StringIO(text),
        index_col=False,
        low_memory=False,
        converters={"id": lambda text: f"={text.strip()}"},
    )
    frame["id"] = frame["id"].str[1:]
    return frame


@settings(max_examples=60)
@given(text=tables(), piece=st.integers(1, 10))
def test_a_csv_file_in_pieces_is_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, piece: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "PIECE", piece)
        frame = read_frame(path, "id")
    pd.testing.assert_frame_equal(frame, whole(text), check_exact=True)
    for name in frame.columns:  # 0.0 and -0.0 are equal and not the same
        if frame[name].dtype == np.float64:
            assert frame[name].to_numpy().tobytes() == whole(text)[name].to_numpy().tobytes()


def slow_texts(series: pd.Series[Any]) -> list[str | None]:
    """Return a column's categories value by value."""
    texts: list[str | None] = []
    for value, gap in zip(series.tolist(), series.isna(), strict=True):
        text = "" if gap else str(value).strip()
        head, dot, tail = text.partition(".")
        if dot and head.lstrip("+-").isdigit() and tail and set(tail) == {"0"}:
            text = head
        texts.append({"true": "True", "false": "False"}.get(text.lower(), text) or None)
    return texts


VALUES = st.one_of(
    st.sampled_from([None, 1, 1.0, True, False, 0, 0.0, -0.0, "1", "1.0", "true", " a", "a", ""]),
    st.integers(-3, 3),
    st.floats(allow_nan=True, allow_infinity=False),
    st.text("ab1.,", max_size=4),
)


@given(values=st.lists(VALUES, min_size=1, max_size=12))
def test_texts_that_are_held_once_are_those_of_every_row(values: list[Any]) -> None:
    kinds = [pd.Series(values, dtype=object), pd.Series(values, dtype=object).astype("category")]
    numbers = [v for v in values if isinstance(v, float) or v is None]
    kinds.append(pd.Series(numbers, dtype=np.float64))
    kinds.append(pd.Series([str(v) for v in values]))
    for series in kinds:
        texts = texts_of(series, "Here")
        expected = slow_texts(series)
        assert [texts.names[c] if c >= 0 else None for c in texts.codes.tolist()] == expected
        assert texts.gaps.tolist() == [text is None for text in expected]
        assert len(set(texts.names)) == len(texts.names)


def test_numbers_with_commas_are_counted_by_rows_and_not_by_texts() -> None:
    column = pd.Series(["1,5", "1,5", "2,5", "word", None])
    said = foreign_numbers("x", texts_of(column, "Here"))
    assert said is not None
    assert "such as '1,5' in row 1 (3 rows in all)" in said
    assert foreign_numbers("x", texts_of(pd.Series(["1,5", "a", "a", "b"]), "Here")) is None


def people(rows: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "id": [f"p{n}" for n in range(rows)],
            "income": random.normal(size=rows),
            "age": random.integers(20, 90, rows),
            "member": random.random(rows) < 0.5,
            "job": random.choice(["cook", "nurse", "judge"], rows),
            "short": random.normal(size=rows).astype(np.float32),
            "kind": random.choice(["yes", "no"], rows),
        }
    )
    frame.loc[::7, "income"] = np.nan
    frame.loc[::11, "job"] = None
    return frame


@pytest.mark.parametrize("missing", ["mean", "flag", "drop"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow"])
def test_a_file_column_by_column_is_the_file(tmp_path: Path, suffix: str, missing: Any) -> None:
    frame, path = people(), tmp_path / f"t{suffix}"
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_feather(path)
    assert isinstance(open_table(path), FileColumns)
    table = read_table(path, id_column="id", label_column="kind", missing=missing)
    plain = read_frame(path)
    encoding = Encoding.fit(plain, list(plain.columns[1:6]), missing=missing)
    rows = encoding.apply(plain)
    used = encoding.used_rows(rows)
    assert table.encoding == encoding
    assert table.values.tobytes() == rows.values[used].tobytes()
    assert table.ids.tolist() == plain["id"].to_numpy()[used].tolist()
    assert table.labels is not None
    assert table.labels.tolist() == plain["kind"].to_numpy()[used].tolist()
    csv = tmp_path / "t.csv"
    frame.to_csv(csv, index=False)
    from_csv = read_table(csv, id_column="id", label_column="kind", missing=missing)
    assert (from_csv.ids == table.ids).all()
    assert from_csv.encoding == table.encoding


def test_only_columns_that_are_used_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "t.parquet", []
    people().to_parquet(path)
    real = pd.read_parquet

    def counting(path: Path, columns: list[str]) -> pd.DataFrame:
        read.append(columns)
        return real(path, columns=columns)

    monkeypatch.setattr(pd, "read_parquet", counting)
    read_table(path, id_column="id", features=["age", "member"])
    assert {name for columns in read for name in columns} == {"id", "age", "member"}
    assert all(len(columns) == 1 for columns in read)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_columns_that_do_not_stand_for_themselves_are_read_together(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"t{suffix}"
    frame = people()
    named = frame.assign(**{"a.b": frame["income"]})
    if suffix == ".parquet":
        frame.set_index("id").to_parquet(path)
        table = read_table(path, id_column="id", label_column="kind", missing="mean")
        assert table.ids.tolist() == frame["id"].tolist()
        named.to_parquet(path)
    else:
        named.to_feather(path)
    assert isinstance(open_table(path), pd.DataFrame)
    table = read_table(path, id_column="id", label_column="kind", missing="mean")
    assert table.columns[-1] == "a.b"


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow"])
def test_a_file_that_is_cut_off_is_one_clear_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    people().to_parquet(path) if suffix == ".parquet" else people().to_feather(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read"):
        read_table(path, id_column="id")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read"):
        read_table(path, id_column="id")
