"""A party's own log: what it refused, lost or suspected, in a file that does not grow for ever."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
from collections.abc import Iterator
from pathlib import Path

from unlabel.files import OWNER_ONLY, writing

#: Bytes at which a log is put aside, and how many old ones are kept.
FULL, OLD = 5 * 2**20, 3


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write what this program has to say about its parties into a file, for as long as it runs."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=OWNER_ONLY)
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=FULL, backupCount=OLD)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours = logging.getLogger("unlabel")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.setLevel(before)
        ours.removeHandler(handler)
        handler.close()
