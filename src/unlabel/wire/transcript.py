"""What a party saw: every message over its boundary, in order."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor

from unlabel.errors import RunError
from unlabel.files import writing
from unlabel.wire.codec import encoded_size
from unlabel.wire.messages import Message, kind_of, tensors_of
from unlabel.wire.transport import Transport

log = logging.getLogger("unlabel.transcript")

Direction = Literal["received", "sent"]

#: Entries that are appended to a transcript's file at a time.
BLOCK = 256


@dataclass(frozen=True)
class Entry:
    """One message as a passive party saw it: `received` from, or `sent` to, the active party.

    at  seconds by a clock that only runs forward; it is not kept in files
    """

    direction: Direction
    step: int
    kind: str
    shapes: dict[str, list[int]]
    bytes: int
    at: float = field(default=0.0, compare=False)
    tensors: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def to_json(self) -> str:
        """Return the entry as a line of JSON, without its tensors."""
        names = ("direction", "step", "kind", "shapes", "bytes")
        return json.dumps({name: getattr(self, name) for name in names})


class Transcript:
    """Everything that crossed one party's boundary.

    With `path` entries are also appended there as lines of JSON (never the tensors), in blocks and
    on `flush`. `keep_tensors` keeps copies of the tensors, to study what they give away.

    A file that cannot be written fails no request: that is logged once, and `unwritten` says why
    until it works again.
    """

    def __init__(self, *, path: Path | None = None, keep_tensors: bool = False) -> None:
        self.entries: list[Entry] = []
        self._path = path
        self._keep_tensors = keep_tensors
        self._written = 0
        self.unwritten = ""
        self.last = Entry("received", 0, "", {}, 0)

    def log(self, direction: Direction, message: Message) -> None:
        """Note one message."""
        tensors, kind, size = tensors_of(message), kind_of(message), encoded_size(message)
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        # Clones: the local transport hands over memory that its owner may write again.
        copies = {k: v.detach().clone() for k, v in tensors.items() if self._keep_tensors}
        self.last = Entry(direction, message.step, kind, shapes, size, time.monotonic(), copies)
        self.entries.append(self.last)
        if len(self.entries) - self._written >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Append to the file what is not there yet."""
        if self._path is None:
            return
        lines = [entry.to_json() + "\n" for entry in self.entries[self._written :]]
        try:
            with writing(self._path):
                _append(self._path, "".join(lines).encode())
        except RunError as error:
            if not self.unwritten:
                log.error("%s Messages are served on without a transcript.", error)
            self.unwritten = str(error)
            return
        if self.unwritten:
            log.warning("'%s' is written again.", self._path)
        self._written, self.unwritten = len(self.entries), ""

    def forget_written(self) -> None:
        """Drop from memory what is in the file."""
        del self.entries[: self._written]
        self._written = 0

    def clear(self) -> None:
        """Drop all entries, in memory and in the file."""
        self.entries.clear()
        self._written = 0
        if self._path is not None:
            with writing(self._path):
                self._path.unlink(missing_ok=True)

    def timeline(self, most: int = 300) -> list[dict[str, Any]]:
        """Return when what went, in no more than `most` points: entries in a row are joined."""
        start = self.entries[0].at if self.entries else 0.0
        size = -(-len(self.entries) // most) or 1
        points = []
        for direction in get_args(Direction):
            entries = [entry for entry in self.entries if entry.direction == direction]
            for first in range(0, len(entries), size):
                group = entries[first : first + size]
                points.append(
                    {
                        "at": round(group[0].at - start, 4),
                        "direction": direction,
                        "kind": group[0].kind,
                        "bytes": sum(entry.bytes for entry in group),
                    }
                )
        return sorted(points, key=lambda point: float(point["at"]))

    def total_bytes(self, direction: Direction) -> int:
        """Return the bytes that went in one direction."""
        return sum(entry.bytes for entry in self.entries if entry.direction == direction)


def _append(path: Path, data: bytes) -> None:
    """Append bytes to a file, or leave it as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise


class Recorder(Transport):
    """Wraps any transport and keeps a transcript for each party."""

    def __init__(self, inner: Transport, *, keep_tensors: bool = False) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self.transcripts = {p: Transcript(keep_tensors=keep_tensors) for p in inner.parties}

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Pass the requests on, noting them and their answers."""
        for party, request in requests.items():
            self.transcripts[party].log("received", request)
        answers = self._inner.exchange(requests)
        for party, answer in answers.items():
            self.transcripts[party].log("sent", answer)
        return answers

    def flush(self) -> None:
        """Have sent what is held back."""
        self._inner.flush()
