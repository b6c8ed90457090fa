"""`unlabel status` and `unlabel ledger`: where the parties stand, and what they remember."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import unlabel as ul
from unlabel.cli.output import Json, print_json, print_table, say
from unlabel.cli.target import Kit, Run, Target
from unlabel.errors import SettingsError, unknown

if TYPE_CHECKING:
    from unlabel.forget import Status

#: SHA-256 in hexadecimal, of which a few letters tell one from another.
DIGEST = re.compile("[0-9a-f]{64}")
#: Entries of a list that are shown; --json has them all.
LISTED = 8


def status(
    run: Run = None,
    federation: Kit = None,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies", help="List every place where a forgotten label or older weights can lie."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Show which version each party is on and what is staged."""
    target = Target.of(run, federation)
    if copies:
        _show_copies(target, json=json)
        return
    with target.open_standing(recovering=True, resume=True) as opened:
        standing = opened.status()
    if json:
        facts = {
            "parties": {name: asdict(stands) for name, stands in standing.parties.items()},
            "together": standing.together,
            "differences": standing.differences,
            "forgotten_labels": standing.forgotten_labels,
            "forgotten_people": standing.forgotten_people,
            "unfinished": standing.unfinished,
            "waiting": [asdict(each) for each in standing.waiting],
            "bottoms": opened.config.bottoms,
        }
        print_json({**facts, **target.json()})
        return
    rows = [["party", "version", "older versions", "staged request", "ledger"]]
    for name, stands in standing.parties.items():
        older = ", ".join(str(v) for v in stands.versions[:-1]) or "-"
        version = "-" if stands.version is None else str(stands.version)
        rows.append([name, version, older, stands.staged or "-", stands.ledger[:12] or "-"])
    differ = f"the parties differ: unlabel recover {target}"
    note = "all parties agree" if standing.together else differ
    if opened.is_blind:
        note = (
            f"Bottoms are blind: frozen at {', '.join(opened.passives) or 'the partners'}. "
            f"Requests concern the label holder alone."
        )
    print_table(f"Forgotten: {_forgotten(opened, standing)}", rows, note)
    for sentence in standing.differences:
        say(sentence)
    from unlabel.forget.plan import has_hidden

    shows = standing.waiting and not opened.is_blind and has_hidden(opened)
    then = " --allow-disclosure, which may show what was hidden before" if shows else ""
    for each in standing.waiting:
        count = len(each.people)
        say(
            f"Request {each.request} waits, of the label{'s' if count > 1 else ''} of {count} "
            f"{'people' if count > 1 else 'person'}, until {each.until} at the latest. Next: "
            f"unlabel train --update --out {target}{then}"
        )
    if standing.unfinished:
        say(f"{standing.unfinished}. Next: {target.resume()}")


def _forgotten(opened: ul.Federation, standing: Status) -> str:
    """Say what is forgotten; where that is exact, the run itself no longer knows which label."""
    if opened.config.is_label_free and standing.forgotten_people:
        count = standing.forgotten_people
        return f"the label{'s' if count > 1 else ''} of {count} row{'s' if count > 1 else ''}"
    return ", ".join(standing.forgotten_labels) or "no label"


def _show_copies(target: Target, *, json: bool) -> None:
    from unlabel.forget.copies import OUTSIDE

    with target.open() as opened:
        places = opened.copies()
    left = sum(place.state == "left" for place in places)
    if json:
        print_json({"copies": [asdict(each) for each in places], "left": left, **target.json()})
        return
    cleared = [f"{each.place} ({each.what})" for each in places if each.state == "cleared"]
    rows = [["place", "what may lie there", "state"]]
    rows += [
        [each.place, each.what, f"{each.state}: {each.why}"]
        for each in sorted(places, key=lambda each: each.state != "left")
        if each.state != "cleared"
    ]
    title = f"{left} place{'' if left == 1 else 's'} to clear" if left else "Nothing is left"
    print_table(f"{title}, but what is kept on purpose", rows, lines=True)
    say(f"Cleared: {', '.join(cleared) or 'nothing yet'}. {OUTSIDE}")


def ledger(
    run: Run = None,
    federation: Kit = None,
    party: Annotated[str, typer.Option(help="Whose ledger.")] = "active",
    json: Json = False,
) -> None:
    """Show what a party's ledger says; a broken chain is an error."""
    from unlabel.report.wording import moment

    target = Target.of(run, federation)
    ledgers = ul.Federation.ledger_of(target.folder)
    if party not in ledgers:
        raise SettingsError(unknown("party", party, ledgers))
    entries = ledgers[party]
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


def in_words(value: object) -> str:
    """Return a note for people: digests and long lists are cut, names never.

    >>> in_words({"depth": "top", "forced": False}), in_words(["home", "student loan, old"])
    ('depth top, forced no', 'home, student loan, old')
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
