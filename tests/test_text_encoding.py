"""Text files of users in encodings other than UTF-8, and numbers written with commas."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config import Columns
from unlabel.config.loader import read_run
from unlabel.data import load_dataset, read_table
from unlabel.data.column_encoding import Encoding
from unlabel.data.tables import read_ids
from unlabel.errors import DataError, SettingsError, UnlabelError
from unlabel.text_encoding import decode

TEXT = "id,town,y\n1,Köln,ja\n2,Paris,nein\n3,Köln,ja\n"
LATIN = "line 2 holds the byte 0xF6, and the file is probably in Latin-1 or Windows-1252"


def table(path: Path) -> Any:
    return read_table(path, id_column="id", label_column="y")


def whole(path: Path) -> Any:
    return load_dataset(str(path), columns=Columns(label="y", id="id"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_the_same_in_utf8_and_in_marked_utf16(
    tmp_path: Path, encoding: str, packed: bool
) -> None:
    data = TEXT.encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    found = table(path)
    assert found.ids.tolist() == ["1", "2", "3"]
    assert found.labels.tolist() == ["ja", "nein", "ja"]
    assert found.encoding.columns[0].categories == ("Köln", "Paris")


@pytest.mark.parametrize("read", [table, whole, read_ids])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (TEXT.encode("latin-1"), LATIN),
        (TEXT.replace("ö", "€").encode("cp1252"), "byte 0x80, .* probably in Windows-1252;"),
        (TEXT.replace("Köln", "Москва").encode("cp1251"), "an older encoding such as Windows-1251"),
        (TEXT.encode("utf-16-le"), "line 1, as UTF-16 text without a byte order mark"),
        (TEXT.encode("utf-32"), "is UTF-32 text"),
        (TEXT.encode("utf-16")[:-1], "begins as UTF-16 text .* cut off or damaged"),
        (TEXT.replace("ja", "né\n").replace("ö", "o").encode("latin-1"), "line 2 .* 0xE9"),
        (TEXT.replace("\n", "\r").encode("latin-1"), LATIN),
    ],
)
def test_another_encoding_is_refused_with_its_line_and_the_remedy(
    tmp_path: Path, read: Callable[[Path], Any], data: bytes, said: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(DataError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("save it as UTF-8.")
    assert "\n" not in str(caught.value)


def test_a_byte_far_down_a_packed_table_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id,x\n" + b"1,a\n" * 70_000 + b"2,\xe4\n"))
    with pytest.raises(DataError):
        read_table(path, id_column="id")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_ids_and_settings_are_read_in_the_same_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "mine"
    path.write_bytes("id\nJürgen\nZoë\n".encode(encoding))
    assert read_ids(path) == ["Jürgen", "Zoë"]
    path.write_bytes('data: "Köln.csv"\nparties: 1\n'.encode(encoding))
    assert Path(str(read_run(path).data)).name == "Köln.csv"


def test_settings_in_another_encoding_are_refused_as_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes("parties: 1\ndata: Köln.csv\n".encode("latin-1"))
    with pytest.raises(SettingsError):
        read_run(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text = decode(data, "A file")
    except UnlabelError:
        return
    assert text.encode("utf-8") in (data, data.removeprefix(b"\xef\xbb\xbf")) or (
        data[:2] in (b"\xff\xfe", b"\xfe\xff")
    )


# --- numbers with commas -------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        ["3,14", "2,71", "3,14", "2,71"],
        ["3,14", "5", "7", ""],
        ["5", "7", "8", "3,5"],
        ["-1,5", "+2,5", "1,5e3", "x"],
        ["1.234,56", "7,5", "1.234,56", "7,5"],
        ["1,234,567", "1,234", "1,234", "12"],
        ["1.234.567", "1.000.000", "1.234.567", "1"],
        ["1 234,5", "1\u00a0234", "1'234.50", "1 234,5"],
    ],
)
def test_amounts_with_commas_make_no_categories(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "t.csv"
    lines = "".join(f'{n},"{value}"\n' for n, value in enumerate([*values, *values]))
    path.write_text(f"id,x\n{lines}", encoding="utf-8")
    first = next(n for n, value in enumerate(values) if not value.removeprefix("-").isdigit())
    with pytest.raises(
        DataError, match=rf"feature 'x' holds numbers with .* row {first + 1} "
    ) as e:
        read_table(path, id_column="id", missing="mean")
    assert "write decimals with a point" in str(e.value)
    assert "\n" not in str(e.value)
    named = read_table(path, id_column="id", missing="mean", categories=["x"])
    assert named.encoding.categories() == ("x",)


@pytest.mark.parametrize(
    "values",
    [
        ["a,b", "c", "a,b", "c"],
        ["1,2,3", "4,5,6", "1,2,3", "4,5,6"],
        ["3,5", "low", "low", "low"],
        ["1,a", "b,2", "1,a", "b,2"],
    ],
)
def test_categories_with_commas_stay_categories(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "".join(f'{n},"{value}"\n' for n, value in enumerate(values)))
    found = read_table(path, id_column="id")
    assert set(found.encoding.columns[0].categories or ()) == set(values)


def test_new_rows_with_decimal_commas_are_refused_where_training_had_numbers(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text("id,x\n1,0.5\n2,1.5\n")
    encoding = read_table(tmp_path / "t.csv", id_column="id").encoding
    (tmp_path / "new.csv").write_text('id,x\n1,\n2,"1,5"\n')
    with pytest.raises(DataError, match=r"'1,5'"):
        read_table(
            tmp_path / "new.csv", id_column="id", encoding=Encoding("refuse", encoding.columns)
        )


@pytest.mark.parametrize(
    "text",
    ["id;x;y\n1;3,14;2\n2;5,1;3\n", "id;x\n1;3\n2;5,1\n", "id;x\n1;3\n2;5\n", '"id;x"\n"1;3"\n'],
)
def test_a_semicolon_file_is_told_about_separators_and_decimals(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(
            DataError, match=r"single column 'id;x.*commas, and write decimals with"
        ):
            read_table(path, id_column="id")
