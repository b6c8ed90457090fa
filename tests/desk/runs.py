"""What tests of the desk ask of a run's folder."""

from __future__ import annotations

from pathlib import Path

from unlabel.files import sha256


def contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file in a folder."""
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
