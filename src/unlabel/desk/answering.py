"""The answer to the person: the letter as it is kept, and that it was sent, which ends a request.

The legal term counts until the person is informed, and the desk sends nothing itself: somebody
notes the day. From then on the letter is kept as it was sent, by the SHA-256 in the trail.
"""

from __future__ import annotations

from datetime import date

from unlabel.desk import deadline, requests
from unlabel.desk.accounts import Account
from unlabel.desk.failures import WrongState, wrong_state
from unlabel.desk.office import Desk
from unlabel.files import sha256


def keep_letter(desk: Desk, number: int, language: str, text: str, by: Account) -> None:
    """Keep the letter to the person as it was edited; an empty one is drawn up anew."""
    with desk.store.transaction():
        if desk.requests.get(number).fact("sent"):
            raise WrongState("The letter was sent, so it stays as it is.")
        letter = {"language": language, "text": text, "by": by.name, "at": requests.now()}
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
        deadline.expect_sent(day, date.fromisoformat(request.received), desk.today())
        desk.requests.note(number, sent=noted)
        desk.trail.add("letter sent", number, by.name, **noted)


def digest(text: str) -> str:
    """Return the SHA-256 of a letter, which is that of the file in which it is given out."""
    return sha256(text.encode())
