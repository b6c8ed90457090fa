"""PyTorch's optimisers as every party makes them, and their rate over time."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, optim
from torch.optim import Optimizer

from unlabel.config import OptimiserSettings


def learning_rate(settings: OptimiserSettings, step: int, steps: int) -> float:
    """Return the learning rate of step 0 .. steps - 1.

    With s = step + 1/2, w = warmup * steps and t = (s - w) / (steps - w):
    lr * s / w while s < w, then lr, lr * (1 - t) or lr * (1 + cos(pi t)) / 2.
    """
    steps = max(steps, 1)
    middle, rise = step + 0.5, settings.warmup * steps
    if middle < rise:
        return settings.lr * middle / rise
    done = min(1.0, (middle - rise) / (steps - rise))
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    if settings.schedule == "cosine":
        return settings.lr * (1 + math.cos(math.pi * done)) / 2
    return settings.lr


class _Bare(Optimizer):
    """An optimiser without PyTorch's wrappers, which import its compiler and call its profiler.

    Neither is used here. The compiler takes a process longer to import than PyTorch itself, and
    the hooks around a step take a small model longer than the step.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


def _bare_step(kind: type[Optimizer]) -> Callable[..., None]:
    step: Callable[..., None] = torch.no_grad()(inspect.unwrap(kind.step))
    step.hooked = True  # type: ignore[attr-defined]  # or the first optimiser that is made wraps it
    return step


class SGD(_Bare, optim.SGD):
    """SGD as PyTorch has it."""

    step = _bare_step(optim.SGD)


class Adam(_Bare, optim.Adam):
    """Adam as PyTorch has it."""

    step = _bare_step(optim.Adam)


class AdamW(_Bare, optim.AdamW):
    """AdamW as PyTorch has it."""

    step = _bare_step(optim.AdamW)  # type: ignore[assignment]


def make_optimiser(settings: OptimiserSettings, parameters: Iterable[Tensor]) -> Optimizer:
    """Return an optimiser over the parameters."""
    # A model without weights, such as principal components, has nothing to move.
    weights = list(parameters) or [torch.zeros(0)]
    lr, decay = settings.lr, settings.weight_decay
    # Fused: all weights in one call, on a CPU as on a GPU.
    if settings.optimiser == "adam":
        return Adam(weights, lr=lr, weight_decay=decay, fused=True)
    momentum = settings.momentum
    nesterov = settings.nesterov and momentum > 0  # without momentum they are the same
    return SGD(weights, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=decay, fused=True)
