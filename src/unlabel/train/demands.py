"""What a run demands of a request before it may be committed: levels of forgetting, thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unlabel.party.optimiser import expect, one_of

#: output: what is predicted; top: the active party's model; deep: every party's bottom.
Level = Literal["output", "top", "deep"]
LEVELS: tuple[Level, ...] = ("output", "top", "deep")


@dataclass(frozen=True)
class AuditSettings:
    """What an audit demands. Each limit is a distance from the retrained models, where there are
    any; up to the limit a finding passes, up to twice the limit it is a warning.

    demand      the level that a request must reach to be committed: none, output, top or deep
    retained    accuracy on the other labels that may be lost
    forgotten   share of the label's test rows that may still be called by it
    membership  distance of the membership attack's success, either way
    rank        how much better or worse than in retrained models the label's own score may rank its
                samples, as an area under the curve; no better than chance is always enough
    revival     how much more of the label an edit of its output may bring back
    residual    residual knowledge of every party's embeddings: 0 as retrained, 1 as before
    relearning  share of the cost of relearning that may be missing
    """

    demand: Literal["none", "output", "top", "deep"] = "top"
    retained: float = 0.02
    forgotten: float = 0.02
    membership: float = 0.15
    rank: float = 0.05
    revival: float = 0.1
    residual: float = 0.25
    relearning: float = 0.25

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        one_of("demand", self.demand, ("none", *LEVELS))
        names = (
            *("retained", "forgotten", "membership", "rank", "revival", "residual", "relearning"),
        )
        for name in names:
            value = getattr(self, name)
            expect(name, value, 0 <= value <= 1, "a share from 0 to 1")
