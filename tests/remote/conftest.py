"""Kits made once, and copied for each test: keys take their time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_parties import make_kits, small_keys

from unlabel.remote.certificates import Authority

__all__ = ["small_keys"]  # a fixture for every test here


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Authority]:
    folder = tmp_path_factory.mktemp("kits")
    return folder, make_kits(folder)


@pytest.fixture(scope="session")
def made_kits(made: tuple[Path, Authority]) -> Path:
    return made[0]


@pytest.fixture(scope="session")
def authority(made: tuple[Path, Authority]) -> Authority:
    """Who certified the kits."""
    return made[1]


@pytest.fixture(scope="session")
def other_kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of the same parties under another authority."""
    folder = tmp_path_factory.mktemp("other")
    make_kits(folder)
    return folder


@pytest.fixture
def kits(made_kits: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_kits, tmp_path / "kits"))
