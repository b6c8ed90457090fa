"""The legal clock of a demand, as Article 12(3) of the GDPR counts it.

The person has to be told within one month of the day of receipt: by the same day of the next month,
or that month's last one; two further months where the demand is complex or there are many, if the
person is told so, with the reason, within the first. A term that ends at a weekend or on a holiday
may legally run to the next working day; here it does not, so that nobody is late by a calendar that
the desk does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from unlabel.errors import SettingsError
from unlabel.report.certificate_form import due_day

#: Months of the term, and with an extension.
TERM, EXTENDED = 1, 3
#: Days before its end from which a term is near it.
WARNING = 7
#: Year in which the GDPR began to apply: a day before it is a slip of the pen.
FIRST_YEAR = 2018

#: ended: the person was told, so the clock stands.
Urgency = Literal["calm", "warning", "late", "ended"]


@dataclass(frozen=True)
class Deadline:
    """How the clock of a demand stands.

    due      the last day on which an answer is in time
    left     days until then, negative where it is past; of an ended one from the day it ended
    urgency  how urgent it is
    words    the same for people
    """

    due: date
    left: int
    urgency: Urgency
    words: str


def due(received: date, extension: str = "") -> date:
    """Return the last day on which an answer is in time.

    extension  the reason for two further months, empty where there are none

    >>> due(date(2026, 1, 31)).isoformat(), due(date(2026, 1, 31), "Many came in.").isoformat()
    ('2026-02-28', '2026-04-30')
    """
    return due_day(received, EXTENDED if extension else TERM)


def deadline(
    received: date, today: date, ended: date | None = None, extension: str = ""
) -> Deadline:
    """Return how the clock stands.

    ended  the day on which the person was told, None before that

    >>> deadline(date(2026, 11, 2), date(2026, 11, 30)).words
    '2 days left, until 2 December 2026'
    >>> deadline(date(2026, 11, 2), date(2026, 12, 3)).words
    '1 day late, due 2 December 2026'
    >>> deadline(date(2026, 11, 2), date(2027, 1, 1), date(2026, 11, 9)).words
    'ended in time, on 9 November 2026'
    """
    last = due(received, extension)
    left = (last - (ended or today)).days
    days = f"{abs(left)} day{'' if abs(left) == 1 else 's'}"
    if ended is not None:
        how = "in time" if left >= 0 else f"{days} late"
        return Deadline(last, left, "ended", f"ended {how}, on {_day(ended)}")
    if left < 0:
        return Deadline(last, left, "late", f"{days} late, due {_day(last)}")
    words = f"{days} left, until {_day(last)}" if left else f"due today, {_day(last)}"
    return Deadline(last, left, "warning" if left <= WARNING else "calm", words)


def extended(received: date, reason: str, on: date, before: str = "") -> str:
    """Return the reason of an extension as it is kept; raise where there can be none.

    on      the day on which the person is told
    before  the reason of an earlier extension
    """
    if before:
        raise SettingsError("The term was extended already, and can be extended only once.")
    if not reason.strip():
        raise SettingsError(
            "Expected the reason for an extension, which the person has to be told."
        )
    if not received <= on <= due(received):
        raise SettingsError(
            f"A term can be extended from the day of receipt, {received}, to the end of the first "
            f"month, {due(received)}, but not on {on}."
        )
    return reason.strip()


def expect_receivable(received: date, today: date) -> None:
    """Raise where a demand cannot have come in on a day."""
    if received > today or received.year < FIRST_YEAR:
        raise SettingsError(
            f"Expected the day on which the demand came in, {today} or one before it, but got "
            f"{received}."
        )


def expect_sent(day: date, kept: date, today: date) -> None:
    """Raise where a letter that was kept on some day cannot have been sent on another."""
    if not kept <= day <= today:
        raise SettingsError(
            f"Expected the day on which the letter was sent, from that on which it was kept, "
            f"{kept}, to today, {today}, but got {day}."
        )


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
