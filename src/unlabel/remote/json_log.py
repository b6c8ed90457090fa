"""Log lines as JSON, one object a line, for whatever collects logs.

    {"time": "2026-11-18T22:10:05.123+00:00", "level": "WARNING", "event": "refused",
     "message": "refused shop ...", "party": "shop", "who": "shop", "kind": "Embed"}

Of what a record carries besides its message (`extra`), the fields in `FIELDS` are written and no
others: a label, an id or a tensor that somebody hands to a logger by mistake does not get in there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from unlabel.events import FIELDS as EVENT_FIELDS
from unlabel.files import OWNER_ONLY, writing

LogFormat = Literal["text", "json"]
FORMATS: tuple[str, ...] = get_args(LogFormat)
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: What may stand beside a message: the fields of events, which are names, words and counts.
FIELDS = ("who", *EVENT_FIELDS)
#: Bytes at which a log is put aside, and how many old ones are kept.
FULL, OLD = 5 * 2**20, 3


class JsonFormatter(logging.Formatter):
    """Makes a line of JSON of a record.

    party  whose log it is
    """

    def __init__(self, party: str) -> None:
        super().__init__()
        self.party = party

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "event": getattr(record, "event", record.name.removeprefix("unlabel.")),
            "message": record.getMessage(),
            "party": self.party,
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if isinstance(value, str | int | float):
                line[name] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _BoundedLog(logging.handlers.RotatingFileHandler):
    """A log that stays closed: Python's own is opened anew by a record that comes after `close`.

    A thread that has the list of handlers in hand still gives its record to one just removed.
    """

    is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; `handle` and `close` hold the same lock."""
        if not self.is_closed:
            super().emit(record)

    def close(self) -> None:
        """Close the file for good."""
        with self.lock or contextlib.nullcontext():
            self.is_closed = True
            super().close()


def formatter(form: str, party: str) -> logging.Formatter:
    """Return the formatter of a party's log."""
    return JsonFormatter(party) if form == "json" else logging.Formatter(TEXT)


@contextlib.contextmanager
def logging_to(path: Path, form: str = "text", party: str = "") -> Iterator[None]:
    """Write what unlabel logs into a file of bounded size, inside the block.

    A disk that is full costs lines and stops nothing.

    form   text or json, of the log of a party
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=OWNER_ONLY)
        handler = _BoundedLog(path, maxBytes=FULL, backupCount=OLD)
    handler.setFormatter(formatter(form, party))
    ours = logging.getLogger("unlabel")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.setLevel(before)
        ours.removeHandler(handler)
        with contextlib.suppress(OSError):  # lines that a full disk did not take
            handler.close()
