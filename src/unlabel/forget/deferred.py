"""People's requests that wait for the next full training, and show the partners nothing until then.

After a hidden request gradients would show what it was about, and so a request about a person is
refused. It can wait instead, in a file that only the active party reads:

    [{"request": "9f..", "people": ["C-1"], "until": "2026-12-31"}]

Its ledger holds the day by which it has to be done. `Federation.update` trains without these
labels; which rows that training leaves out, the partners see: all of them together.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.forget.exact import find_exact
from unlabel.forget.plan import find_request
from unlabel.forget.request_secrets import DEFERRED
from unlabel.forget.run_interface import Run
from unlabel.party.deciding import deciding


@dataclass(frozen=True)
class Deferred:
    """A request that waits: its id, whom it is about, and the day by which it is to be done."""

    request: str
    people: tuple[str, ...]
    until: str


def deferred_in(home: Path) -> list[Deferred]:
    """Return what waits in the active party's folder."""
    path = home / "secrets" / DEFERRED
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [Deferred(str(e["request"]), tuple(e["people"]), str(e["until"])) for e in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"'{path}' cannot be read; restore it from a backup.") from error


def defer(run: Run, ids: tuple[str, ...], until: str | date) -> Deferred:
    """Let the request of people wait, and send nothing; its day stands in the ledger."""
    try:
        day = date.fromisoformat(str(until))
    except ValueError as error:
        raise SettingsError(
            f"Expected --defer to be a day like 2026-12-31 but got '{until}'."
        ) from error
    if day < datetime.now(UTC).date():
        raise SettingsError(f"Expected --defer to be today or later but got {day}.")
    find = find_exact if run.config.is_label_free else find_request
    request, home = find(run, ids), run.folder / ACTIVE
    with deciding(home):
        waiting = deferred_in(home)
        repeated = [text for each in waiting for text in each.people if text in request.ids]
        if repeated:
            raise SettingsError(f"The request of '{repeated[0]}' waits already.")
        entry = Deferred(request.id, request.ids, day.isoformat())
        text = json.dumps([asdict(each) for each in (*waiting, entry)]).encode()
        note = {**request.active_note("update"), "until": entry.until}
        write_atomically(home / "secrets" / DEFERRED, text, mode=OWNER_ONLY)
        run.active.versions.ledger.append("defer", request.id, note)
    return entry
