"""A file system of its own that is really full."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of so many bytes on a new folder; skip the test where that cannot be."""
    folder.mkdir()
    words = ("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system, and not everywhere")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Leave no room on a disk, inside the block."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)) == 4096:
            pass
    try:
        yield
    finally:
        path.unlink()
