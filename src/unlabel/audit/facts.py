"""Facts beside the figures of an audit: when, with what, on which data, and what crossed the wire.

Plain data of all of these is what `audit.json` holds under `facts` and `messages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unlabel.audit.figures import number, plain_data

#: By which rules figures are judged: 1 up to version 0.9, 2 beside references, by their spread.
RULES = 2


@dataclass(frozen=True)
class ForgettingCost:
    """What it took to carry the request out; None where no record was kept.

    steps             joint steps
    seconds           of choosing samples and forgetting
    transcript_bytes  both ways, over all parties
    """

    steps: int | None = None
    seconds: float | None = None
    transcript_bytes: int | None = None

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> ForgettingCost:
        """Return it from plain data that may hold more."""
        names = ("steps", "seconds", "transcript_bytes")
        return cls(*(number(about.get(name), name) for name in names))


@dataclass(frozen=True)
class AuditFacts:
    """When an audit was made, with what, and on which data.

    at          date and time in UTC, as ISO 8601
    seconds     that it took
    versions    by the name of the software
    rows        how many there are of each kind: train, test, public
    observed    how many of these were looked at, and how many of the label among them, where these
                are a sample; its keys are train, test, train of the label, test of the label
    parties     the passive ones
    labels      how many there are
    top         name of the active party's top model; linear where it is one linear layer
    retrained   how many retrained models the figures are compared with
    forgetting  what it took to carry the request out
    references  SHA-256 of what was kept of each of these retrained models
    unchanged   passive parties whose models are the same as before the request
    matched     passes of the retrained models that bottoms were judged by, where these took fewer
                than the training; 0 where they took as many
    refitted    how many tops were refitted to judge the top by
    layers      linear CKA of each party's inner layers before and after, in their order, by party:
                computed by the party itself, where the run asks for it and its policy allows it
    rules       by which findings follow from figures: `RULES`
    construction  evidence that a request is exact (`audit/construction.py`); none for others
    """

    at: str
    seconds: float
    versions: Mapping[str, str]
    rows: Mapping[str, int]
    parties: tuple[str, ...]
    labels: int
    top: str
    retrained: int
    forgetting: ForgettingCost = field(default_factory=ForgettingCost)
    references: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    construction: Mapping[str, Any] = field(default_factory=dict)
    matched: int = 0
    refitted: int = 0
    observed: Mapping[str, int] = field(default_factory=dict)
    layers: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    rules: int = RULES

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> AuditFacts:
        """Return facts from plain data; KeyError, TypeError and the like where it is no such."""
        return cls(
            at=str(raw["at"]),
            seconds=_needed(raw, "seconds"),
            versions={str(name): str(version) for name, version in raw["versions"].items()},
            rows={str(kind): _needed(raw["rows"], kind) for kind in raw["rows"]},
            parties=tuple(str(party) for party in raw["parties"]),
            labels=_needed(raw, "labels"),
            top=str(raw["top"]),
            retrained=_needed(raw, "retrained"),
            forgetting=ForgettingCost.of(raw["forgetting"]),
            references=tuple(map(str, raw.get("references", ()))),
            unchanged=tuple(map(str, raw.get("unchanged", ()))),
            construction=dict(raw.get("construction", {})),
            matched=number(raw.get("matched", 0), "matched"),
            refitted=number(raw.get("refitted", 0), "refitted"),
            observed={str(k): _needed(raw["observed"], k) for k in raw.get("observed", {})},
            layers={str(p): tuple(map(float, v)) for p, v in raw.get("layers", {}).items()},
            rules=number(raw.get("rules", 1), "rules"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data; of the cost of forgetting what is known."""
        cost = {k: v for k, v in plain_data(self.forgetting).items() if v is not None}
        plain = {k: v for k, v in plain_data(self).items() if v or k not in _SINCE_0_8}
        return {**plain, "forgetting": cost}


#: What earlier versions did not note; left out where there is none.
_SINCE_0_8 = (
    "references",
    "unchanged",
    "construction",
    "matched",
    "refitted",
    "observed",
    "layers",
)


@dataclass(frozen=True)
class Transfer:
    """Messages that crossed a party's boundary in one direction: one, or a few in a row.

    at         seconds, from the first message on
    direction  received or sent, as the party sees it
    kind       of the first message
    bytes      of all
    """

    at: float
    direction: str
    kind: str
    bytes: int


def transfers_from_json(raw: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Transfer, ...]]:
    """Return what crossed each party's boundary, from plain data."""

    def transfer(each: Mapping[str, Any]) -> Transfer:
        at, size = _needed(each, "at"), _needed(each, "bytes")
        return Transfer(at, str(each["direction"]), str(each["kind"]), size)

    return {str(party): tuple(map(transfer, lane)) for party, lane in raw.items()}


def _needed(raw: Mapping[str, Any], name: str) -> Any:
    """Return a number that has to be there."""
    value = number(raw[name], name)
    if value is None:
        raise ValueError(f"`{name}` is no number")
    return value
