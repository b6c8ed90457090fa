"""What a party gathers about its own weights, and how it may change them at once by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unlabel.errors import CheckpointError

#: The name of the sum of what batches of labels to be remembered changed in training.
REMEMBERED = "remembered"
#: Added to an importance before it divides, and the most that 1 / importance may be.
LEAST, MOST = 1e-8, 1e3
#: How much more noise single numbers a unit (biases, normalisation) take.
SINGLE = 10.0


@dataclass
class Sum:
    """A sum over steps, one tensor a weight, and what it is divided by to become a mean."""

    tensors: list[Tensor]
    weight: float = 0.0


@dataclass
class Sums:
    """Named sums of one model."""

    named: dict[str, Sum] = field(default_factory=dict)

    def add(self, name: str, tensors: Sequence[Tensor], weight: float = 1.0) -> None:
        """Add a tensor a weight."""
        torch._foreach_add_(self._grown(name, tensors, weight), list(tensors))

    def add_squares(self, name: str, tensors: Sequence[Tensor], weight: float) -> None:
        """Add the square of a tensor a weight."""
        found = list(tensors)
        torch._foreach_addcmul_(self._grown(name, tensors, weight), found, found)

    def _grown(self, name: str, like: Sequence[Tensor], weight: float) -> list[Tensor]:
        """Return a sum, begun where it is new, once `weight` more was added to its weight."""
        if name not in self.named:
            self.named[name] = Sum([torch.zeros_like(tensor) for tensor in like])
        self.named[name].weight += weight
        return self.named[name].tensors

    def total(self, name: str) -> list[Tensor]:
        """Return a sum."""
        if name not in self.named:
            raise CheckpointError(
                f"nothing was gathered under the name {name[:40]!r}.", code="wrong-request"
            )
        return self.named[name].tensors

    def mean(self, name: str) -> list[Tensor]:
        """Return a sum divided by its weight."""
        total = self.total(name)
        return [tensor / self.named[name].weight for tensor in total]


def dampen(
    weights: Sequence[Tensor],
    some: Sequence[Tensor],
    every: Sequence[Tensor],
    *,
    threshold: float,
    strength: float,
) -> None:
    """Shrink the weights that matter far more to some samples than to all.

    Where I_some > threshold I_all:  w <- w min(strength I_all / I_some, 1).
    """
    for weight, own, general in zip(weights, some, every, strict=True):
        factor = (strength * general / own).clamp(max=1.0)
        weight.mul_(torch.where(own > threshold * general, factor, 1.0))


def noise_variance(importance: Tensor, strength: float, most: float = MOST) -> Tensor:
    """Return strength min(1 / (importance + 1e-8), most), one number a unit.

    Of a matrix or a kernel it is the mean over the inputs (dimension 1); single numbers a unit
    get ten times as much.
    """
    variance = strength * (1.0 / (importance + LEAST)).clamp(max=most)
    if importance.dim() > 1:
        return variance.mean(1, keepdim=True).expand_as(importance).clone()
    return SINGLE * variance


def noise(weights: Sequence[Tensor], importance: Sequence[Tensor], *, strength: float) -> None:
    """Add N(0, v) to every weight that moves in training, with v its `noise_variance`."""
    for weight, own in zip(weights, importance, strict=True):
        if weight.requires_grad:
            weight.add_(noise_variance(own, strength).sqrt() * torch.randn_like(weight))
