"""What a party remembers of requests: a file of chained lines that only grows.

    {"index": 0, "event": "commit", "request": "9f..", "at": "2026-..", "note": {..},
     "previous": "", "hash": ".."}

Each line's hash covers the line and the hash before it, so a line that is changed, dropped or
moved breaks the chain from there on. Lines cut off at the end leave a shorter chain; the active
party notes where the others' ledgers end, so that this shows too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from unlabel.errors import CheckpointError
from unlabel.files import sha256, write_atomically

Event = Literal[
    "audit", "commit", "rollback", "purge", "defer", "update", "overwrite", "freeze", "restore"
]


@dataclass(frozen=True)
class LedgerEntry:
    """One line of a ledger.

    note  what was decided: the labels, or a commitment to them where they are secret
    """

    index: int
    event: str
    request: str
    at: str
    note: dict[str, Any]
    previous: str
    hash: str

    def line(self) -> str:
        """Return the entry as it stands in the file."""
        return json.dumps(asdict(self))

    def expected_hash(self) -> str:
        """Return the hash of everything else in the line."""
        plain = {name: value for name, value in asdict(self).items() if name != "hash"}
        return sha256(json.dumps(plain, sort_keys=True).encode())


class Ledger:
    """The ledger of one party; `mode` says who may read its file."""

    def __init__(self, folder: Path, *, mode: int = 0o666) -> None:
        self.path = folder / "ledger.jsonl"
        self.mode = mode

    def entries(self) -> list[LedgerEntry]:
        """Return all lines, or say which one breaks the chain."""
        if not self.path.exists():
            return []
        where = f"{self.path.parent.name}/{self.path.name}"
        try:
            lines = self.path.read_bytes().decode().removesuffix("\n").split("\n")
            entries = [LedgerEntry(**json.loads(line)) for line in lines]
        except OSError as error:
            raise CheckpointError(f"Ledger '{where}' cannot be read ({error.strerror}).") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(f"Ledger '{where}' is truncated or was changed.") from error
        previous = ""
        for index, (line, entry) in enumerate(zip(lines, entries, strict=True)):
            # A line has one form, so that nothing hides in blanks or repeated keys.
            whole = entry.index == index and entry.previous == previous and entry.line() == line
            if not whole or entry.hash != entry.expected_hash():
                raise CheckpointError(
                    f"Ledger '{where}' was changed: its chain breaks at line {index + 1}."
                )
            previous = entry.hash
        return entries

    def head(self) -> str:
        """Return the hash of the last line, empty before the first."""
        entries = self.entries()
        return entries[-1].hash if entries else ""

    def append(self, event: Event, request: str, note: dict[str, Any]) -> None:
        """Add a line, unless there is one of the same event and request already.

        A request may be audited many times: of these lines the newest counts. Parties may be
        restored from backups many times too.
        """
        entries = self.entries()
        # After one request there may be several purges: they differ in the version they left.
        for entry in entries:
            same = event not in ("audit", "restore") and (entry.event, entry.request) == (
                event,
                request,
            )
            if same and (event != "purge" or entry.note.get("version") == note.get("version")):
                return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        previous = entries[-1].hash if entries else ""
        draft = LedgerEntry(len(entries), event, request, now, note, previous, hash="")
        sealed = replace(draft, hash=draft.expected_hash())
        text = "".join(entry.line() + "\n" for entry in [*entries, sealed])
        write_atomically(self.path, text.encode(), mode=self.mode)
