"""Kits made once, and copied for each test: keys take their time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from operate.hand_kits import make_kits


@pytest.fixture(scope="session", autouse=True)
def _small_keys() -> Iterator[None]:
    """Make keys a third shorter, in a quarter of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlabel.operate.certificates.KEY_BITS", 2048)
        yield


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
