"""How the parties of a run find the rows they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unlabel.party.optimiser import expect

#: psi    by private set intersection: nobody sees an id it does not have
#: clear  by comparing the ids themselves, in one process that holds all tables anyway
Method = Literal["psi", "clear"]


@dataclass(frozen=True)
class AlignSettings:
    """How ids are compared; every party of a run must do it the same way.

    method    psi, or clear for a simulation by one person who holds all tables anyway
    smallest  fewest common rows that are worked with: fewer would single people out
    trim      which blanks count for nothing: those at the ends, or all
    case      keep upper and lower case apart, or fold them into one
    unicode   form in which characters are compared: NFC, NFKC or none
    """

    method: Method = "psi"
    smallest: int = 100
    trim: Literal["ends", "all"] = "ends"
    case: Literal["keep", "fold"] = "keep"
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        expect("align.smallest", self.smallest, self.smallest >= 1, "at least 1")
