"""Kits made once, and copied for each test: keys take their time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_parties import make_kits, small_keys

__all__ = ["small_keys"]  # a fixture for every test here


@pytest.fixture(scope="session")
def made_kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    make_kits(folder)
    return folder


@pytest.fixture(scope="session")
def other_kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of the same parties under another authority."""
    folder = tmp_path_factory.mktemp("other")
    make_kits(folder)
    return folder


@pytest.fixture
def kits(made_kits: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_kits, tmp_path / "kits"))
