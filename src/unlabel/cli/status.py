"""`unlabel status` and `unlabel ledger`: where the parties stand, and what they remember."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from unlabel import erasure
from unlabel.cli.output import Json, print_json, print_table
from unlabel.cli.target import Far, Run, Target
from unlabel.errors import SettingsError, unknown
from unlabel.party import LedgerEntry
from unlabel.report.words import moment

#: SHA-256 in hexadecimal, of which a few letters tell one from another.
DIGEST = re.compile("[0-9a-f]{64}")
#: Entries of a list that are shown; --json has them all.
LISTED = 8


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
    rows = [["line", "event", "note"]]
    for e in entries:
        event = (e.event, moment(e.at), f"request {e.request}", f"hash {e.hash[:12]}")
        note = (f"{name.replace('_', ' ')}: {in_words(value)}" for name, value in e.note.items())
        rows.append([str(e.index), "\n".join(event), "\n".join(note) or "-"])
    count = f"{len(entries)} line{'' if len(entries) == 1 else 's'}"
    print_table(f"Ledger of {party}: {count}, chain whole", rows, lines=True)


def _books(target: Target) -> Mapping[str, list[LedgerEntry]]:
    with target.open(recovering=True, resume=True) as opened:
        return erasure.ledgers(opened)


def in_words(value: object) -> str:
    """Return a note for people: digests and long lists are cut, names never.

    >>> in_words({"level": "top", "forced": False}), in_words(["home", "student loan, old"])
    ('level top, forced no', 'home, student loan, old')
    >>> in_words("0f" * 32), in_words([f"c{number}" for number in range(12)])
    ('0f0f0f0f0f0f...', 'c0, c1, c2, c3, c4, c5, c6, c7 and 4 more')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(each)}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - LISTED} more" if len(value) > LISTED else ""
        return ", ".join(map(in_words, value[:LISTED])) + more or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "-" if value is None else str(value)
    return f"{text[:12]}..." if DIGEST.fullmatch(text) else text
