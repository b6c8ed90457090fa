"""What an audit came to, as plain data: figures, findings, and the deepest level that holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from unlabel.audit.measure import LEVELS, Level

#: unknown: what was needed to judge it was not there, for example a retrained model.
Ruling = Literal["pass", "warn", "fail", "unknown"]

#: Of the plain data that a verdict is kept as; another number cannot be read.
FORMAT = 1

#: Models that every figure is given for, in the order in which they are shown.
MODELS = ("original", "mask", "forgotten", "retrained")


@dataclass(frozen=True)
class Finding:
    """One judgement: which measure, on which level, how it came out, and why in a sentence."""

    level: Level
    measure: str
    ruling: Ruling
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """Everything an audit found about one request.

    request      id of the request
    labels       names of the forgotten labels (empty for people)
    people       how many people's labels were forgotten
    state        staged, committed or rolled-back
    mode         hidden, deep or open: what the partners could tell
    method       name and `settings` of the method
    level        the deepest level that holds, or none
    demanded     the level the configuration demands
    findings     every judgement, from output to deep
    measures     measure -> {about, level, higher_is_better, unit,
                 values: {model: {value, low, high, detail, note, seeds: [..]}}}
    pictures     plain data of the report's pictures (see docs/audit.md)
    privacy      what the partners could learn: the accountant's bound and attacks on transcripts
    messages     party -> [{at, direction, kind, bytes}], empty where nothing was recorded
    unknown      sentences: what this audit cannot know, and why
    settings     of the method; `thresholds` those of the gate
    facts        software versions, rows, parties, dates
    """

    request: str
    labels: tuple[str, ...]
    people: int
    state: str
    mode: str
    method: str
    settings: dict[str, Any]
    level: Level | Literal["none"]
    demanded: Level | Literal["none"]
    findings: tuple[Finding, ...]
    measures: dict[str, dict[str, Any]]
    pictures: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    thresholds: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the demanded level is reached."""
        return reaches(self.level, self.demanded)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"format": FORMAT, **asdict(self), "passed": self.passed}


def reaches(level: str, demanded: str) -> bool:
    """Return whether a level is at least as deep as another.

    >>> reaches("top", "output"), reaches("output", "top"), reaches("none", "none")
    (True, False, True)
    """
    order = ("none", *LEVELS)
    return order.index(level) >= order.index(demanded)
