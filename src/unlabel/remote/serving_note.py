"""The note that a party serves: KIT/state/serving holds the id of its process while it does.

Whoever starts a party waits for it. PyTorch is not needed to write or to read it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, write_atomically

log = logging.getLogger("unlabel.serving_note")

SERVING = "serving"


@contextlib.contextmanager
def serving(state: Path) -> Iterator[None]:
    """Note in a kit's folder of state that this process serves, for as long as it does.

    A party whose disk is full serves without the note.
    """
    path = state / SERVING
    try:
        write_atomically(path, f"{os.getpid()}\n".encode(), mode=OWNER_ONLY)
    except RunError as error:
        log.warning("%s", error)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def serving_process(state: Path) -> int | None:
    """Return the id in the note, None where there is none; a killed process leaves its note."""
    try:
        return int((state / SERVING).read_bytes())
    except (OSError, ValueError):
        return None
