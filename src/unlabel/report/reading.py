"""What a report is made from: the verdict that `unlabel audit` wrote, and the parties' ledgers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel.audit.verdict import FORMAT, KINDS, NotAVerdict, Verdict
from unlabel.errors import RunError
from unlabel.party import LedgerEntry

__all__ = ["KINDS", "from_json", "purge_times", "read_verdict", "state_since"]


def read_verdict(path: Path) -> Verdict:
    """Return the verdict in a file, or say what is wrong with it."""
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RunError(
            f"There is no audit at '{path}'; run `unlabel audit {path.parent.parent}` first."
        ) from error
    except OSError as error:
        raise RunError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise _changed(path, "it is no JSON") from error
    if not isinstance(raw, dict):
        raise _changed(path, "it holds no object")
    if raw.get("format") != FORMAT:
        raise RunError(
            f"'{path}' was written by another version of unlabel (format {raw.get('format')}, "
            f"expected {FORMAT}); run `unlabel audit` again."
        )
    return from_json(raw, path)


def from_json(raw: dict[str, Any], path: Path) -> Verdict:
    """Return the verdict of a file's plain data, or say what is wrong with the file."""
    try:
        return Verdict.from_json(raw)
    except NotAVerdict as error:
        raise _changed(path, error.reason) from error


def _changed(path: Path, what: str) -> RunError:
    return RunError(
        f"'{path}' is not what `unlabel audit` writes: {what}; run `unlabel audit` again."
    )


def purge_times(
    ledgers: Mapping[str, Sequence[LedgerEntry]], request: str
) -> dict[str, str | None]:
    """Return when each party's ledger attests a purge after it committed a request, or None.

    A purge counts where it goes with this request or with a later one: one that was asked for
    before, and came late, left the weights from before this request where they were.
    """
    found: dict[str, str | None] = {}
    for party, entries in ledgers.items():
        committed = [entry.request for entry in entries if entry.event == "commit"]
        since = committed[committed.index(request) :] if request in committed else []
        purges = [e.at for e in entries if e.event == "purge" and e.request in since]
        found[party] = purges[0] if purges else None
    return found


def state_since(entries: Sequence[LedgerEntry], request: str, audited: str) -> str:
    """Return what became of a request: what a ledger says, else what it was when audited."""
    known = {"commit": "committed", "rollback": "rolled-back"}
    found = [known[e.event] for e in entries if e.request == request and e.event in known]
    return found[-1] if found else audited
