"""What a passive party serves, and the checks that cost no synchronisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import PartyRefused, SettingsError, unknown
from unlabel.party.optimiser import expect
from unlabel.wire import MESSAGES, Draft, Embed, Gradients, Message, Prepare, Weigh, kind_of

#: What a passive party serves unless its owner says otherwise.
SERVES = (
    *("Describe", "Prepare", "Embed", "Gradients", "Save", "Restore", "Keep"),
    *("Weigh", "Track", "Draft", "Rewrite"),
    *("Tune", "Stage", "Commit", "Rollback", "Purge", "Status", "Attest"),
)

DIVERGED = "its weights have diverged and are not finite; restore a version."


@dataclass(frozen=True)
class Policy:
    """A passive party's own rules; whatever breaks one is refused with a reason and logged.

    serves             kinds of request that are answered at all
    max_rows           most rows in one request for embeddings
    max_gradient_norm  largest norm of the gradients in one message; they must also be finite
    max_versions       most versions of its state the party keeps on its disk
    """

    serves: tuple[str, ...] = SERVES
    max_rows: int = 16_384
    max_gradient_norm: float = 100.0
    max_versions: int = 8

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        for kind in self.serves:
            if kind not in MESSAGES:
                raise SettingsError(unknown("request", kind, MESSAGES))
        expect("max_rows", self.max_rows, self.max_rows >= 1, "at least 1")
        norm = self.max_gradient_norm
        expect("max_gradient_norm", norm, norm > 0, "above 0")
        expect("max_versions", self.max_versions, self.max_versions >= 3, "at least 3")


class Guard:
    """Applies a policy to the messages that reach one party.

    On a CPU a breach is refused at once. On an accelerator, reading a value back would stall
    every step; there a breach sets a flag on the device, gradients that break a rule become
    zeros, and `settle` reads the flags before anything is kept.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._breaches: dict[str, bool | Tensor] = {}

    def check_kind(self, message: Message) -> None:
        """Refuse a kind of request that the party does not serve."""
        kind = kind_of(message)
        if kind not in self.policy.serves:
            raise PartyRefused(f"it does not serve '{kind}'.")

    def check_rows(self, message: Embed | Prepare | Draft, available: int) -> Tensor:
        """Refuse too many rows or rows that do not exist; return rows that are safe to read."""
        rows = message.rows
        most = available if isinstance(message, Prepare) else self.policy.max_rows
        if not 1 <= rows.numel() <= most:
            raise PartyRefused(f"it serves 1 to {most} rows a request, not {rows.numel()}.")
        first, last = (_known(bound) for bound in torch.aminmax(rows))
        exist = (first >= 0) & (last < available)
        self._demand(exist, f"it has the rows 0 to {available - 1} and no others.")
        return rows if rows.device.type == "cpu" else rows.clamp(0, available - 1)

    def check_gradients(self, message: Gradients | Weigh, embeddings: Tensor) -> Tensor:
        """Refuse gradients of the wrong shape, too large or not finite; return harmless ones."""
        if message.values.shape != embeddings.shape:
            raise PartyRefused(
                f"it expects gradients of shape {list(embeddings.shape)}, "
                f"not {list(message.values.shape)}."
            )
        values = message.values.to(embeddings.device, embeddings.dtype)
        limit = self.policy.max_gradient_norm
        # A comparison with NaN is false, so this one also refuses what is not finite.
        within = _known(torch.linalg.vector_norm(values)) <= limit
        self._demand(within, f"it takes finite gradients of norm {limit:g} at most.")
        return torch.where(within, values, 0.0) if isinstance(within, Tensor) else values

    def check_embeddings(self, embeddings: Tensor) -> None:
        """Refuse to send what is not finite: gradients within the rules can still diverge.

        Such a state is not kept either, so the breach is remembered until the party returns to
        a version from before it.
        """
        # One sum instead of a look at each value: it is finite only if all of them are.
        total = _known(embeddings.sum())
        finite = torch.isfinite(total) if isinstance(total, Tensor) else math.isfinite(total)
        self._demand(finite, DIVERGED, remember=True)

    def settle(self) -> None:
        """Refuse if a breach was flagged since the last reset."""
        for reason, flag in self._breaches.items():
            if bool(flag):
                raise PartyRefused(reason)

    def reset(self) -> None:
        """Forget flagged breaches, after a return to a state from before them."""
        self._breaches.clear()

    def _demand(self, holds: bool | Tensor, reason: str, *, remember: bool = False) -> None:
        if isinstance(holds, Tensor):
            self._breaches[reason] = ~holds | self._breaches.get(reason, False)
        elif not holds:
            if remember:
                self._breaches[reason] = True
            raise PartyRefused(reason)


def _known(value: Tensor) -> Any:
    """Return a number that lies on the host, and a tensor that lies on an accelerator."""
    return value.item() if value.device.type == "cpu" else value
