"""What the noisy requests of a run have told so far, added up.

    {"requests": 2, "rho": 1.0, "sent": 0.25, "decisions": 2}

Requests compose: their bounds add, about any one of them too. A request counts before its first
message is sent, so that one that was dropped, tried again or interrupted counts like any other.
The file is one of the active party's secrets. Requests that are open or deep have no bound, and
name their own label whatever stands here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unlabel.defend.accountant import Account
from unlabel.errors import RunError
from unlabel.files import write_atomically

#: The file's name, among the active party's secrets.
ACCOUNT = "account.json"


@dataclass(frozen=True)
class Spent:
    """The sum of what was told, and by how many requests; those that told nothing are not counted.

    >>> one = Account(rho=2.0, sent=0.5, decisions=1)
    >>> Spent().plus(Account.nothing()).plus(one).plus(one)
    Spent(requests=2, account=Account(rho=4.0, sent=1.0, decisions=2))
    """

    requests: int = 0
    account: Account = field(default_factory=Account.nothing)

    def plus(self, told: Account) -> Spent:
        """Return the sum after one more request."""
        return self if told == Account.nothing() else Spent(self.requests + 1, self.account + told)

    def to_json(self, labels: int) -> dict[str, Any]:
        """Return the accountant's figures of all requests, and the same in a sentence."""
        said = (
            f"All hidden requests so far, {self.requests} of them with noise, tell together: "
            f"{self.account.guarantee(labels)}."
        )
        return {**self.account.to_json(labels), "requests": self.requests, "sentence": said}


class Spending:
    """The running account of a federation, in the active party's folder."""

    def __init__(self, home: Path) -> None:
        self._path = home / "secrets" / ACCOUNT

    def total(self) -> Spent:
        """Return what was told so far, or say that the file is damaged."""
        if not self._path.exists():
            return Spent()
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            rho, sent = (float(found[name]) for name in ("rho", "sent"))
            requests, decisions = (int(found[name]) for name in ("requests", "decisions"))
            whole = all(0 <= value < math.inf for value in (rho, sent, requests, decisions))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(self._damaged()) from error
        if not whole:
            raise RunError(self._damaged())
        return Spent(requests, Account(rho, sent, decisions))

    def add(self, told: Account) -> Spent:
        """Count a request that begins; return what all have told with it."""
        total = self.total().plus(told)
        if told != Account.nothing():
            sums = total.account
            found = {"requests": total.requests, "rho": sums.rho, "sent": sums.sent}
            text = json.dumps({**found, "decisions": sums.decisions})
            write_atomically(self._path, text.encode(), mode=0o600)
        return total

    def _damaged(self) -> str:
        return (
            f"'{self._path}' cannot be read, so it is not known what earlier requests have told; "
            f"restore it from a backup, or remove it to count from nothing."
        )
