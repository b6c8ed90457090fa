"""Whether a party's process serves, as a fact in its kit: for whoever starts it and waits for it.

KIT/state/serving holds the id of the process that serves, from its first to its last moment of it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, write_atomically

log = logging.getLogger("unlabel.readiness")

SERVING = "serving"
#: Seconds between two looks at whether a party serves.
LOOK = 0.1
#: Last characters of what a party printed that an error repeats.
PRINTED = 500


@contextlib.contextmanager
def serving(state: Path) -> Iterator[None]:
    """Note in a kit's folder of state that this process serves, for as long as it does.

    A party whose disk is full serves all the same, and whoever waits for the note does so in vain.
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
    """Return the id of the process that noted that it serves, None where there is no such note.

    A process that was killed leaves its note behind, so the id has to be that of a process that is
    known to live.
    """
    try:
        return int((state / SERVING).read_bytes())
    except (OSError, ValueError):
        return None


def await_serving(
    process: subprocess.Popen[bytes], kit: Path, printed: Path, *, seconds: float
) -> None:
    """Wait until a process serves the party of a kit; raise with its own words if it ends instead.

    printed  the file that its output goes to
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if serving_process(kit / "state") == process.pid:
            return
        if process.poll() is not None:
            words = printed.read_text(encoding="utf-8", errors="replace").strip()
            raise RunError(f"Party '{kit.name}' did not start: {words[-PRINTED:]}")
        time.sleep(LOOK)
    raise RunError(f"Party '{kit.name}' did not serve within {seconds:g} seconds.")
