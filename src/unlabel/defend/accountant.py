"""The accountant: what messages with noise can tell about a secret, at most.

With n, T, c, sigma, k and d as in `Release`, for any two secrets and any prior, in nats,

    rho = 2 n T k c^2 / sigma^2      D_a(messages of one secret || of another) <= a rho, for a > 1
    I(secret; messages) <= rho / 4 = n T k c^2 / (2 sigma^2)
                        <= (n T k d / 2) ln(1 + c^2 / (d sigma^2))   for rows of width d

and with probability 1 - delta over requests, L = ln(1 / delta), the divergence of what the party
believes afterwards from what it believed before is at most each of

    rho + 2 sqrt(rho L),     (sqrt(rho / 4) + sqrt(L))^2,     I / delta

A guess among C equally likely secrets is right with probability p at most, for each of

    kl(p || 1 / C) = I,     p = Phi(Phi^-1(1 / C) + sqrt(rho / 2))

Requests compose: the bounds add. Proofs and assumptions stand in docs/process-privacy.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from unlabel.config import expect

#: Halvings of an interval after which a double does not change any more.
HALVINGS = 60


@dataclass(frozen=True)
class Release:
    """Messages whose rows were clipped, and got their noise last.

    rows       n: rows a message
    messages   T: messages a party
    clip       c: largest norm of a row before the noise
    sigma      standard deviation of the noise on each number
    colluders  k: parties who share what they see, each with noise of its own; 1 where all of them
               get functions of the same noisy rows
    width      d: numbers a row, which makes the bound a little smaller; None leaves it out
    """

    rows: int
    messages: int
    clip: float
    sigma: float
    colluders: int = 1
    width: int | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "messages"):
            expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        expect("colluders", self.colluders, self.colluders >= 1, "at least 1")
        for name in ("clip", "sigma"):
            value = getattr(self, name)
            expect(name, value, value > 0 and math.isfinite(value), "a number above 0")
        expect("width", self.width, self.width is None or self.width >= 1, "at least 1")

    @property
    def rho(self) -> float:
        """2 n T k c^2 / sigma^2, the pairwise divergence."""
        return 2 * self._count() * (self.clip / self.sigma) ** 2

    @property
    def information(self) -> float:
        """The smaller of rho / 4 and the capacity of a Gaussian channel of that power."""
        if self.width is None:
            return self.rho / 4
        power = (self.clip / self.sigma) ** 2 / self.width
        return min(self.rho / 4, self._count() * self.width / 2 * math.log1p(power))

    def _count(self) -> int:
        return self.rows * self.messages * self.colluders


@dataclass(frozen=True)
class Account:
    """What was given away at most, in nats.

    rho        pairwise divergence of the messages
    sent       bound on the information in the messages
    decisions  visible choices between two outcomes that may depend on the secret

    >>> one = Account.of(Release(rows=1, messages=1, clip=1.0, sigma=1.0))
    >>> one.rho, one.information
    (2.0, 0.5)
    >>> (one + one).information
    1.0
    """

    rho: float
    sent: float
    decisions: int = 0

    @classmethod
    def of(cls, *releases: Release) -> Account:
        """Return the account of releases, one after another."""
        return cls(sum(r.rho for r in releases), sum(r.information for r in releases))

    @classmethod
    def nothing(cls) -> Account:
        """Return the account of a protocol in which nothing that is sent depends on the secret."""
        return cls(0.0, 0.0)

    @classmethod
    def decision(cls) -> Account:
        """Return the account of a visible commit or rollback that may depend on the secret."""
        return cls(0.0, 0.0, 1)

    def __add__(self, other: Account) -> Account:
        return Account(
            self.rho + other.rho, self.sent + other.sent, self.decisions + other.decisions
        )

    @property
    def information(self) -> float:
        """The bound on I(secret; all that is seen): messages, and ln 2 a decision."""
        return self.sent + self.decisions * math.log(2)

    def tail(self, delta: float) -> float:
        """Return what D_KL(posterior || prior) stays below with probability 1 - delta."""
        expect("delta", delta, 0 < delta < 1, "between 0 and 1")
        log = math.log(1 / delta)
        shared = (math.sqrt(self.rho / 4) + math.sqrt(log)) ** 2
        bounds = [self.information / delta, shared + self.decisions * math.log(2)]
        if not self.decisions:
            bounds.append(self.rho + 2 * math.sqrt(self.rho * log))
        return min(bounds)

    def best_guess(self, labels: int) -> float:
        """Return how often any guess among so many equally likely secrets is right, at most."""
        expect("labels", labels, labels >= 2, "at least 2")
        bell = NormalDist()
        shifted = bell.cdf(bell.inv_cdf(1 / labels) + math.sqrt(self.rho / 2))
        # A guess for each outcome of the decisions is as many guesses.
        return min(math.ldexp(shifted, self.decisions), most_often(1 / labels, self.information))

    def holds(self, labels: int) -> bool:
        """Tell whether the bound says anything: nobody can learn more than ln C."""
        expect("labels", labels, labels >= 2, "at least 2")
        return self.information < math.log(labels)

    def guarantee(self, labels: int) -> str:
        """Return the bound in a few words, or that there is none.

        >>> Account.of(Release(1, 1, clip=1.0, sigma=1.0)).guarantee(10)
        'at most 0.5 of 2.303 nats'
        >>> Account.of(Release(100, 40, clip=1.0, sigma=1.0)).guarantee(10)
        'no guarantee'
        """
        if not self.holds(labels):
            return "no guarantee"
        return f"at most {self.information:.4g} of {math.log(labels):.4g} nats"

    def to_json(self, labels: int, delta: float = 0.01) -> dict[str, Any]:
        """Return all figures for so many possible secrets, as plain data."""
        return {
            "rho": self.rho,
            "information": self.information,
            "decisions": self.decisions,
            "labels": labels,
            "ln_labels": math.log(labels),
            "delta": delta,
            "tail": self.tail(delta),
            "best_guess": self.best_guess(labels),
            "chance": 1 / labels,
            "guarantee": self.guarantee(labels),
        }

    def sentences(self, labels: int, delta: float = 0.01) -> list[str]:
        """Return the same for people."""
        if not self.holds(labels):
            return [
                f"No guarantee: the bound of {self.information:.4g} nats is no less than "
                f"ln {labels} = {math.log(labels):.4g}, which is everything there is to learn."
            ]
        if self.information == 0:
            return ["Nothing that was sent depends on the request: the bound is 0."]
        whole, tail = math.log(labels), self.tail(delta)
        sure = f"With probability {1 - delta:g} a single request tells {tail:.4g} nats at most"
        return [
            f"What a partner sees tells {self.information:.4g} of {whole:.4g} nats about the "
            f"request at most, on average (rho = {self.rho:.4g}).",
            f"{sure}." if tail < whole else f"{sure}, which for {labels} labels says nothing.",
            f"The best guess is right in {100 * self.best_guess(labels):.1f} % of the cases at "
            f"most; without a message it is in {100 / labels:.1f} %.",
        ]


def most_often(prior: float, information: float) -> float:
    """Return the largest p with kl(p || prior) <= information, from above.

    kl(p || q) = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q)), which grows with p from q on.

    >>> most_often(0.1, 0.0), most_often(0.1, 3.0)
    (0.1, 1.0)
    """
    if information <= 0:
        return prior
    if information >= -math.log(prior):
        return 1.0
    low, high = prior, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if binary_divergence(middle, prior) <= information:
            low = middle
        else:
            high = middle
    return high


def binary_divergence(p: float, q: float) -> float:
    """Return kl(p || q) of two coins."""
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)
