"""Inputs that a party makes itself: noise, or copies of its rows, moved by gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from unlabel.wire import DraftRule

#: The table of drafts: the party's own rows come first in it, then what it made.
DRAFT = "draft"


class Drafted:
    """Inputs a party made, which gradients move.

    With g the gradient, plus that of decay x mean squared norm: sign takes x - rate unit sign(g).
    """

    def __init__(
        self, values: Tensor, *, rule: DraftRule, rate: float, decay: float, unit: Tensor
    ) -> None:
        self.values = values.detach().clone().requires_grad_()
        self._rate, self._decay, self._unit = rate, decay, unit
        self._adam = torch.optim.Adam([self.values], lr=rate) if rule == "adam" else None

    @torch.no_grad()
    def move(self, gradients: Tensor) -> None:
        """Move the inputs against gradients."""
        towards = gradients + 2 * self._decay * self.values / len(self.values)
        if self._adam is None:
            self.values -= self._rate * self._unit * towards.sign()
        else:
            self.values.grad = towards
            self._adam.step()
