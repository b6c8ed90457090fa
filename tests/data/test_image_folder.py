"""Folders of images: which files have which label, and what becomes of their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from unlabel.config import Pictures
from unlabel.data import load_dataset
from unlabel.data.folders import find_files
from unlabel.data.images import read_image
from unlabel.data.sources.image_folder import AT
from unlabel.errors import DataError, SettingsError
from unlabel.files import sha256

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
SMALL = Pictures(size=8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def pixels(*shape: int) -> Array:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, array: Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


# --- which files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "train", "test"),
    [
        (["B/1.png", "a/1.jpg", "a/2.PNG"], ["a/1.jpg", "a/2.PNG", "B/1.png"], []),
        (
            ["a/images/1.png", "a/masks/1.png", "B/images/1.png"],
            ["a/images/1.png", "B/images/1.png"],
            [],
        ),
        (
            ["Training/B/1.png", "Training/a/1.png", "Testing/a/9.png"],
            ["Training/a/1.png", "Training/B/1.png"],
            ["Testing/a/9.png"],
        ),
        (
            ["train/B/1.png", "train/a/1.png", "val/B/5.png", "test/B/9.png"],
            ["train/a/1.png", "train/B/1.png", "val/B/5.png"],
            ["test/B/9.png"],
        ),
        (
            ["a/train/1.png", "a/test/9.png", "B/train/1.png", "B/test/8.png"],
            ["a/train/1.png", "B/train/1.png"],
            ["a/test/9.png", "B/test/8.png"],
        ),
    ],
)
def test_files_are_found_in_every_layout(
    tmp_path: Path, names: list[str], train: list[str], test: list[str]
) -> None:
    junk = ("README.txt", "a.metadata.xlsx", "__MACOSX/a/1.png", ".git/x/1.png", "notes/a.txt")
    found = find_files(touch(tmp_path, *names, *junk), [".png", ".jpg"], "images", AT)
    assert found.labels == ("a", "B")
    inside = [path.relative_to(tmp_path).as_posix() for path, _ in found.rows]
    assert (inside[: found.train], inside[found.train :]) == (train, test)
    assert [found.labels[label] in path.parts for path, label in found.rows] == [True] * len(inside)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "found none: .*`folder`"),
        (["A/1.png"], "'A' alone: .*`folder`"),
        (["1.png", "2.png"], "found none"),
        (["train/A/1.png", "train/b/1.png", "test/c/1.png"], "'c'"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, names: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        find_files(touch(tmp_path, *names), [".png"], "images", AT)


def test_a_folder_that_is_not_there_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere'.*`folder`"):
        load_dataset("images", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"'images'.*`folder`"):
        load_dataset("images")


# --- what becomes of their pixels ----------------------------------------------------------


def test_a_pixel_is_the_mean_of_what_it_covers(tmp_path: Path) -> None:
    whole = pixels(16, 24)  # squeezed: each pixel covers 2 x 3 of these
    found = read_image(save(tmp_path / "x.png", whole), 8, 1)
    means = whole.reshape(8, 2, 8, 3).mean(axis=(1, 3))
    assert found.shape == (1, 8, 8)
    assert np.abs(found[0] - means).max() <= 1  # two roundings, along rows and columns


def test_an_image_of_the_right_size_stays_as_it_is(tmp_path: Path) -> None:
    grey, colour = pixels(8, 8), pixels(8, 8, 3)
    assert np.array_equal(read_image(save(tmp_path / "g.png", grey), 8, 1)[0], grey)
    assert np.array_equal(read_image(save(tmp_path / "g.bmp", grey), 8, 1)[0], grey)
    assert np.array_equal(read_image(save(tmp_path / "g.tif", grey), 8, 3), [grey] * 3)
    found = read_image(save(tmp_path / "c.png", colour), 8, 3)
    assert np.array_equal(found, colour.transpose(2, 0, 1))


def test_a_small_image_is_drawn_larger_and_sixteen_bits_keep_the_upper_eight(
    tmp_path: Path,
) -> None:
    ramp = np.tile(np.array([0, 255], dtype=np.uint8), (2, 1))
    larger = read_image(save(tmp_path / "small.png", ramp), 8, 1)[0]
    assert (np.diff(larger.astype(int), axis=1) >= 0).all()
    assert (larger[:, 0].max(), larger[:, -1].min()) == (0, 255)
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    found = read_image(save(tmp_path / "deep.png", deep), 8, 1)[0]
    assert np.array_equal(found, deep // 256)
    with pytest.raises(DataError, match=r"float.tif' .*mode 'F'"):
        read_image(save(tmp_path / "float.tif", pixels(8, 8).astype(np.float32)), 8, 1)


def write_images(folder: Path, mode: str) -> None:
    for label in ("cat", "dog"):
        for number in range(3):
            grey = pixels(10, 12)
            array = grey if mode == "L" else np.stack([grey] * 3, axis=-1)
            save(folder / label / f"{number}.png", array)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_images_are_grey_where_all_of_them_are(tmp_path: Path, mode: str) -> None:
    own = tmp_path / "own"
    write_images(own, mode)
    data = load_dataset("images", own, pictures=SMALL)
    assert data.x.shape == (6, 1, 8, 8)
    assert (data.name, data.labels, data.layout) == ("images", ("cat", "dog"), "image")
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert load_dataset("images", own, pictures=Pictures(8, "colour")).x.shape == (6, 3, 8, 8)
    save(own / "dog" / "9.png", pixels(10, 12, 3))
    mixed = load_dataset("images", own, pictures=SMALL)
    assert mixed.x.shape == (7, 3, 8, 8)
    assert np.array_equal(mixed.x[:6], np.repeat(data.x, 3, axis=1))
    assert load_dataset("images", own, pictures=Pictures(8, "grey")).x.shape == (7, 1, 8, 8)


def test_images_are_read_once_and_then_kept(tmp_path: Path) -> None:
    own = tmp_path / "own"
    write_images(own, "L")
    watched: list[tuple[int, int, str]] = []
    for _ in range(2):
        load_dataset("images", own, pictures=SMALL, watch=lambda *told: watched.append(told))
    assert [told[0] for told in watched] == [1, 2, 3, 4, 5, 6]  # nothing the second time
    assert watched[-1] == (6, 6, "2.png")


def test_what_is_kept_of_images_tells_no_label(tmp_path: Path) -> None:
    own, colour = tmp_path / "own", Pictures(8, "colour")
    write_images(own, "RGB")
    first = load_dataset("images", own, pictures=colour)
    digests = [sha256(path.read_bytes()) for path in sorted(own.rglob("*.png"))]
    (kept,) = (tmp_path / "cache").glob("images-*.npz")
    for _ in range(2):
        with np.load(kept) as file:
            assert file.files == ["x"]
            assert np.array_equal(file["x"], first.x[np.argsort(digests)])
        images = load_dataset("images", own, pictures=colour)
        assert np.array_equal(images.x, first.x)
        np.savez(kept, x=first.x, y=first.y, test=first.test)  # as earlier versions kept them
        images = load_dataset("images", own, pictures=colour)
        assert np.array_equal(images.x, first.x)
        assert np.array_equal(images.y, first.y)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _rename(path: Path) -> None:
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_cut, _rename, _empty])
def test_a_damaged_image_is_named_and_nothing_is_kept(tmp_path: Path, damage: Any) -> None:
    write_images(tmp_path / "own", "L")
    damage(tmp_path / "own/dog/1.png")
    with pytest.raises(DataError, match=r"dog/1.png'"):
        load_dataset("images", tmp_path / "own", pictures=SMALL)
    assert not (tmp_path / "cache").exists()


def test_an_image_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(DataError, match=r"x.png' .*decompression bomb"):
        read_image(save(tmp_path / "x.png", pixels(8, 8)), 8, 1)


@pytest.mark.parametrize("size", [0, 7, 5000])
def test_a_size_that_cannot_work_is_refused(size: int) -> None:
    with pytest.raises(SettingsError, match=rf"`size` .*{size}"):
        Pictures(size=size)
