"""What a party was asked: counted as it comes, for its operator to see.

A party serves for months, so nothing here grows with the number of messages: counts are kept a
kind of request, and the transcript's file is begun anew when it is full.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unlabel.files import writing
from unlabel.wire import Message, Refused, Transcript, kind_of
from unlabel.wire.transcript import Direction, Entry

#: Bytes at which a transcript's file is put aside and another begun; one old file is kept.
FULL = 64 * 2**20
#: Refusals that are remembered with their reason.
REFUSALS = 20


@dataclass
class Count:
    """What was asked in one kind of request."""

    times: int = 0
    rows: int = 0
    received: int = 0
    sent: int = 0
    refused: int = 0
    last: float = 0.0


@dataclass
class Asked:
    """All that a party was asked since it was started."""

    counts: dict[str, Count] = field(default_factory=dict)
    refusals: deque[str] = field(default_factory=lambda: deque(maxlen=REFUSALS))
    since: float = field(default_factory=time.time)

    def note_request(self, entry: Entry) -> None:
        """Count a request."""
        count = self.counts.setdefault(entry.kind, Count())
        count.times += 1
        count.rows += sum(shape[0] for name, shape in entry.shapes.items() if name == "rows")
        count.received += entry.bytes
        count.last = time.time()

    def note_answer(self, asked: str, entry: Entry, reason: str | None) -> None:
        """Count the answer to a kind of request."""
        count = self.counts.setdefault(asked, Count())
        count.sent += entry.bytes
        if reason is not None:
            count.refused += 1
            self.refusals.append(f"{time.strftime('%H:%M:%S')} {asked}: {reason}")

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return {kind: vars(count) for kind, count in self.counts.items()}


class WatchedTranscript(Transcript):
    """A transcript that counts what it sees, and keeps in memory only what is not written yet."""

    def __init__(self, path: Path, asked: Asked) -> None:
        super().__init__(path=path)
        self._file = path
        self._asked = asked
        self._last = ""

    def log(self, direction: Direction, message: Message) -> None:
        """Note one message and count it."""
        super().log(direction, message)
        entry = self.last
        if direction == "received":
            self._last = entry.kind
            self._asked.note_request(entry)
        else:
            reason = message.reason if isinstance(message, Refused) else None
            self._asked.note_answer(self._last or kind_of(message), entry, reason)

    def flush(self) -> None:
        """Append to the file what is not there yet, and forget it."""
        super().flush()
        self.forget_written()
        with writing(self._file):
            if self._file.exists() and self._file.stat().st_size > FULL:
                self._file.replace(self._aside)

    def clear(self) -> None:
        """Forget all that was noted, in memory and in both files."""
        super().clear()
        with writing(self._aside):
            self._aside.unlink(missing_ok=True)

    @property
    def _aside(self) -> Path:
        return self._file.with_name(self._file.name + ".1")
