"""What an audit came to: figures, findings, and the deepest depth that holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from unlabel import compat
from unlabel.audit.facts import RULES, AuditFacts, Transfer, transfers_from_json
from unlabel.audit.figures import Measurement, measurements_from_json, plain_data
from unlabel.audit.privacy import Privacy
from unlabel.config import AuditSettings
from unlabel.errors import DataError, RunError
from unlabel.terms import DEPTHS, GUARANTEES, VISIBILITIES, Depth, Guarantee, Visibility

#: unknown: what was needed to judge it was not there, for example a retrained model.
Ruling = Literal["pass", "warn", "fail", "unknown"]

#: Where the active party keeps its last verdict, and the format of it: no other can be read.
AUDIT, FORMAT = "audit.json", 2

#: Models that every figure is given for, in the order in which they are shown.
MODELS = ("original", "mask", "forgotten", "retrained", "matched")

#: What is raised where plain data has another form than it is read by.
MISREAD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

#: What plain data each field has to be.
KINDS: dict[str, type[Any]] = {
    **dict.fromkeys(("request", "state", "visibility", "method", "depth", "demanded"), str),
    "people": int,
    **dict.fromkeys(("labels", "findings", "unknown"), list),
    **dict.fromkeys(("settings", "measures", "pictures", "privacy", "messages"), dict),
    **dict.fromkeys(("thresholds", "facts"), dict),
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
    """One judgement: which measure, on which depth, how it came out, and why in a sentence."""

    depth: Depth
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
    visibility   hidden or open: whether the partners could tell what was forgotten
    guarantee    measured: judged by this audit; exact: by construction, with evidence as findings
    method       name and `settings` of the method
    depth        the deepest depth that holds, or none
    demanded     the depth the configuration demands
    findings     every judgement, from the answers to the bottoms
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
    visibility: Visibility
    method: str
    settings: Mapping[str, Any]
    depth: Depth | Literal["none"]
    demanded: Depth | Literal["none"]
    findings: tuple[Finding, ...]
    measures: Mapping[str, Measurement]
    pictures: Mapping[str, Any] = field(default_factory=dict)
    privacy: Privacy = field(default_factory=Privacy)
    messages: Mapping[str, tuple[Transfer, ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    thresholds: AuditSettings = field(default_factory=AuditSettings)
    facts: AuditFacts
    guarantee: Guarantee = "measured"

    @property
    def is_outdated(self) -> bool:
        """Whether a depth below the answers was found by rules that a faked model can pass."""
        below = self.depth in ("top", "bottoms")
        return below and self.guarantee == "measured" and self.facts.rules != RULES

    @property
    def passed(self) -> bool:
        """Whether the demanded depth is reached."""
        return reaches(self.depth, self.demanded)

    def __repr__(self) -> str:
        """Name what a notebook should show, and none of the figures."""
        about = f"people={self.people}" if self.people else f"labels={self.labels!r}"
        return (
            f"Verdict(request={self.request!r}, {about}, depth={self.depth!r}, "
            f"demanded={self.demanded!r}, passed={self.passed})"
        )

    def __str__(self) -> str:
        """Return the verdict in a sentence."""
        who = f"{self.people} people" if self.people else f"label {', '.join(self.labels)}"
        how = "passed" if self.passed else "not passed"
        return (
            f"Request {self.request} ({who}, {self.state}): depth '{self.depth}' reached, "
            f"'{self.demanded}' demanded, {how}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data, as `audit.json` holds it."""
        nested = {"privacy": self.privacy.to_json(), "facts": self.facts.to_json()}
        return {"format": FORMAT, **plain_data(self), **nested, "passed": self.passed}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Verdict:
        """Return a verdict from plain data, or raise `NotAVerdict`."""
        raw = compat.verdict(raw)
        for name, kind in KINDS.items():
            if not isinstance(raw.get(name), kind):
                raise NotAVerdict(f"`{name}` is not there or of another kind")
        depths = ("none", *DEPTHS)
        if raw["depth"] not in depths or raw["demanded"] not in depths:
            raise NotAVerdict(f"it knows other depths than {', '.join(depths)}")
        if raw["visibility"] not in VISIBILITIES:
            raise NotAVerdict(f"its visibility is none of {', '.join(VISIBILITIES)}")
        guarantee = raw.get("guarantee", "measured")
        if guarantee not in GUARANTEES:
            raise NotAVerdict(f"its guarantee is none of {', '.join(GUARANTEES)}")
        try:
            return cls(
                **{name: raw[name] for name in _AS_IT_IS},
                guarantee=guarantee,
                labels=tuple(map(str, raw["labels"])),
                findings=_findings(raw["findings"]),
                measures=measurements_from_json(raw["measures"]),
                privacy=Privacy.from_json(raw["privacy"]),
                messages=transfers_from_json(raw["messages"]),
                unknown=tuple(map(str, raw["unknown"])),
                thresholds=AuditSettings(**compat.thresholds(raw["thresholds"])),
                facts=AuditFacts.from_json(raw["facts"]),
            )
        except MISREAD as error:
            # The outer form is right, something within it is not.
            raise NotAVerdict(f"it cannot be read ({type(error).__name__}: {error})") from error


#: Fields whose plain data is what they hold.
_AS_IT_IS = ["settings", "pictures", *(name for name, kind in KINDS.items() if kind in (str, int))]


def _findings(raw: list[Any]) -> tuple[Finding, ...]:
    try:
        findings = tuple(Finding(**each) for each in raw)
    except TypeError as error:
        raise NotAVerdict("a finding in it lacks something") from error
    if any(f.depth not in DEPTHS or f.ruling not in get_args(Ruling) for f in findings):
        raise NotAVerdict("a finding in it has an unknown depth or ruling")
    return findings


def read_verdict(path: Path) -> Verdict:
    """Return the verdict in a file, or say what is wrong with the file."""
    reason = "it holds no object"
    try:
        raw = compat.verdict(json.loads(path.read_bytes()))
        if isinstance(raw, dict):
            if raw.get("format") != FORMAT:
                stated = raw.get("format")
                raise NotAVerdict(f"another version wrote it (format {stated}, not {FORMAT})")
            return Verdict.from_json(raw)
    except FileNotFoundError as error:
        raise RunError(
            f"There is no audit at '{path}'; run `unlabel audit {path.parent.parent}` first."
        ) from error
    except OSError as error:
        raise RunError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except NotAVerdict as error:
        reason = error.reason
    except (ValueError, RecursionError):
        reason = "it is no JSON"
    raise RunError(
        f"'{path}' is not what `unlabel audit` writes: {reason}; run `unlabel audit` again."
    )


def reaches(depth: str, demanded: str) -> bool:
    """Return whether a depth is at least as deep as another.

    >>> reaches("top", "answers"), reaches("answers", "top"), reaches("none", "none")
    (True, False, True)
    """
    order = ("none", *DEPTHS)
    return order.index(depth) >= order.index(demanded)
