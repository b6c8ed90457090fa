"""What a passive party serves, and the checks that cost no synchronisation."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch
from torch import Tensor

from unlabel.config import Policy
from unlabel.errors import PartyRefused, Refusal
from unlabel.wire import (
    AccumulateFisher,
    BeginLabelFree,
    ContrastAlone,
    Embed,
    Gradients,
    Prepare,
    SyntheticInputs,
)

#: Norms of gradients that are remembered, and how many of them say what is usual.
REMEMBERED_NORMS = 32
FEW_NORMS = 8
#: Letters and digits of a name at most.
MAX_NAME = 64
END_FIRST = "commit it or roll it back first."
DIVERGED = "its weights have diverged and are not finite; restore a version."
TOO_LARGE = (
    "its embeddings of these new rows are not finite: a number in them is far too large, or its "
    "weights have diverged."
)


def require(holds: object, reason: str, code: Refusal = "wrong-request") -> None:
    """Refuse a request unless a condition holds."""
    if not holds:
        raise PartyRefused(reason, code)


def check_name(what: str, name: str) -> None:
    """Refuse a name of a request or a sum that could be mistaken for anything else."""
    fits = name.isascii() and name.isalnum() and len(name) <= MAX_NAME
    require(fits, f"{what} is named by 1 to {MAX_NAME} letters and digits, not {name[:40]!r}.")


class Guard:
    """Applies a policy to the messages that reach one party.

    On a CPU a breach is refused at once. On an accelerator, reading a value back would stall
    every step; there a breach sets a flag on the device, gradients that break a rule become
    zeros, and `flush_checks` reads the flags before anything is kept.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._breaches: dict[tuple[str, Refusal], bool | Tensor] = {}
        self._norms: deque[Tensor] = deque(maxlen=REMEMBERED_NORMS)

    def check_kind(self, kind: str) -> None:
        """Refuse a kind of request that the party does not serve."""
        require(kind in self.policy.serves, f"it does not serve '{kind}'.", "policy")

    def check_rows(
        self,
        message: Embed | Prepare | SyntheticInputs | BeginLabelFree | ContrastAlone,
        available: int,
    ) -> Tensor:
        """Refuse too many rows or rows that do not exist; return rows that are safe to read."""
        rows = message.rows
        stays = isinstance(message, Prepare | BeginLabelFree | ContrastAlone)  # nothing is sent
        most = available if stays else self.policy.max_rows
        count = rows.numel()
        require(1 <= count <= most, f"it serves 1 to {most} rows a request, not {count}.", "policy")
        first, last = (_known(bound) for bound in torch.aminmax(rows))
        exist = (first >= 0) & (last < available)
        reason = f"it has the rows 0 to {available - 1} and no others."
        self._demand(exist, reason, "wrong-request")
        return rows if rows.device.type == "cpu" else rows.clamp(0, available - 1)

    def check_gradients(self, message: Gradients | AccumulateFisher, embeddings: Tensor) -> Tensor:
        """Refuse gradients of the wrong shape, too large or not finite; return harmless ones."""
        shape, expected = list(message.values.shape), list(embeddings.shape)
        require(shape == expected, f"it expects gradients of shape {expected}, not {shape}.")
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

    def check_embeddings(self, embeddings: Tensor, *, asked_only: bool = False) -> None:
        """Refuse to send what is not finite: gradients within the rules can still diverge.

        Such a state is not kept either, so the breach is remembered until the party returns to
        a version from before it.

        asked_only  the rows are new ones, asked about and not trained on: one number in them that
                    is far too large comes to the same, and is no reason to refuse what comes next
        """
        # One sum instead of a look at each value: it is finite only if all of them are.
        total = embeddings.sum()
        if asked_only:
            require(math.isfinite(total.item()), TOO_LARGE, "not-finite")
            return
        total = _known(total)
        finite = torch.isfinite(total) if isinstance(total, Tensor) else math.isfinite(total)
        self._demand(finite, DIVERGED, "not-finite", remember=True)

    def flush_checks(self) -> None:
        """Refuse if a breach was flagged since the last reset."""
        for (reason, code), flag in self._breaches.items():
            require(not flag, reason, code)

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
