"""What a run demands of a request before it may be committed: how deep it must go, thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unlabel.config.checks import expect, one_of
from unlabel.terms import DEPTHS, Depth


@dataclass(frozen=True)
class AuditSettings:
    """What an audit demands.

    demand      the depth that a request must reach to be committed: none, answers, top or bottoms
    retained    accuracy on the other labels that may be lost, against retrained models or, where
                there are none, the original with its output hidden; up to twice of it is a warning
    forgotten   share of the label's test rows that may still be called by it; twice as above
    spreads     how far every other figure may lie from those of models without the label; one
                spread is how far recorded models that never had it lay from others like them
    layers      whether every audit asks parties how alike their inner layers are before and after
    """

    demand: Depth | Literal["none"] = "top"
    retained: float = 0.02
    forgotten: float = 0.02
    spreads: float = 1.0
    layers: bool = False

    def __post_init__(self) -> None:
        one_of("demand", self.demand, ("none", *DEPTHS))
        for name in ("retained", "forgotten"):
            value = getattr(self, name)
            expect(name, value, 0 <= value <= 1, "a share from 0 to 1")
        expect("spreads", self.spreads, 0 < self.spreads <= 100, "above 0, to 100")
