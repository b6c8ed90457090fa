"""What a run demands of a request before it may be committed: how deep it must go, thresholds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from unlabel.config.checks import expect, one_of
from unlabel.terms import DEPTHS, Depth


@dataclass(frozen=True)
class AuditSettings:
    """What an audit demands. Each limit is a distance from the retrained models, where there are
    any; up to the limit a finding passes, up to twice the limit it is a warning.

    demand      the depth that a request must reach to be committed: none, answers, top or bottoms
    retained    accuracy on the other labels that may be lost
    forgotten   share of the label's test rows that may still be called by it
    membership  distance of the membership attack's success, either way
    rank        distance of the area under the curve of the label's own score, either way; no
                better than chance is always enough
    revival     how much more of the label an edit of its output may bring back
    residual    residual knowledge of every party's embeddings: 0 as retrained, 1 as before
    relearning  share of the cost of relearning that may be missing
    """

    demand: Depth | Literal["none"] = "top"
    retained: float = 0.02
    forgotten: float = 0.02
    membership: float = 0.15
    rank: float = 0.05
    revival: float = 0.1
    residual: float = 0.25
    relearning: float = 0.25

    def __post_init__(self) -> None:
        one_of("demand", self.demand, ("none", *DEPTHS))
        for limit in fields(self)[1:]:
            value = getattr(self, limit.name)
            expect(limit.name, value, 0 <= value <= 1, "a share from 0 to 1")
