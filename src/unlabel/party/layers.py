"""How alike a party's inner layers are before and after a request, as it computes by itself.

No label goes into it, and of a layer one number leaves, where the party's policy allows that.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from unlabel.models.registry import predicting
from unlabel.party.passive import PassiveParty
from unlabel.party.policy import require
from unlabel.party.protocols import handles
from unlabel.party.serving import refusing_failures
from unlabel.wire import CompareLayers, LayersCompared, Message

#: Rows that are looked at, at most: evenly apart, the same every time.
ROWS = 500
#: Digits that leave of a figure.
DIGITS = 3


def gram(layer: Tensor) -> Tensor:
    """Return X X' of a layer X [rows, ..], centred: how alike its rows are."""
    x = layer.detach().flatten(1).double()
    x = x - x.mean(0)
    return x @ x.T


def aligned(k: Tensor, m: Tensor) -> float | None:
    """Return linear CKA of two layers of the same rows by their `gram`: <K, M> / (|K| |M|).

    Between 0 and 1; 1 for Y = c X Q + d with any rotation Q. None where a layer is constant.
    """
    sizes = float(k.norm() * m.norm())
    return float((k * m).sum()) / sizes if 0 < sizes < math.inf else None


@handles(CompareLayers)
def compare_layers(party: PassiveParty, message: CompareLayers) -> Message:
    """Hold the present model's inner layers against those of a version on disk."""
    require(party.guard.policy.layers, "it tells nothing of its inner layers.", "policy")
    store = party.required_store().store_with(message.version)
    other = f"its version {message.version} is not the one that was saved with the others'."
    require(store.digest(message.version) == message.digest, other, "checkpoint")
    named, _ = store.load(message.version)
    bottom = party.bottom
    count = len(bottom.tables["main"])
    rows = torch.arange(0, count, math.ceil(count / ROWS), device=bottom.place.device)
    with refusing_failures(party, "fails on its own rows"):
        x, before = bottom.inputs(rows), bottom.inputs(rows, named)
        old = copy.deepcopy(bottom.module)
        weights = {k.removeprefix("model/"): v for k, v in named.items() if k.startswith("model/")}
        old.load_state_dict(weights)
        pairs = zip(_layers(old, before), _layers(bottom.module, x), strict=True)
        figures = [aligned(*pair) or float(torch.equal(*pair)) for pair in pairs]
    return LayersCompared(message.step, torch.tensor([round(value, DIGITS) for value in figures]))


def _layers(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Return `gram` of what every part with weights of its own gives, a row each."""
    given: list[Tensor] = []

    def keep(part: nn.Module, inputs: object, output: object) -> None:  # noqa: ARG001
        if isinstance(output, Tensor) and len(output) == len(x):
            given.append(gram(output))

    hooks = [
        part.register_forward_hook(keep)
        for part in module.modules()
        if next(part.parameters(recurse=False), None) is not None
    ]
    try:
        with predicting(module):
            module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return given
