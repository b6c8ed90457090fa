"""What an audit came to: figures, findings, and the deepest level that holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from unlabel.audit.facts import AuditFacts, Transfer, transfers_from_json
from unlabel.audit.measure import LEVELS, Level
from unlabel.audit.measurement import Measurement, measurements_from_json
from unlabel.audit.plain import plain_data
from unlabel.audit.privacy import Privacy
from unlabel.errors import DataError
from unlabel.train.demands import AuditSettings

#: unknown: what was needed to judge it was not there, for example a retrained model.
Ruling = Literal["pass", "warn", "fail", "unknown"]

#: Of the plain data that a verdict is kept as; another number cannot be read.
FORMAT = 1

#: Models that every figure is given for, in the order in which they are shown.
MODELS = ("original", "mask", "forgotten", "retrained")

#: What plain data each field has to be.
KINDS: dict[str, type[Any]] = {
    "request": str,
    "labels": list,
    "people": int,
    "state": str,
    "mode": str,
    "method": str,
    "settings": dict,
    "level": str,
    "demanded": str,
    "findings": list,
    "measures": dict,
    "pictures": dict,
    "privacy": dict,
    "messages": dict,
    "unknown": list,
    "thresholds": dict,
    "facts": dict,
}


class NotAVerdict(DataError):
    """Plain data that is no verdict; `reason` says why, as part of a sentence."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Expected a verdict as `Verdict.to_json` writes it, but {reason}; "
            f"run `unlabel audit` again."
        )


@dataclass(frozen=True)
class Finding:
    """One judgement: which measure, on which level, how it came out, and why in a sentence."""

    level: Level
    measure: str
    ruling: Ruling
    sentence: str


@dataclass(frozen=True, kw_only=True, repr=False)
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
    measures     what each measure says of every model, by the name of the measure
    pictures     data of the report's pictures. It stays plain data, whose form stands at the head
                 of `audit/pictures.py`: it is drawn as it is, and nothing else reads it
    privacy      what the partners could learn: the accountant's bound, and attacks
    messages     what crossed each party's boundary, empty where nothing was recorded
    unknown      sentences: what this audit cannot know, and why
    thresholds   those of the gate
    facts        software versions, rows, parties, dates
    """

    request: str
    labels: tuple[str, ...]
    people: int
    state: str
    mode: str
    method: str
    settings: Mapping[str, Any]
    level: Level | Literal["none"]
    demanded: Level | Literal["none"]
    findings: tuple[Finding, ...]
    measures: Mapping[str, Measurement]
    pictures: Mapping[str, Any] = field(default_factory=dict)
    privacy: Privacy = field(default_factory=Privacy)
    messages: Mapping[str, tuple[Transfer, ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    thresholds: AuditSettings = field(default_factory=AuditSettings)
    facts: AuditFacts

    @property
    def passed(self) -> bool:
        """Whether the demanded level is reached."""
        return reaches(self.level, self.demanded)

    def __repr__(self) -> str:
        """Name what a notebook should show, and none of the figures."""
        about = f"people={self.people}" if self.people else f"labels={self.labels!r}"
        return (
            f"Verdict(request={self.request!r}, {about}, level={self.level!r}, "
            f"demanded={self.demanded!r}, passed={self.passed})"
        )

    def __str__(self) -> str:
        """Return the verdict in a sentence."""
        who = f"{self.people} people" if self.people else f"label {', '.join(self.labels)}"
        how = "passed" if self.passed else "not passed"
        return (
            f"Request {self.request} ({who}, {self.state}): level '{self.level}' reached, "
            f"'{self.demanded}' demanded, {how}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data, as `audit.json` holds it."""
        own = {"privacy": self.privacy.to_json(), "facts": self.facts.to_json()}
        return {"format": FORMAT, **plain_data(self), **own, "passed": self.passed}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Verdict:
        """Return a verdict from plain data, or raise `NotAVerdict`."""
        for name, kind in KINDS.items():
            if not isinstance(raw.get(name), kind):
                raise NotAVerdict(f"`{name}` is not there or of another kind")
        levels = ("none", *LEVELS)
        if raw["level"] not in levels or raw["demanded"] not in levels:
            raise NotAVerdict(f"it knows other levels than {', '.join(levels)}")
        try:
            return cls(
                **{name: raw[name] for name in _AS_IT_IS},
                labels=tuple(map(str, raw["labels"])),
                findings=_findings(raw["findings"]),
                measures=measurements_from_json(raw["measures"]),
                privacy=Privacy.from_json(raw["privacy"]),
                messages=transfers_from_json(raw["messages"]),
                unknown=tuple(map(str, raw["unknown"])),
                thresholds=AuditSettings(**raw["thresholds"]),
                facts=AuditFacts.from_json(raw["facts"]),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The outer form is right, something within it is not.
            raise NotAVerdict(f"it cannot be read ({type(error).__name__}: {error})") from error


#: Fields whose plain data is what they hold.
_AS_IT_IS = (
    *("request", "people", "state", "mode", "method", "settings", "level", "demanded"),
    "pictures",
)


def _findings(raw: list[Any]) -> tuple[Finding, ...]:
    try:
        found = tuple(Finding(**each) for each in raw)
    except TypeError as error:
        raise NotAVerdict("a finding in it lacks something") from error
    if any(f.level not in LEVELS or f.ruling not in get_args(Ruling) for f in found):
        raise NotAVerdict("a finding in it has an unknown level or ruling")
    return found


def reaches(level: str, demanded: str) -> bool:
    """Return whether a level is at least as deep as another.

    >>> reaches("top", "output"), reaches("output", "top"), reaches("none", "none")
    (True, False, True)
    """
    order = ("none", *LEVELS)
    return order.index(level) >= order.index(demanded)
