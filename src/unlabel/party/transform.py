"""Sums that a party keeps about its own weights, and how it may change the weights by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unlabel.errors import CheckpointError

#: One tensor a weight.
Tensors = Sequence[Tensor]
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

    def add(self, name: str, tensors: Tensors, weight: float = 1.0) -> None:
        """Add one tensor a weight."""
        torch._foreach_add_(self._grown(name, tensors, weight), list(tensors))

    def add_squares(self, name: str, tensors: Tensors, weight: float) -> None:
        """Add the square of one tensor a weight."""
        factors = list(tensors)
        torch._foreach_addcmul_(self._grown(name, tensors, weight), factors, factors)

    def _grown(self, name: str, like: Tensors, weight: float) -> list[Tensor]:
        """Return a sum, new ones as zeros, after adding to its weight."""
        if name not in self.named:
            self.named[name] = Sum([torch.zeros_like(tensor) for tensor in like])
        self.named[name].weight += weight
        return self.named[name].tensors

    def total(self, name: str) -> list[Tensor]:
        """Return a sum."""
        if name not in self.named:
            raise CheckpointError(f"it has no sum of the name {name[:40]!r}.", code="wrong-request")
        return self.named[name].tensors

    def mean(self, name: str) -> list[Tensor]:
        """Return a sum divided by its weight."""
        return [tensor / self.named[name].weight for tensor in self.total(name)]


def dampen(
    weights: Tensors, some: Tensors, every: Tensors, *, threshold: float, strength: float
) -> None:
    """Shrink the weights that matter far more to some samples than to all.

    Where I_some > threshold I_all:  w <- w min(strength I_all / I_some, 1).
    """
    for weight, special, general in zip(weights, some, every, strict=True):
        factor = (strength * general / special).clamp(max=1.0)
        weight.mul_(torch.where(special > threshold * general, factor, 1.0))


def noise_variance(importance: Tensor, strength: float, most: float = MOST) -> Tensor:
    """Return strength min(1 / (importance + 1e-8), most), one number a unit.

    Of a matrix or a kernel it is the mean over the inputs (dimension 1); single numbers a unit
    get ten times as much.
    """
    variance = strength * (1.0 / (importance + LEAST)).clamp(max=most)
    if importance.dim() > 1:
        return variance.mean(1, keepdim=True).expand_as(importance).clone()
    return SINGLE * variance


def noise(weights: Tensors, importance: Tensors, *, strength: float) -> None:
    """Add N(0, v) to every weight that moves in training, with v its `noise_variance`."""
    for weight, matters in zip(weights, importance, strict=True):
        if weight.requires_grad:
            weight.add_(noise_variance(matters, strength).sqrt() * torch.randn_like(weight))
