"""What a verification comes to: what does not match, what does, and what nobody looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Checks:
    """What was looked at.

    faults     a sentence for everything that does not match
    held       a sentence for everything that does
    unchecked  a sentence for what could not be looked at, and why
    annex      what the annex says, where it could be opened
    """

    faults: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    annex: dict[str, Any] | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing was found that does not match, as far as it was checked."""
        return not self.faults

    def expect(self, holds: bool, fault: str) -> bool:
        """Note a fault unless something holds; return whether it does."""
        if not holds:
            self.faults.append(fault)
        return holds
