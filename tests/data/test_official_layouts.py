"""Datasets that only their users can bring, in small files of the official layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from unlabel_bench.sources import cifar100
from unlabel_bench.sources.covid19_radiography import INSIDE
from unlabel_bench.sources.modelnet import FORTY, TEN

from unlabel.config import Pictures
from unlabel.data import SOURCES, load_dataset
from unlabel.errors import DataError

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
SMALL = Pictures(size=8)
PYRAMID = "OFF{counts}\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n0.5 0.5 {height}\n{faces}\n"
FACES = "3 0 1 4\n3 1 2 4\n3 2 3 4\n3 3 0 4\n4 0 3 2 1"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("cifar100", "CIFAR-100 binary version.*University of Toronto"),
        ("modelnet10", "ModelNet10.zip from the ModelNet page of Princeton University"),
        ("modelnet40", "ModelNet40.zip from the ModelNet page of Princeton University"),
        ("brain-tumor-mri", "'Brain Tumor MRI Dataset' .* from Kaggle"),
        ("covid19-radiography", "'COVID-19 Radiography Database' .* from Kaggle"),
    ],
)
def test_without_a_folder_the_user_hears_where_to_get_it(name: str, where: str) -> None:
    source = SOURCES.get(name)
    assert source.fetch is None
    assert not source.is_ready()
    assert source.about.endswith("(own copy)")
    with pytest.raises(DataError, match=rf"{where}.*`folder`"):
        load_dataset(name)
    with pytest.raises(DataError, match=f"'{name}'"):
        source.load(None)


# --- CIFAR-100 -----------------------------------------------------------------------------


def write_cifar100(folder: Path) -> tuple[Array, Array]:
    """Write what the archive unpacks to: coarse and fine labels, red, green and blue planes."""
    own = folder / "cifar-100-binary"
    own.mkdir(parents=True)
    x = RNG.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8)
    coarse, fine = np.arange(7, dtype=np.uint8) + 3, np.array([0, 99, 5, 7, 8, 42, 0], np.uint8)
    rows = [
        bytes([c, f]) + x[i].tobytes() for i, (c, f) in enumerate(zip(coarse, fine, strict=True))
    ]
    (own / "train.bin").write_bytes(b"".join(rows[:5]))
    (own / "test.bin").write_bytes(b"".join(rows[5:]))
    (own / "fine_label_names.txt").write_text("".join(f"fine_{i}\n" for i in range(100)) + "\n")
    (own / "coarse_label_names.txt").write_text("".join(f"coarse_{i}\n" for i in range(20)) + "\n")
    return x, fine


@pytest.mark.parametrize("inside", ["", "cifar-100-binary"])
def test_cifar100_is_read_from_the_archive_s_folder_or_the_one_around_it(
    tmp_path: Path, inside: str
) -> None:
    x, fine = write_cifar100(tmp_path)
    data = load_dataset("cifar100", tmp_path / inside)
    assert np.array_equal(data.x, x)
    assert np.array_equal(data.y, fine)
    assert data.test.tolist() == [5, 6]
    assert (len(data.labels), data.labels[42]) == (100, "fine_42")


def test_cifar100_as_python_objects_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / cifar100.PICKLES).mkdir()
    for folder in (tmp_path, tmp_path / cifar100.PICKLES):
        (tmp_path / cifar100.PICKLES / "meta").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
        with pytest.raises(DataError, match="Python objects"):
            load_dataset("cifar100", folder)


def test_a_fine_label_beyond_the_hundred_is_refused(tmp_path: Path) -> None:
    write_cifar100(tmp_path)
    path = tmp_path / "cifar-100-binary/train.bin"
    rows = bytearray(path.read_bytes())
    rows[1] = 100
    path.write_bytes(bytes(rows))
    with pytest.raises(DataError, match=r"0\.\.99, .* 0\.\.100"):
        load_dataset("cifar100", tmp_path)


# --- ModelNet ------------------------------------------------------------------------------


def write_modelnet(folder: Path, labels: tuple[str, ...]) -> None:
    """Write a pyramid a file, every other header glued, and what the archive has beside."""
    for number, label in enumerate(labels):
        for part in ("train", "test"):
            (folder / label / part).mkdir(parents=True)
            height = 0.3 + 0.1 * number + (0.05 if part == "test" else 0)
            text = PYRAMID.format(
                counts="5 5 0" if number % 2 else "\n5 5 0", height=height, faces=FACES
            )
            (folder / label / part / f"{label}_0001.off").write_text(text)
    (folder / "README.txt").write_text("ModelNet")
    (folder / ".DS_Store").write_bytes(b"\0")
    (folder.parent / "__MACOSX").mkdir()


@pytest.mark.parametrize(("official", "labels"), [("ModelNet10", TEN), ("ModelNet40", FORTY)])
def test_modelnet_is_read_from_the_archive_s_folder_or_the_one_around_it(
    tmp_path: Path, official: str, labels: tuple[str, ...]
) -> None:
    assert (len(TEN), len(FORTY)) == (10, 40)
    assert set(TEN) < set(FORTY)
    write_modelnet(tmp_path / official, labels)
    around = load_dataset(official.lower(), tmp_path, pictures=Pictures(8, views=3))
    data = load_dataset(official.lower(), tmp_path / official, pictures=Pictures(8, views=3))
    count = len(labels)
    assert data.labels == labels == tuple(sorted(labels))
    assert data.x.shape == (2 * count, 3, 8, 8)
    assert data.y.tolist() == [*range(count)] * 2
    assert data.test.tolist() == list(range(count, 2 * count))
    assert data.layout == "views"
    assert np.array_equal(data.x, around.x)


def test_a_modelnet_without_a_label_is_refused_by_its_name(tmp_path: Path) -> None:
    write_modelnet(tmp_path / "ModelNet10", TEN)
    (tmp_path / "ModelNet10/sofa").rename(tmp_path / "sofa")
    with pytest.raises(DataError, match=r"'sofa'.* download"):
        load_dataset("modelnet10", tmp_path)
    (tmp_path / "sofa").rename(tmp_path / "ModelNet10/sofa")
    with pytest.raises(DataError, match="'airplane'"):
        load_dataset("modelnet40", tmp_path / "ModelNet10")


# --- medical images ------------------------------------------------------------------------


def save(path: Path, mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = Image.fromarray(RNG.integers(0, 256, (20, 16), dtype=np.uint8))
    grey.convert(mode).save(path)


def test_brain_tumor_mri_has_the_paper_s_label_2(tmp_path: Path) -> None:
    short = {"glioma": "gl", "meningioma": "me", "notumor": "no", "pituitary": "pi"}
    for part, letters in (("Training", "Tr"), ("Testing", "Te")):
        for label, name in short.items():
            for number in range(2):
                mode = "RGB" if number else "L"  # some files are stored in colour
                save(tmp_path / part / label / f"{letters}-{name}_{number:04d}.jpg", mode)
    same = (tmp_path / "Training/notumor/Tr-no_0000.jpg").read_bytes()
    (tmp_path / "Testing/notumor/Te-no_0001.jpg").write_bytes(same)
    data = load_dataset("brain-tumor-mri", tmp_path, pictures=SMALL)
    assert data.labels[2] == "notumor"
    assert data.x.shape == (15, 1, 8, 8)
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 3, 3]
    assert data.test.tolist() == list(range(8, 15))
    (note,) = data.notes
    assert note.startswith("1 of the 8 test images of 'brain-tumor-mri'")
    (tmp_path / "Training/extra").mkdir()
    save(tmp_path / "Training/extra/1.jpg")
    with pytest.raises(DataError, match=r"'extra'.* download"):
        load_dataset("brain-tumor-mri", tmp_path)


@pytest.mark.parametrize("inside", ["", INSIDE])
def test_covid19_radiography_has_the_paper_s_label_0_and_ignores_masks(
    tmp_path: Path, inside: str
) -> None:
    root = tmp_path / INSIDE
    for label in ("Normal", "COVID", "Viral Pneumonia", "Lung_Opacity"):
        for number in range(3):
            save(root / label / "images" / f"{label}-{number + 1}.png", "RGB" if number else "L")
            save(root / label / "masks" / f"{label}-{number + 1}.png")
        (root / f"{label}.metadata.xlsx").write_bytes(b"PK")
    (root / "README.md.txt").touch()
    data = load_dataset("covid19-radiography", tmp_path / inside, pictures=SMALL)
    assert data.labels == ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")
    assert data.x.shape == (12, 1, 8, 8)
    assert np.bincount(data.y).tolist() == [3, 3, 3, 3]
    assert len(data.test) == 0
