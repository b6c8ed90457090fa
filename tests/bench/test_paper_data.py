"""The paper's data out of repositories that hold a copy, on small files made in their layouts."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.boxes import box
from PIL import Image
from unlabel_bench.meshes import Mesh
from unlabel_bench.paper_data import cifar100, covid19, modelnet40, yahoo
from unlabel_bench.paper_data.__main__ import main
from unlabel_bench.paper_data.array_pickles import read_dictionary
from unlabel_bench.paper_data.split import draw_test, write_arrays
from unlabel_bench.paper_data.thin import thin
from unlabel_bench.paper_data.tree import Tree
from unlabel_bench.ply import parse_ply
from unlabel_bench.rendering import render_views

from unlabel.data import load_dataset
from unlabel.errors import DataError
from unlabel.progress import watch_nothing

DRAW = np.random.default_rng(0)


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *who, *words], cwd=root, capture_output=True, check=True)
    return done.stdout.decode().strip()


def committed(root: Path) -> Tree:
    """Return the git directory of a commit of everything in a folder."""
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    return Tree.at(root / ".git")


# CIFAR-100: clients' files, each an archive of a pickled dictionary of arrays.


def client(x: np.ndarray[Any, Any], y: list[int]) -> bytes:
    scaled = ((x.astype(np.float64) / 255 - 0.5) * 2).astype(np.float32)
    file = io.BytesIO()
    np.savez(file, data={"x": scaled, "y": np.array(y)})  # type: ignore[arg-type]
    return file.getvalue()


def clients(root: Path) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Write 24 images of labels 0 and 7 in three files; the last image is the first again."""
    x = DRAW.integers(0, 256, (24, 3, 32, 32), dtype=np.uint8)
    x[23] = x[0]
    y = [0, 7] * 12
    for number, part in enumerate(("train/0", "train/1", "test/0")):
        rows = slice(8 * number, 8 * number + 8)
        write(root / f"{cifar100.INSIDE}/{part}.npz", client(x[rows], y[rows]))
    return x, y


def test_cifar100_gives_the_bytes_of_every_image_back(tmp_path: Path) -> None:
    x, _ = clients(tmp_path / "repo")
    counts = cifar100.convert(committed(tmp_path / "repo"), tmp_path, watch_nothing)
    assert (counts["train"], counts["test"], counts["files"]) == (20, 4, 3)
    assert counts["duplicates"] == {"groups": 1, "repeats": 1, "groups_of_several_labels": 1}
    found = load_dataset("cifar100.npz", tmp_path)
    assert (len(found.labels), found.labels[7]) == (100, "beetle")
    kept = np.load(tmp_path / "cifar100.npz")
    both = np.concatenate([kept["x_train"], kept["x_test"]])
    assert sorted(map(bytes, both)) == sorted(map(bytes, x))
    test = {bytes(image) for image in kept["x_test"]}
    assert bytes(x[0]) not in test  # it is there twice
    assert not test & {bytes(image) for image in kept["x_train"]}


def test_a_folder_and_a_git_directory_give_the_same_file(tmp_path: Path) -> None:
    clients(tmp_path / "repo")
    for name, tree in (
        ("folder", Tree.at(tmp_path / "repo")),
        ("git", committed(tmp_path / "repo")),
    ):
        (tmp_path / name).mkdir()
        cifar100.convert(tree, tmp_path / name, watch_nothing)
    one, two = (tmp_path / name / "cifar100.npz" for name in ("folder", "git"))
    assert one.read_bytes() == two.read_bytes()


