"""Meshes in the `.off` format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unlabel_bench.meshes import parse_off, read_off

from unlabel.errors import DataError

TRIANGLE = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


@pytest.mark.parametrize(
    "text",
    [
        TRIANGLE,
        TRIANGLE.replace("OFF\n", "OFF"),  # as many official files have it: OFF3 1 0
        TRIANGLE.replace("OFF\n", "OFF "),
        TRIANGLE.replace("\n", "\r\n"),
        TRIANGLE.replace("3 1 0", "3 1"),
        "# a comment\n\n" + TRIANGLE.replace("0 0 0\n", "0 0 0  # the origin\n\n"),
        TRIANGLE.replace("3 0 1 2", "3 0 1 2 255 0 0"),
        "COFF\n3 1 0\n0 0 0 9 9 9 9\n1 0 0 9 9 9 9\n0 1 0 9 9 9 9\n3 0 1 2\n",
        TRIANGLE.replace("0 1 0", "0 1e0 0.0") + "what follows is not looked at",
    ],
)
def test_a_triangle_in_every_official_spelling(text: str) -> None:
    mesh = parse_off(text, "it")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mesh.faces.tolist() == [[0, 1, 2]]


def test_polygons_fan_out_from_their_first_corner_and_edges_are_passed_over() -> None:
    corners = "\n".join(f"{i} {i * i} 0" for i in range(5))
    mesh = parse_off(f"OFF\n5 3 0\n{corners}\n5 4 0 1 2 3\n2 0 1\n3 2 1 0\n", "it")
    assert mesh.faces.tolist() == [[4, 0, 1], [4, 1, 2], [4, 2, 3], [2, 1, 0]]


@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), min_size=3, max_size=12),
    st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=9),
)
def test_what_is_written_is_read_to_the_last_bit(points: Any, faces: Any) -> None:
    lines = [" ".join(map(repr, point)) for point in points]
    lines += [" ".join(map(str, (3, *face))) for face in faces]
    mesh = parse_off(f"OFF\n{len(points)} {len(faces)} 0\n" + "\n".join(lines), "it")
    assert mesh.vertices.tolist() == [list(point) for point in points]
    assert mesh.faces.tolist() == [list(face) for face in faces]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("OFF", "PLY", "'PLY' in line 1"),
        ("OFF", "OFFER", "'OFF'"),
        (TRIANGLE, "", "'OFF'"),
        ("3 1 0", "3 -1 0", "line 2"),
        ("3 1 0", "9" * 5000 + " 1 0", "line 2"),
        ("3 1 0", "2 1 0", "line 2: .* 2 and 1"),
        ("3 1 0", "999999999999 1 0", "4 of these 1000000000000 lines"),
        ("3 0 1 2\n", "", "3 of these 4 lines"),
        ("1 0 0", "1 x 0", "line 4: .*'1 x 0'"),
        ("1 0 0", "1 0", "line 4"),
        ("1 0 0", "1 nan 0", "line 4"),
        ("3 0 1 2", "3 0 1 3", "line 6: .*'3 0 1 3'"),
        ("3 0 1 2", "3 0 1 -1", "line 6"),
        ("3 0 1 2", "3 0 1", "line 6"),
        ("3 0 1 2", "0", "line 6"),
        ("3 0 1 2", "3 0 1 1.5", "line 6"),
        ("3 0 1 2", "2 0 1", "three corners"),
    ],
)
def test_a_damaged_file_is_refused_by_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "chair_0001.off"
    path.write_text(TRIANGLE.replace(old, new, 1))
    with pytest.raises(DataError, match=rf"chair_0001.off'.*{message}"):
        read_off(path)


@given(st.text(alphabet="OF \n-.0123e#", max_size=60))
def test_arbitrary_text_never_fails_in_another_way(text: str) -> None:
    try:
        mesh = parse_off("OFF" + text, "it")
    except DataError:
        return
    assert mesh.faces.max() < len(mesh.vertices)
