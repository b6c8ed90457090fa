"""The answer to the person: the letter as it is kept, and that it was sent, which ends a request.

The legal term counts until the person is informed, and the desk sends nothing itself: somebody
notes the day. From then on the letter is kept as it was sent, by the SHA-256 in the trail.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from unlabel.desk import deadline, requests
from unlabel.desk.accounts import Account
from unlabel.desk.failures import WrongState, wrong_state
from unlabel.desk.letter import certified
from unlabel.desk.letter_facts import LetterFacts, sentences
from unlabel.desk.letter_words import Language
from unlabel.desk.office import Desk
from unlabel.desk.requests import Request
from unlabel.errors import CertificateError, UnlabelError
from unlabel.files import sha256
from unlabel.forget.copies import Copy
from unlabel.runfolder import CERTIFICATE


def letter_facts(desk: Desk, request: Request) -> LetterFacts:
    """Return all that a letter about a request may say."""
    path, id = issued(desk, request), str(request.fact("request", ""))
    listed, decision = request.fact("copies"), request.fact("decision") or {}
    return LetterFacts(
        number=request.number,
        received=date.fromisoformat(request.received),
        today=desk.today(),
        state=request.state,
        people=request.people,
        labels=request.labels,
        reference=request.reference,
        organisation=desk.settings.organisation,
        contact=desk.settings.contact,
        request=id,
        certificate=None if path is None else certified(path, id),
        purged=tuple(request.fact("purged", {}).items()),
        committed=request.fact("committed", ""),
        copies=None if listed is None else tuple(Copy(**each) for each in listed),
        extension=request.fact("extension", ""),
        reason=request.fact("reason") or decision.get("reason", ""),
    )


def issued(desk: Desk, request: Request) -> Path | None:
    """Return the certificate of a request, None where there is none.

    Whoever can write the file can put one there that verifies by keys of his own, so it has to be
    the one that the parties gave, by the digest that the desk noted then.
    """
    path, known = desk.place.files(request.number) / CERTIFICATE, request.fact("certificate")
    if known is None or not path.exists():
        return None
    if sha256(path.read_bytes()) != known["sha256"]:
        raise CertificateError(
            f"'{path}' is not the certificate that was issued for request {request.number}."
        )
    return path


def recorded(facts: LetterFacts, language: Language) -> str:
    """Return the digest of all that is to be said of a request, on whatever day."""
    return sha256(repr(sentences(replace(facts, today=facts.received), language)).encode())


def is_outdated(desk: Desk, request: Request) -> bool:
    """Return whether there is something else to say by now than what a letter was kept with."""
    kept = request.fact("letter")
    if not kept:
        return False
    try:
        return bool(kept.get("record") != recorded(letter_facts(desk, request), kept["language"]))
    except UnlabelError:  # of its certificate, which the letter's page names
        return True


def keep_letter(
    desk: Desk, number: int, language: Language, text: str, by: Account, record: str = ""
) -> None:
    """Keep the letter to the person as it was edited; an empty one is drawn up anew.

    record  digest of what was to be said when it was written, as it is now if empty
    """
    with desk.store.transaction():
        request = desk.requests.get(number)
        if request.fact("sent"):
            raise WrongState("The letter was sent, so it stays as it is.")
        record = record or recorded(letter_facts(desk, request), language)
        letter = {"language": language, "text": text, "by": by.name, "at": requests.now()}
        letter["record"] = record
        desk.requests.note(number, letter=letter if text.strip() else None)
        desk.trail.add("letter", number, by.name, sha256=digest(text) if text.strip() else "")


def note_sent(desk: Desk, number: int, letter: str, day: date, by: Account) -> None:
    """Note that the letter was sent to the person; the same a second time changes nothing.

    letter  SHA-256 of the letter that was kept when somebody noted it
    """
    with desk.store.transaction():
        request, noted = desk.requests.get(number), {"sha256": letter, "day": f"{day}"}
        sent, kept = request.fact("sent"), request.fact("letter")
        if sent == noted:
            return
        if sent:
            raise WrongState(f"It was noted already that the letter was sent on {sent['day']}.")
        if not request.can_be_answered:
            raise wrong_state(request, "certified by what holds, rolled back or withdrawn")
        if not kept or digest(kept["text"]) != letter:
            raise WrongState("That letter is not kept, or was edited meanwhile; read it again.")
        if is_outdated(desk, request):
            raise WrongState(
                "What is recorded of the request has changed since the letter was kept; read it "
                "again, change what is not so any more, and keep it."
            )
        deadline.expect_sent(day, date.fromisoformat(kept["at"][:10]), desk.today())
        desk.requests.note(number, sent=noted)
        desk.trail.add("letter sent", number, by.name, **noted)


def digest(text: str) -> str:
    """Return the SHA-256 of a letter, which is that of the file in which it is given out."""
    return sha256(text.encode())