class Hostile:
    """Has a command run by who unpickles it."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.at}",)


@pytest.mark.parametrize("where", ["value", "whole"])
def test_a_pickle_that_names_anything_else_is_refused_and_nothing_runs(
    tmp_path: Path, where: str
) -> None:
    mark = tmp_path / "ran"
    held = Hostile(mark) if where == "whole" else {"x": Hostile(mark)}
    array = np.empty((), dtype=object)
    array[()] = held
    file = io.BytesIO()
    np.savez(file, data=array)
    with pytest.raises(DataError, match="names"):
        read_dictionary(file.getvalue(), "data", "File 'a'")
    assert not mark.exists()
    np.load(io.BytesIO(file.getvalue()), allow_pickle=True)["data"]
    assert mark.exists()  # what a plain reader would have run


@pytest.mark.parametrize("shape", [(10**9, 10**9), (-1,), (3,)])
def test_a_pickled_array_of_another_size_is_refused(shape: tuple[int, ...]) -> None:
    array = np.empty((), dtype=object)
    array[()] = {"x": np.zeros(2, np.float32)}
    file, out = io.BytesIO(), io.BytesIO()
    np.savez(file, data=array)
    with zipfile.ZipFile(file) as archive:
        raw = archive.read("data.npy")
    # Only the shape (2,) is a tuple of the number 2 alone.
    changed = raw.replace(b"K\x02\x85", pickle.dumps(shape, protocol=2)[2:-1], 1)
    assert changed != raw
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("data.npy", changed)
    with pytest.raises(DataError, match="expected a pickled dictionary"):
        read_dictionary(out.getvalue(), "data", "File 'a'")


@pytest.mark.parametrize("value", [0.001, 1.5])
def test_pixels_that_were_scaled_otherwise_are_refused(value: float) -> None:
    with pytest.raises(DataError, match="scaled"):
        cifar100.to_bytes(np.full((1, 3, 32, 32), value, np.float32), "File 'a'")


# COVID-19 Radiography: PNG files of several modes.


def test_covid19_halves_pixels_and_keeps_repeats_in_training(tmp_path: Path) -> None:
    pixels = DRAW.integers(0, 256, (4, 6, 128, 128), dtype=np.uint8)
    pixels[2, 5] = pixels[2, 4]
    root = tmp_path / "repo"
    for label, folder in enumerate(("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")):
        for number in range(6):
            image = Image.fromarray(pixels[label, number])
            image = image.convert("RGB") if number == 0 else image
            file = io.BytesIO()
            image.save(file, "PNG")
            at = f"data/COVID-19_Radiography_Dataset/{folder}/images/{folder}-{number}.png"
            write(root / at, file.getvalue())
            write(root / at.replace("images", "masks"), file.getvalue())
    counts = covid19.convert(committed(root), tmp_path, watch_nothing)
    assert counts["modes"] == {"RGB": 4, "L": 20}
    assert counts["duplicates"]["groups"] == counts["equal_files"]["groups"] == 1
    kept = np.load(tmp_path / "covid19_64.npz")
    assert (len(kept["x_train"]), len(kept["x_test"])) == (20, 4)
    assert list(kept["classes"]) == ["COVID", "Lung_Opacity", "Normal", "Viral Pneumonia"]
    # A pixel is the mean of the four that it covers, rounded along each side.
    means = pixels.reshape(24, 64, 2, 64, 2).mean((2, 4))
    both = np.concatenate([kept["x_train"], kept["x_test"]])
    for image in means:
        assert np.abs(both.astype(float) - image).max((1, 2)).min() <= 1
    test = {bytes(image) for image in kept["x_test"]}
    assert not test & {bytes(image) for image in kept["x_train"]}
    assert load_dataset("covid19_64.npz", tmp_path).labels[3] == "Viral Pneumonia"


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"File 'a\.png' is not a whole image"):
        covid19.read_grey(b"\x89PNG", 64, "File 'a.png'")


# ModelNet40: binary PLY files of 13 bytes a face.

HEADER = """ply
format binary_little_endian 1.0
comment made by hand
element vertex {}
property float x
property float y
property float z
element face {}
property list uchar int vertex_indices
end_header
"""


def ply_of(mesh: Mesh) -> bytes:
    head = HEADER.format(len(mesh.vertices), len(mesh.faces)).encode()
    points = b"".join(struct.pack("<fff", *point) for point in mesh.vertices)
    faces = b"".join(struct.pack("<Biii", 3, *face) for face in mesh.faces)
    assert len(faces) == 13 * len(mesh.faces)
    return head + points + faces


def test_a_ply_file_is_the_mesh_that_was_written() -> None:
    mesh = box(1, 2, 0.5)
    found = parse_ply(ply_of(mesh), "a box")
    assert np.array_equal(found.vertices, mesh.vertices)
    assert np.array_equal(found.faces, mesh.faces)


def damaged(what: str) -> bytes:
    data = ply_of(box())
    if what == "cut":
        return data[:-1]
    if what == "far corner":
        return data[:-4] + struct.pack("<i", 8)
    if what == "polygon":
        return data[:-13] + b"\x04" + data[-12:]
    if what == "endless":
        return data.replace(b"element face 12", b"element face 999999999999")
    if what == "not finite":
        start = data.index(b"end_header\n") + len(b"end_header\n")
        return data[:start] + struct.pack("<f", float("nan")) + data[start + 4 :]
    return data.replace(b"binary_little_endian", b"ascii")


@pytest.mark.parametrize(
    "what", ["cut", "far corner", "polygon", "endless", "not finite", "another form"]
)
def test_a_damaged_ply_file_is_refused_by_name(what: str) -> None:
    with pytest.raises(DataError, match=r"File 'a\.ply'"):
        parse_ply(damaged(what), "File 'a.ply'")


def test_modelnet40_keeps_its_split_and_counts_what_is_absent(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    meshes = {
        f"{label}/{part}/{label}_{number}": box(1 + number, 1 + (label == "sofa"), 1)
        for label in ("bed", "sofa")
        for part, numbers in (("train", (1, 2, 3)), ("test", (4, 5)))
        for number in numbers
    }
    for name, mesh in meshes.items():
        write(root / f"ModelNet40/{name}.ply", ply_of(mesh))
    tree = committed(root)
    blob = git(root, "rev-parse", "HEAD:ModelNet40/sofa/train/sofa_3.ply")
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    counts = modelnet40.convert(tree, tmp_path, watch_nothing)
    assert (counts["listed"], counts["train"], counts["test"]) == (10, 5, 4)
    assert counts["absent"] == {"sofa/train": 1}
    kept = np.load(tmp_path / "modelnet40_views32.npz")
    expected = render_views(meshes["bed/test/bed_4"], 2, 32, "a box")
    assert any(np.array_equal(image, expected) for image in kept["x_test"])
    assert kept["x_train"].shape[1:] == (2, 32, 32)
    assert load_dataset("modelnet40_views32.npz", tmp_path, views=True).x.shape[1] == 2


# Yahoo! Answers: lines of a label, a tab and a text.


def test_yahoo_keeps_each_text_once_and_drops_those_of_two_labels(tmp_path: Path) -> None:
    lines = [f"{n % 10}\tquestion {n}\\nwith an answer" for n in range(100)]
    lines += ["3\tquestion 3\\nwith an answer", "4\tquestion 5\\nwith an answer", "2\t \\n"]
    write(tmp_path / "repo" / yahoo.SAMPLE, "\n".join(lines).encode())
    counts = yahoo.convert(Tree.at(tmp_path / "repo"), tmp_path, watch_nothing)
    assert (counts["rows"], counts["of_two_labels"]) == (102, 1)
    assert counts["duplicates"] == {"groups": 2, "repeats": 2, "groups_of_several_labels": 1}
    assert (counts["train"], counts["test"]) == (79, 20)
    texts = [
        gzip.decompress((tmp_path / f"yahoo_{part}.csv.gz").read_bytes()).decode().splitlines()[1:]
        for part in ("train", "test")
    ]
    assert not set(texts[0]) & set(texts[1])
    assert "7,question 7 with an answer" in texts[0] + texts[1]


@pytest.mark.parametrize("line", ["10\tno such label", "a\ttext", "no tab"])
def test_a_line_of_another_form_is_named(line: str) -> None:
    with pytest.raises(DataError, match="File 'a', line 2"):
        yahoo.read_rows(f"1\ttext\n{line}\n".encode(), "File 'a'")


# What they share.


def test_the_split_is_the_same_each_time_and_by_label() -> None:
    keys = [str(n).encode() for n in range(600)]
    y = np.repeat(np.arange(3), (300, 200, 100))
    mask = draw_test(keys, y, 1 / 6)
    assert np.array_equal(mask, draw_test(keys, y, 1 / 6))
    assert [int(mask[y == label].sum()) for label in range(3)] == [50, 33, 17]


def test_the_command_counts_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients(tmp_path / "repo")
    words = [sys.executable, "-m", "unlabel_bench.paper_data", "cifar100"]
    done = subprocess.run(
        [*words, str(tmp_path / "repo"), str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test"] == 4
    assert main(["cifar100", str(tmp_path), str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("Error: ")
    assert not list((tmp_path / "none").glob("*"))


def test_a_thin_file_has_so_many_rows_of_each_label_on_the_same_sides(tmp_path: Path) -> None:
    x = np.arange(300, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    y = np.arange(300) % 3
    test = np.arange(300) % 5 == 0
    write_arrays(tmp_path / "a.npz", x, y, test, ["a", "b", "c"])
    whole, part = np.load(tmp_path / "a.npz"), np.load(thin(tmp_path / "a.npz", 20))
    assert np.bincount(part["y_train"]).tolist() == [20, 20, 20]
    assert np.bincount(part["y_test"]).tolist() == [4, 4, 4]
    for side in ("train", "test"):
        rows = {bytes(image) for image in whole[f"x_{side}"]}
        assert {bytes(image) for image in part[f"x_{side}"]} <= rows
    assert list(part["classes"]) == ["a", "b", "c"]


def test_a_file_of_another_kind_is_not_thinned(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with pytest.raises(DataError, match="paper_data"):
        thin(tmp_path / "a.npz", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
