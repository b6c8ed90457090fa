"""What a passive party serves, and the checks that cost no synchronisation."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import PartyRefused, Refusal, SettingsError, unknown
from unlabel.party.optimiser import expect
from unlabel.wire import MESSAGES, Draft, Embed, Gradients, Message, Prepare, Weigh, kind_of

#: What a passive party serves unless its owner says otherwise.
SERVES = (
    *("Describe", "Prepare", "Embed", "Gradients", "Save", "Restore", "Keep"),
    *("Weigh", "Track", "Draft", "Rewrite"),
    *("Tune", "Stage", "Commit", "Rollback", "Purge", "Status", "Attest"),
    *("Match", "Offer", "Common"),
)

#: Norms of gradients that are remembered, and how many of them say what is usual.
REMEMBERED_NORMS = 32
FEW_NORMS = 8

DIVERGED = "its weights have diverged and are not finite; restore a version."


@dataclass(frozen=True)
class Policy:
    """A passive party's own rules; whatever breaks one is refused with a reason and logged.

    serves             kinds of request that are answered at all
    max_rows           most rows in one request for embeddings
    max_gradient_norm  largest norm of the gradients in one message; they must also be finite
    max_gradient_jump  the same as a factor of the median norm of the last messages, from the ninth
                       message of a training or request on; 0 compares with none
    max_versions       most versions of its state the party keeps on its disk
    max_lines          most lines of its ledger; from then on it takes up no new request
    max_ids            most ids in one request to match rows
    min_common         fewest rows it agrees to share with all others, and fewest ids it matches
    max_new            most ids of new people in one request to match; 0 matches none
    """

    serves: tuple[str, ...] = SERVES
    max_rows: int = 16_384
    max_gradient_norm: float = 100.0
    max_gradient_jump: float = 0.0
    max_versions: int = 8
    max_lines: int = 5_000
    max_ids: int = 2_000_000
    min_common: int = 100
    max_new: int = 10_000

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        for kind in self.serves:
            if kind not in MESSAGES:
                raise SettingsError(unknown("request", kind, MESSAGES))
        expect("max_rows", self.max_rows, self.max_rows >= 1, "at least 1")
        norm = self.max_gradient_norm
        expect("max_gradient_norm", norm, norm > 0, "above 0")
        jump = self.max_gradient_jump
        expect("max_gradient_jump", jump, jump == 0 or 1 < jump < math.inf, "0, or above 1")
        expect("max_versions", self.max_versions, self.max_versions >= 3, "at least 3")
        expect("max_lines", self.max_lines, self.max_lines >= 1, "at least 1")
        expect("max_ids", self.max_ids, self.max_ids >= 1, "at least 1")
        expect("min_common", self.min_common, self.min_common >= 1, "at least 1")
        expect("max_new", self.max_new, self.max_new >= 0, "0 or more")


class Guard:
    """Applies a policy to the messages that reach one party.

    On a CPU a breach is refused at once. On an accelerator, reading a value back would stall
    every step; there a breach sets a flag on the device, gradients that break a rule become
    zeros, and `settle` reads the flags before anything is kept.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._breaches: dict[tuple[str, Refusal], bool | Tensor] = {}
        self._norms: deque[Tensor] = deque(maxlen=REMEMBERED_NORMS)

    def check_kind(self, message: Message) -> None:
        """Refuse a kind of request that the party does not serve."""
        kind = kind_of(message)
        if kind not in self.policy.serves:
            raise PartyRefused(f"it does not serve '{kind}'.", "policy")

    def check_rows(self, message: Embed | Prepare | Draft, available: int) -> Tensor:
        """Refuse too many rows or rows that do not exist; return rows that are safe to read."""
        rows = message.rows
        most = available if isinstance(message, Prepare) else self.policy.max_rows
        if not 1 <= rows.numel() <= most:
            raise PartyRefused(
                f"it serves 1 to {most} rows a request, not {rows.numel()}.", "policy"
            )
        first, last = (_known(bound) for bound in torch.aminmax(rows))
        exist = (first >= 0) & (last < available)
        reason = f"it has the rows 0 to {available - 1} and no others."
        self._demand(exist, reason, "wrong-request")
        return rows if rows.device.type == "cpu" else rows.clamp(0, available - 1)

    def check_gradients(self, message: Gradients | Weigh, embeddings: Tensor) -> Tensor:
        """Refuse gradients of the wrong shape, too large or not finite; return harmless ones."""
        if message.values.shape != embeddings.shape:
            raise PartyRefused(
                f"it expects gradients of shape {list(embeddings.shape)}, "
                f"not {list(message.values.shape)}.",
                "wrong-request",
            )
        values = message.values.to(embeddings.device, embeddings.dtype)
        limit = self.policy.max_gradient_norm
        # A comparison with NaN is false, so this one also refuses what is not finite.
        norm = torch.linalg.vector_norm(values)
        within = _known(norm) <= limit
        reason = f"it takes finite gradients of norm {limit:g} at most."
        self._demand(within, reason, "gradient-norm")
        within &= self._check_jump(norm)
        return torch.where(within, values, 0.0) if isinstance(within, Tensor) else values

    def _check_jump(self, norm: Tensor) -> Any:
        """Refuse gradients that are far larger than the last ones; those are not remembered."""
        jump = self.policy.max_gradient_jump
        if not jump:
            return True
        within: Any = True
        if len(self._norms) >= FEW_NORMS:
            usual = torch.stack(list(self._norms)).median()
            fits = (norm <= jump * usual) | (usual == 0)  # after zeros anything is a jump
            within = _known(fits)
            reason = f"it takes gradients of {jump:g} times their usual norm at most."
            self._demand(within, reason, "policy")
            norm = norm.where(fits, usual)
        self._norms.append(norm)
        return within

    def forget_norms(self) -> None:
        """Compare with no earlier gradients, where a training or a request begins."""
        self._norms.clear()

    def check_embeddings(self, embeddings: Tensor) -> None:
        """Refuse to send what is not finite: gradients within the rules can still diverge.

        Such a state is not kept either, so the breach is remembered until the party returns to
        a version from before it.
        """
        # One sum instead of a look at each value: it is finite only if all of them are.
        total = _known(embeddings.sum())
        finite = torch.isfinite(total) if isinstance(total, Tensor) else math.isfinite(total)
        self._demand(finite, DIVERGED, "not-finite", remember=True)

    def settle(self) -> None:
        """Refuse if a breach was flagged since the last reset."""
        for (reason, code), flag in self._breaches.items():
            if bool(flag):
                raise PartyRefused(reason, code)

    def reset(self) -> None:
        """Forget flagged breaches, after a return to a state from before them."""
        self._breaches.clear()
        self.forget_norms()

    def _demand(
        self, holds: bool | Tensor, reason: str, code: Refusal, *, remember: bool = False
    ) -> None:
        breach = reason, code
        if isinstance(holds, Tensor):
            self._breaches[breach] = ~holds | self._breaches.get(breach, False)
        elif not holds:
            if remember:
                self._breaches[breach] = True
            raise PartyRefused(reason, code)


def _known(value: Tensor) -> Any:
    """Return a number that lies on the host, and a tensor that lies on an accelerator."""
    return value.item() if value.device.type == "cpu" else value
