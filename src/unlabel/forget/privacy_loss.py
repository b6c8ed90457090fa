"""The privacy loss of a run: what its noisy requests have disclosed so far, added up.

    {"requests": 2, "rho": 1.0, "sent": 0.25, "decisions": 3, "certified": ["9f.."]}

Requests compose: their bounds add, about any one of them too. A request counts before its first
message is sent, so that one that was dropped, tried again or interrupted counts like any other. A
silent request counts before the parties are first asked to sign for it: only one that was kept can
be certified, so that is a visible decision.
Requests with visibility `open` have no bound, and name their label whatever stands here.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from unlabel.defend.accountant import Account
from unlabel.errors import RunError
from unlabel.files import write_atomically
from unlabel.forget.request_secrets import ACCOUNT
from unlabel.party.deciding import deciding


@dataclass(frozen=True)
class TotalLoss:
    """The sum over all requests, and their number; those that disclose nothing are not counted.

    requests   that had noise
    certified  ids of silent requests that the parties were asked to sign for

    >>> one = Account(rho=2.0, sent=0.5, decisions=1)
    >>> TotalLoss().plus(Account.nothing()).plus(one).plus(one)
    TotalLoss(requests=2, account=Account(rho=4.0, sent=1.0, decisions=2), certified=())
    """

    requests: int = 0
    account: Account = field(default_factory=Account.nothing)
    certified: tuple[str, ...] = ()

    def plus(self, account: Account) -> TotalLoss:
        """Return the sum after one more request."""
        if account == Account.nothing():
            return self
        return replace(self, requests=self.requests + 1, account=self.account + account)

    def to_json(self, labels: int) -> dict[str, Any]:
        """Return the accountant's figures of all requests, and the same in a sentence."""
        certified = f" and {len(self.certified)} certified" if self.certified else ""
        sentence = (
            f"All hidden requests so far, {self.requests} of them with noise{certified}, tell "
            f"together: {self.account.guarantee(labels)}."
        )
        return {**self.account.to_json(labels), "requests": self.requests, "sentence": sentence}


class PrivacyLoss:
    """The running account of a federation, in the active party's folder."""

    def __init__(self, home: Path) -> None:
        self._path = home / "secrets" / ACCOUNT

    def total(self) -> TotalLoss:
        """Return the loss so far; a damaged file is an error."""
        if not self._path.exists():
            return TotalLoss()
        try:
            sums = json.loads(self._path.read_text(encoding="utf-8"))
            rho, sent = (float(sums[name]) for name in ("rho", "sent"))
            requests, decisions = (int(sums[name]) for name in ("requests", "decisions"))
            if not all(0 <= value < math.inf for value in (rho, sent, requests, decisions)):
                raise ValueError("A sum is below 0 or has no end.")
            certified = tuple(map(str, sums.get("certified", ())))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"'{self._path}' cannot be read, so the privacy loss of earlier requests is "
                f"unknown; restore it from a backup, or remove it to count from nothing."
            ) from error
        return TotalLoss(requests, Account(rho, sent, decisions), certified)

    def add(self, account: Account) -> TotalLoss:
        """Count a request that begins; return the loss with it."""
        with deciding(self._path.parents[1]):
            total = self.total().plus(account)
            if account != Account.nothing():
                self._write(total)
        return total

    def certify(self, request: str) -> TotalLoss:
        """Count, once, that the parties are asked to sign for a silent request; return the loss."""
        with deciding(self._path.parents[1]):
            total = self.total()
            if request not in total.certified:
                account, certified = total.account + Account.decision(), (*total.certified, request)
                total = replace(total, account=account, certified=certified)
                self._write(total)
        return total

    def _write(self, total: TotalLoss) -> None:
        sums = {"requests": total.requests, **asdict(total.account), "certified": total.certified}
        write_atomically(self._path, json.dumps(sums).encode(), mode=0o600)
