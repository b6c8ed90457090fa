"""Folders of meshes: a view for every party, drawn once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from data.boxes import off_of_box
from unlabel_bench import rendering
from unlabel_bench.meshes import Mesh, read_off
from unlabel_bench.rendering import render_views

from unlabel.config import Pictures, RunConfig
from unlabel.data import load_dataset
from unlabel.errors import DataError, SettingsError
from unlabel.train import load_holdings

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


def write_meshes(folder: Path, train: int = 3, test: int = 2) -> None:
    shapes = {"plank": (4, 1, 0.2), "Tower": (1, 1, 4)}
    for label, (x, y, z) in shapes.items():
        for part, count in (("train", train), ("test", test)):
            (folder / label / part).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                text = off_of_box(x + number / 7 + (part == "test") / 3, y, z)
                (folder / label / part / f"{label}_{number}.off").write_text(text)


def test_every_party_gets_a_view_of_its_own(tmp_path: Path) -> None:
    write_meshes(tmp_path / "own")
    for parties in (2, 3):
        config = RunConfig(
            data="meshes", folder=tmp_path / "own", parties=parties, pictures=Pictures(size=16)
        )
        held = load_holdings(config)
        assert held.names == ("plank", "Tower")
        assert held.labels.tolist() == [0] * 3 + [1] * 3 + [0] * 2 + [1] * 2
        assert held.rows.test.tolist() == [6, 7, 8, 9]
        assert [f.shape for f in held.features.values()] == [(1, 16, 16)] * parties
        dataset = load_dataset("meshes", tmp_path / "own", pictures=Pictures(16, views=parties))
        drawn = render_views(read_off(tmp_path / "own/plank/train/plank_0.off"), parties, 16)
        assert np.array_equal(dataset.x[0], drawn)


def test_widths_say_how_many_views_each_party_has(tmp_path: Path) -> None:
    write_meshes(tmp_path / "own")
    base = RunConfig(data="meshes", folder=tmp_path / "own", pictures=Pictures(size=8))
    widths = load_holdings(replace(base, parties={"left": 2, "right": 1}))
    assert {name: f.shape[0] for name, f in widths.features.items()} == {"left": 2, "right": 1}
    own = load_holdings(replace(base, active_part=True))
    assert {name: f.shape[0] for name, f in own.features.items()} == {
        "active": 1,
        "passive-1": 1,
        "passive-2": 1,
    }
    more = load_holdings(replace(base, pictures=Pictures(size=8, views=6)))
    assert [f.shape[0] for f in more.features.values()] == [3, 3]
    with pytest.raises(SettingsError, match=r"64 .* 70"):
        load_dataset("meshes", tmp_path / "own", pictures=Pictures(views=70))


def test_views_are_drawn_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_meshes(tmp_path / "own")
    read: list[str] = []

    def noting(path: Path) -> Mesh:
        read.append(path.name)
        return read_off(path)

    monkeypatch.setattr(rendering, "read_off", noting)
    watched: list[tuple[int, int, str]] = []

    def load(**pictures: Any) -> Array:
        read.clear()
        how = Pictures(**{"size": 8, "views": 2, **pictures})
        watch = lambda *told: watched.append(told)  # noqa: E731
        return load_dataset("meshes", tmp_path / "own", pictures=how, watch=watch).x

    first = load()
    assert len(read) == 10
    assert [told[:2] for told in watched] == [(n, 10) for n in range(1, 11)]
    assert np.array_equal(load(), first)
    assert read == []
    assert load(views=3).shape == (10, 3, 8, 8)
    assert len(read) == 10  # another number of views is another thing to keep
    for kept in (tmp_path / "cache").glob("meshes-*.npz"):
        damaged = bytearray(kept.read_bytes())
        damaged[len(damaged) // 3] ^= 1  # a single bit, among the pixels
        kept.write_bytes(damaged)
    assert np.array_equal(load(), first)
    assert len(read) == 10  # a damaged file is made again
    (tmp_path / "own/plank/train/plank_0.off").write_text(off_of_box(1, 1, 1))
    changed = load()
    assert len(read) == 10
    assert not np.array_equal(changed[0], first[0])
    assert np.array_equal(changed[1:], first[1:])


def test_a_bad_mesh_in_a_folder_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    write_meshes(tmp_path / "own")
    (tmp_path / "own/plank/test/plank_1.off").write_text(
        off_of_box(1, 1, 1).replace("4 0 1 3 2", "4 0 1 3 9")
    )
    with pytest.raises(DataError, match=r"plank_1.off', line 11"):
        load_dataset("meshes", tmp_path / "own")
    assert not (tmp_path / "cache").exists()
