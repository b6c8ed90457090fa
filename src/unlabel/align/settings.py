"""How the parties of a run find the rows they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from unlabel.party.optimiser import expect

#: psi    by private set intersection: nobody sees an id it does not have
#: clear  by comparing the ids themselves, in one process that holds all tables anyway
Method = Literal["psi", "clear"]
#: Fewest common rows by default.
SMALLEST = 100


@dataclass(frozen=True)
class AlignSettings:
    """How ids are compared; every party of a run must do it the same way.

    method    psi or clear; where neither is named, clear if all tables lie in one place, and psi
              between organisations or where `smallest` was set, which psi alone holds to
    smallest  fewest common rows that psi works with: fewer would single people out
    trim      which blanks count for nothing: those at the ends, or all
    case      keep upper and lower case apart, or fold them into one
    unicode   form in which characters are compared: NFC, NFKC or none
    """

    method: Method | None = None
    smallest: int = SMALLEST
    trim: Literal["ends", "all"] = "ends"
    case: Literal["keep", "fold"] = "keep"
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        expect("align.smallest", self.smallest, self.smallest >= 1, "at least 1")

    def settled(self, *, together: bool) -> AlignSettings:
        """Return the settings with a method named.

        together  all tables lie in one place, with one person who sees all ids anyway

        >>> AlignSettings().settled(together=True).method
        'clear'
        >>> AlignSettings(method="psi").settled(together=True).method
        'psi'
        """
        if self.method is not None:
            return self
        clear = together and self.smallest == SMALLEST
        return replace(self, method="clear" if clear else "psi")
