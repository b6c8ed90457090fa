"""`unlabel status` and `unlabel ledger`: where the parties stand, and what they remember."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unlabel import erasure
from unlabel.cli.output import Json, print_json, print_table
from unlabel.errors import SettingsError, unknown
from unlabel.federation import Federation


def status(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")], json: Json = False
) -> None:
    """Show which version each party is on and what is staged."""
    federation = Federation.open(run, recovering=True, resume=True)
    standing = erasure.status(federation)
    together = len({(s.version, s.staged) for s in standing.values()}) == 1
    forgotten = [federation.labels[n] for n in federation.forgotten.labels]
    if json:
        print_json(
            {
                "parties": {name: asdict(stands) for name, stands in standing.items()},
                "together": together,
                "forgotten_labels": forgotten,
                "forgotten_people": len(federation.forgotten.rows),
                "run": str(run),
            }
        )
        return
    rows = [["party", "version", "older versions", "staged request", "ledger"]]
    for name, stands in standing.items():
        older = ", ".join(str(v) for v in stands.versions[:-1]) or "-"
        head = stands.ledger[:12] or "-"
        rows.append([name, str(stands.version or "-"), older, stands.staged or "-", head])
    note = "all parties agree" if together else f"the parties differ: unlabel recover {run}"
    print_table(f"Forgotten: {', '.join(forgotten) or 'no label'}", rows, note)


def ledger(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    party: Annotated[str, typer.Option(help="Whose ledger.")] = "active",
    json: Json = False,
) -> None:
    """Show what a party's ledger says; a broken chain is an error."""
    federation = Federation.open(run, recovering=True, resume=True)
    books = erasure.ledgers(federation)
    if party not in books:
        raise SettingsError(unknown("party", party, books))
    entries = books[party]
    if json:
        print_json({"party": party, "entries": [asdict(e) for e in entries], "run": str(run)})
        return
    rows = [["line", "at", "event", "request", "note", "hash"]]
    rows += [
        [
            str(e.index),
            e.at,
            e.event,
            e.request,
            ", ".join(f"{k}: {_short(v)}" for k, v in e.note.items()),
            e.hash[:12],
        ]
        for e in entries
    ]
    print_table(f"Ledger of {party}: {len(entries)} lines, chain whole", rows)


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(each)}" for name, each in value.items())
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 24 else text[:12] + "..."
