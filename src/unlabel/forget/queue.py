"""Requests that wait for a slot: a file of the active party's that nobody else can read.

    [["cat"], ["dog", "owl"]]

Each entry names the labels of one request; the first is the next to be carried out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from unlabel.errors import RunError
from unlabel.files import write_atomically, writing

#: The file's name, among the active party's secrets.
QUEUE = "queue.json"


class Queue:
    """The requests that wait, in the order in which they came."""

    def __init__(self, home: Path) -> None:
        self.path = home / "secrets" / QUEUE

    def waiting(self) -> list[tuple[str, ...]]:
        """Return the labels of every request that waits, or say that the file is damaged."""
        if not self.path.exists():
            return []
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(self._damaged()) from error
        if not isinstance(found, list) or not all(map(_is_request, found)):
            raise RunError(self._damaged())
        return [tuple(labels) for labels in found]

    def append(self, labels: Sequence[str]) -> int:
        """Let a request wait; return its place, counted from 1."""
        with self._alone():
            waiting = [*self.waiting(), tuple(labels)]
            self._write(waiting)
            return len(waiting)

    def first(self) -> tuple[str, ...]:
        """Return the labels of the next request, none where nothing waits."""
        return next(iter(self.waiting()), ())

    def drop_first(self) -> None:
        """Take the next request off, once it is decided on."""
        with self._alone():
            self._write(self.waiting()[1:])

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes out: one may queue while another takes off."""
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, waiting: Sequence[Sequence[str]]) -> None:
        text = json.dumps([list(labels) for labels in waiting])
        write_atomically(self.path, text.encode(), mode=0o600)

    def _damaged(self) -> str:
        return (
            f"The queue '{self.path}' cannot be read; expected a list of lists of labels; remove "
            f"it and queue its requests again."
        )


def _is_request(entry: object) -> bool:
    named = isinstance(entry, list) and all(isinstance(label, str) for label in entry)
    return named and bool(entry)
