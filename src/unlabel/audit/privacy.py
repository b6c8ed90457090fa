"""What partners could learn about a request: the accountant's bound, and attacks that were tried.

Plain data of it, in `audit.json`, leaves out what is not known:

    {"rho": 0.0, "information": 0.0, .., "guarantee": "..", "sentence": "..", "total": {..},
     "attacks": [{"name": "..", "value": 0.5, "low": 0.5, "high": 0.5, "chance": 0.5}],
     "visibility": "hidden"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from unlabel.audit.figures import number, plain_data
from unlabel.train import Conduct


@dataclass(frozen=True)
class Attack:
    """An attack that was tried: how often it is right, and how often a guess would be."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    chance: float | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Attack:
        """Return it from plain data."""
        ends = (number(raw.get(name), name) for name in ("value", "low", "high", "chance"))
        return cls(str(raw["name"]), *ends)


@dataclass(frozen=True)
class Bound:
    """The accountant's figures (`defend.accountant.Account`), each None where nothing is proved.

    rho          of zero-concentrated differential privacy
    information  nats that the messages tell about the request at most, on average
    decisions    decisions on requests that partners could see
    labels       labels that the request may have been about
    ln_labels    nats that name one of them
    delta, tail  in all but a share delta of requests it is `tail` nats at most
    best_guess   how often a guess from the messages is right at most
    chance       how often one without them is
    guarantee    the bound in a few words
    """

    rho: float | None = None
    information: float | None = None
    decisions: int | None = None
    labels: int | None = None
    ln_labels: float | None = None
    delta: float | None = None
    tail: float | None = None
    best_guess: float | None = None
    chance: float | None = None
    guarantee: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound says anything: less than all there is to learn."""
        if self.information is None:
            return False
        return self.ln_labels is None or self.information < self.ln_labels


@dataclass(frozen=True)
class Total(Bound):
    """The bound of all hidden requests so far, `requests` of which had noise."""

    requests: int | None = None
    sentence: str = ""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Total:
        """Return it from plain data."""
        requests = number(raw.get("requests"), "requests")
        return cls(**_bound(raw), requests=requests, sentence=str(raw.get("sentence", "")))


@dataclass(frozen=True)
class Privacy(Bound):
    """What the partners could learn about one request.

    sentence  the bound for people, or that there is none
    total     of all hidden requests so far; None where the request was not hidden
    attacks   those that were tried; None where the original was gone and none could be
    visibility  hidden or open
    """

    sentence: str = ""
    total: Total | None = None
    attacks: tuple[Attack, ...] | None = None
    visibility: str = ""

    @classmethod
    def of(cls, conduct: Conduct, labels: int, attacks: Sequence[Attack] | None = None) -> Privacy:
        """Return what is known of a request.

        conduct  how it was carried out
        labels   of the run; a guess is right once in so many
        """
        tells = f"Nothing bounds what partners can tell; this method tells them {conduct.tells}."
        account = conduct.privacy or {"sentence": tells, "chance": 1 / labels}
        known = cls.from_json({**account, "visibility": conduct.visibility})
        return known if attacks is None else replace(known, attacks=tuple(attacks))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Privacy:
        """Return it from plain data; ValueError, TypeError and the like where it has no such form.

        >>> Privacy.from_json({"information": 0.5, "ln_labels": 2.3}).holds
        True
        """
        total, attacks = raw.get("total"), raw.get("attacks")
        return cls(
            **_bound(raw),
            sentence=str(raw.get("sentence", "")),
            total=None if total is None else Total.from_json(total),
            attacks=None if attacks is None else tuple(Attack.from_json(each) for each in attacks),
            visibility=str(raw.get("visibility", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, without what is not known."""
        total = None if self.total is None else _known(plain_data(self.total))
        return _known({**plain_data(self), "total": total})


def _known(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if value is not None and value != ""}


def _bound(raw: Mapping[str, Any]) -> dict[str, Any]:
    numbers = [field.name for field in fields(Bound) if field.name != "guarantee"]
    bound: dict[str, Any] = {name: number(raw.get(name), name) for name in numbers}
    return {**bound, "guarantee": str(raw.get("guarantee", ""))}
