"""Counts of what a party was asked, for its operator to see.

A party serves for months, so nothing here grows with the number of messages: there is one count a
kind of request, and the transcript's file is begun anew when it is full.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from unlabel.files import writing
from unlabel.wire import Message, Refused, Transcript, kind_of
from unlabel.wire.transcript import BLOCK, Direction

#: Bytes at which a transcript's file is put aside and another begun; one old file is kept.
FULL = 64 * 2**20
#: Refusals that are kept with their reason.
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
class RequestStats:
    """All that a party was asked since it was started: by kind, and what it refused by code.

    transcript  why its transcript cannot be written now, empty where it can
    """

    counts: dict[str, Count] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    transcript: str = ""
    refusals: deque[str] = field(default_factory=lambda: deque(maxlen=REFUSALS))

    @property
    def last(self) -> float:
        """When it was last asked anything, 0 if never."""
        return max((count.last for count in list(self.counts.values())), default=0.0)


class CountedTranscript(Transcript):
    """A transcript that counts its messages, and keeps in memory only what is not written yet."""

    def __init__(self, path: Path, stats: RequestStats) -> None:
        super().__init__(path=path)
        self._file = path
        self._stats = stats
        self._last = ""

    def log(self, direction: Direction, message: Message) -> None:
        """Note one message and count it; an answer counts for the request before it."""
        super().log(direction, message)
        entry = self.last
        if direction == "received":
            self._last = entry.kind
        kind = self._last or kind_of(message)
        count = self._stats.counts.setdefault(kind, Count())
        if direction == "received":
            count.times += 1
            count.rows += sum(shape[0] for name, shape in entry.shapes.items() if name == "rows")
            count.received += entry.bytes
            count.last = time.time()
            return
        count.sent += entry.bytes
        if isinstance(message, Refused):
            count.refused += 1
            self._stats.codes[message.code] = self._stats.codes.get(message.code, 0) + 1
            self._stats.refusals.append(f"{time.strftime('%H:%M:%S')} {kind}: {message.reason}")

    def flush(self) -> None:
        """Append to the file what is not there yet, and forget it."""
        super().flush()
        self.forget_written()
        self._stats.transcript = self.unwritten
        if self.unwritten:
            # What is not written is kept for a while; a party serves for months.
            del self.entries[:-BLOCK]
            return
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
