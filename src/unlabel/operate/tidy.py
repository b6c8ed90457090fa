"""What the engine leaves behind of every job, taken away again: a party serves for months."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path

#: Folders of past jobs that stay, for whoever looks into what went wrong.
KEPT = 5


def tidy(folder: Path, kept: int = KEPT) -> int:
    """Remove the folders of all jobs but the newest; return how many went."""
    jobs = [path for path in folder.glob("*-*-*-*-*") if path.is_dir() and _is_job(path.name)]
    gone = 0
    for path in sorted(jobs, key=_age)[: max(0, len(jobs) - kept)]:
        with contextlib.suppress(OSError):  # one that is in use goes the next time
            shutil.rmtree(path)
            gone += 1
    return gone


def _is_job(name: str) -> bool:
    """Return whether a folder is named as the engine names jobs: by a UUID.

    >>> _is_job("175c3057-1537-4d69-be71-b9286f5adae8"), _is_job("a-b-c-d-e")
    (True, False)
    """
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
