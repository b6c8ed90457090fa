"""What the active party keeps of a request in `secrets`, a folder that nobody else may read.

<request>.json  what is forgotten, and the key of the commitment to it
decision.json   what was known of a request when it was decided to commit it
account.json    what noisy requests have disclosed (`privacy_loss`)
queue.json      requests that wait for a slot (`slots`)
deferred.json   requests that wait for the next full training (`deferred`)
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.forget.request import Request

ACCOUNT, DECISION, QUEUE = "account.json", "decision.json", "queue.json"
DEFERRED = "deferred.json"


class RequestSecrets:
    """The keys of requests, and the decision that is being carried out."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "secrets"

    def keep_key(self, request: Request) -> None:
        """Keep the key of a request's commitment."""
        self._write(f"{request.id}.json", {**request.what(), "key": request.key})

    def key(self, request: str) -> str:
        """Return the key of a request, empty where none is kept."""
        try:
            return str(json.loads((self._folder / f"{request}.json").read_bytes())["key"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""

    def drop_key(self, request: str) -> None:
        """Remove the key of a request that came to nothing."""
        self._remove(f"{request}.json")

    def note_decision(self, request: str, audit: dict[str, Any] | None) -> None:
        """Note what is known of a request before it is committed: a crash does not lose it."""
        self._write(DECISION, {"request": request, **({"audit": audit} if audit else {})})

    def decision(self, request: str) -> dict[str, Any]:
        """Return what was noted of a request; nothing where another was decided on."""
        try:
            note = dict(json.loads((self._folder / DECISION).read_bytes()))
        except (OSError, ValueError):
            return {}
        return note if note.pop("request", None) == request else {}

    def drop_decision(self) -> None:
        """Remove the note once the commit is done."""
        self._remove(DECISION)

    def drop_strays(self, requests: Collection[str]) -> None:
        """Remove keys of all but these requests, and half-written files that a crash left."""
        for path in sorted(self._folder.glob("*.json*")):
            known = path.stem in requests or path.name in (QUEUE, ACCOUNT, DECISION, DEFERRED)
            if path.suffix == ".part" or not known:
                self._remove(path.name)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        write_atomically(self._folder / name, json.dumps(content).encode(), mode=OWNER_ONLY)

    def _remove(self, name: str) -> None:
        path = self._folder / name
        with writing(path):
            path.unlink(missing_ok=True)
