"""A demand as a person enters it: what is to be forgotten, since when, and what was attached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from unlabel.desk import deadline
from unlabel.errors import SettingsError

#: People in one request, and characters of an id and of a reference.
MOST_PEOPLE, LONGEST_ID, LONGEST_REFERENCE = 100_000, 1000, 200


@dataclass(frozen=True)
class Demand:
    """What somebody asks for.

    labels, ids  what is to be forgotten: one of both
    received     day on which it came in
    reference    as the demand calls it, or the number of the case
    language     of the letter
    file         name and content of the demand's file, if it is attached
    once         what the form was given when it was shown, so that a click too many finds out
    """

    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    received: date | None = None
    reference: str = ""
    language: str = "en"
    file: tuple[str, bytes] | None = None
    once: str = ""

    def checked(self, today: date) -> Demand:
        """Return it, or raise where it cannot be meant."""
        if bool(self.labels) == bool(self.ids):
            raise SettingsError("Say what is to be forgotten: labels, or the ids of people.")
        if self.received is None:
            raise SettingsError("Say on which day the demand came in.")
        deadline.expect_receivable(self.received, today)
        if len(self.ids) > MOST_PEOPLE:
            raise SettingsError(f"Expected at most {MOST_PEOPLE:,} people in one request.")
        if any(len(each) > LONGEST_ID for each in self.ids):
            raise SettingsError(f"Expected ids of at most {LONGEST_ID} characters.")
        if len(self.reference) > LONGEST_REFERENCE:
            raise SettingsError(f"Expected a reference of at most {LONGEST_REFERENCE} characters.")
        return self

    def note(self) -> dict[str, Any]:
        """Return what the trail says of it, which can never be taken back: it names nobody."""
        about = {"labels": len(self.labels), "people": len(self.ids)}
        return {**about, "received": f"{self.received}"}


def safe_name(name: str) -> str:
    r"""Return the name of a file as it may be given back: no folders, no controls.

    >>> safe_name("../../etc/pass\nwd"), safe_name("C:\\letters\\demand.pdf"), safe_name("..")
    ('passwd', 'demand.pdf', 'demand')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(each for each in last if each.isprintable() and each not in '"<>|:*?')
    return kept.strip(". ")[-120:] or "demand"


def distinct(ids: Sequence[str]) -> tuple[str, ...]:
    """Return ids without blanks around them, each once, in their order.

    >>> distinct([" C-1", "C-2", "", "C-1 "])
    ('C-1', 'C-2')
    """
    return tuple(dict.fromkeys(each.strip() for each in ids if each.strip()))
