"""What a verification comes to: what does not match, what does, and what nobody looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unlabel.report.blinding import Blinding
from unlabel.report.certificate_form import Body
from unlabel.report.people_words import MEANINGS
from unlabel.terms import describe


@dataclass
class Checks:
    """What was looked at.

    faults     a sentence for everything that does not match
    held       a sentence for everything that does
    unchecked  a sentence for what could not be looked at, and why
    annex      what the annex says, where it could be opened
    body       of the certificate, None where it could not be read
    blind      how digests of the active party are stated in it, None where that takes a key
    """

    faults: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    annex: dict[str, Any] | None = None
    body: Body | None = field(default=None, repr=False)
    blind: Blinding | None = field(default=None, repr=False)

    @property
    def terms(self) -> tuple[tuple[str, str, str], ...]:
        """The three words of the request, each with its value and what that means."""
        body = self.body
        if body is None:
            return ()
        people = MEANINGS.get(str(body.depth), "\n") in body.words
        return describe(body.visibility, body.depth, body.guarantee, people=people)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that does not match, as far as it was checked."""
        return not self.faults

    def expect(self, holds: bool, fault: str) -> bool:
        """Note a fault unless something holds; return whether it does."""
        if not holds:
            self.faults.append(fault)
        return holds
