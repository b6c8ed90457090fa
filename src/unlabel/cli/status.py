"""`unlabel status` and `unlabel ledger`: where the parties stand, and what they remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from unlabel import erasure
from unlabel.cli.output import Json, print_json, print_table
from unlabel.cli.target import Far, Run, Target
from unlabel.errors import SettingsError, unknown
from unlabel.party import LedgerEntry


def status(run: Run = None, federation: Far = None, json: Json = False) -> None:
    """Show which version each party is on and what is staged."""
    target = Target.of(run, federation)
    with target.open(recovering=True, resume=True) as opened:
        standing = opened.lasting(lambda: erasure.status(opened))
    together = len({(s.version, s.staged) for s in standing.values()}) == 1
    forgotten = [opened.labels[n] for n in opened.forgotten.labels]
    if json:
        print_json(
            {
                "parties": {name: asdict(stands) for name, stands in standing.items()},
                "together": together,
                "forgotten_labels": forgotten,
                "forgotten_people": len(opened.forgotten.rows),
                **target.json(),
            }
        )
        return
    rows = [["party", "version", "older versions", "staged request", "ledger"]]
    for name, stands in standing.items():
        older = ", ".join(str(v) for v in stands.versions[:-1]) or "-"
        head = stands.ledger[:12] or "-"
        rows.append(
            [
                name,
                "-" if stands.version is None else str(stands.version),
                older,
                stands.staged or "-",
                head,
            ]
        )
    note = "all parties agree" if together else f"the parties differ: unlabel recover {target}"
    print_table(f"Forgotten: {', '.join(forgotten) or 'no label'}", rows, note)


def ledger(
    run: Run = None,
    federation: Far = None,
    party: Annotated[str, typer.Option(help="Whose ledger.")] = "active",
    json: Json = False,
) -> None:
    """Show what a party's ledger says; a broken chain is an error."""
    target = Target.of(run, federation)
    books = erasure.books(target.folder) if target.kit else _books(target)
    if party not in books:
        raise SettingsError(unknown("party", party, books))
    entries = books[party]
    if json:
        print_json({"party": party, "entries": [asdict(e) for e in entries], **target.json()})
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


def _books(target: Target) -> Mapping[str, list[LedgerEntry]]:
    with target.open(recovering=True, resume=True) as opened:
        return erasure.ledgers(opened)


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(each)}" for name, each in value.items())
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 24 else text[:12] + "..."
