"""Ways to fake forgetting: each makes a model that looks as if, and has the depth that is stated.

A fake is made from what was seen of the original, by somebody who holds all models and wants to
pass an audit at the least cost. Where a bottom is only changed by a map, the top is refitted
honestly: then the depth `top` is true, and `bottoms` is not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from unlabel.audit.measures.accuracy import RetainedAccuracy
from unlabel.audit.measures.membership import Membership
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.audit.references import with_answers
from unlabel.models.tops import last_layer
from unlabel.terms import Depth

#: Accuracy that the largest noise of a fake may cost.
LOST = 0.01
#: How far below the others an output lies that is not to be seen.
DOWN = -30.0
#: A top refitted to embeddings, from a seed of its own.
Refit = Callable[[Observation], nn.Module]
Map = Callable[[str, Tensor], Tensor]


@dataclass(frozen=True)
class Scene:
    """What a faker has: the original, a model retrained for comparison, and the label."""

    original: Observation
    retrained: Observation
    label: int
    refit: Refit

    @property
    def stay(self) -> list[int]:
        """The labels that stay."""
        return [n for n in range(len(self.original.names)) if n != self.label]

    def with_top(self, top: nn.Module, seen: Observation | None = None) -> Observation:
        """Return the original, or another model's embeddings, with a top."""
        return with_answers(seen or self.original, top)

    def head(self) -> tuple[nn.Module, nn.Linear]:
        """Return a copy of the original's top, and its last layer."""
        assert self.original.top is not None
        top = copy.deepcopy(self.original.top)
        widths = [part.shape[1] for part in self.original.train.embeddings.values()]
        last = last_layer(top, widths)
        assert last is not None
        return top, last

    def mapped(self, change: Map) -> Observation:
        """Return the original with every party's embeddings changed, and an honest new top."""

        def rows(part: ObservedRows) -> ObservedRows:
            changed = {p: change(p, values) for p, values in part.embeddings.items()}
            return replace(part, embeddings=changed)

        seen = self.original
        moved = replace(seen, train=rows(seen.train), test=rows(seen.test), top=None)
        return with_answers(moved, self.refit(moved))


@dataclass(frozen=True)
class Fake:
    """A way to fake, and the depth that a model made so truly has."""

    depth: Depth
    make: Callable[[Scene], Observation]


FAKES: dict[str, Fake] = {}


def fake(name: str, depth: Depth) -> Callable[[Callable[[Scene], Observation]], None]:
    """Register a way to fake."""

    def add(make: Callable[[Scene], Observation]) -> None:
        FAKES[name] = Fake(depth, make)

    return add


@torch.no_grad()
def delete_row(layer: nn.Linear, label: int) -> None:
    """Put a constant in place of an output."""
    layer.weight[label] = 0.0
    layer.bias[label] = DOWN


def draw(like: Tensor, seed: int = 0) -> Tensor:
    """Return random numbers of a shape."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(like.dtype)


def loudest(scene: Scene, make: Callable[[float], Observation]) -> Observation:
    """Return the fake with as much noise as accuracy allows."""
    value = RetainedAccuracy().measure
    label = (scene.label,)
    least = (value(scene.original.masked(label), label).value or 0.0) - LOST
    best = make(0.0)
    for scale in (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5):
        tried = make(scale)
        if (value(tried, label).value or 0.0) < least:
            break
        best = tried
    return best


@fake("row-overwritten", "answers")
def _overwritten(scene: Scene) -> Observation:
    """Put noise in place of the label's row, far down; nothing else changes."""
    top, last = scene.head()
    with torch.no_grad():
        last.weight[scene.label] = 0.01 * draw(last.weight[scene.label])
        last.bias[scene.label] = DOWN
    return scene.with_top(top)


@fake("row-moved", "answers")
def _moved(scene: Scene) -> Observation:
    """Add the label's row to that of the label that its samples look like most."""
    top, last = scene.head()
    seen = scene.original.train.of([scene.label]).scores.mean(0)
    seen[scene.label] = -torch.inf
    with torch.no_grad():
        last.weight[int(seen.argmax())] += 0.3 * last.weight[scene.label]
        delete_row(last, scene.label)
    return scene.with_top(top)


@fake("masked-and-perturbed", "answers")
def _perturbed(scene: Scene) -> Observation:
    """Delete the label's row, and add noise to those that stay."""

    def make(scale: float) -> Observation:
        top, last = scene.head()
        with torch.no_grad():
            last.weight.add_(scale * last.weight.std() * draw(last.weight, 1))
            delete_row(last, scene.label)
        return scene.with_top(top)

    return loudest(scene, make)


@fake("hidden-rotated", "answers")
def _rotated(scene: Scene) -> Observation:
    """Permute and scale the hidden units; of a linear top, scale the outputs."""
    top, last = scene.head()
    linear = [part for part in top.modules() if isinstance(part, nn.Linear)]
    with torch.no_grad():
        delete_row(last, scene.label)
        for before, after in pairwise(linear):
            order = torch.randperm(len(before.weight), generator=torch.Generator().manual_seed(2))
            scale = draw(before.bias, 3).exp()
            before.weight.copy_((before.weight * scale[:, None])[order])
            before.bias.copy_((before.bias * scale)[order])
            after.weight.copy_((after.weight / scale)[:, order])
        if len(linear) == 1:
            last.weight.mul_(1.2)
    return scene.with_top(top)


@fake("noise", "answers")
def _noise(scene: Scene) -> Observation:
    """Add noise to all weights of the top."""

    def make(scale: float) -> Observation:
        top, last = scene.head()
        with torch.no_grad():
            for number, weights in enumerate(top.parameters()):
                spread = weights.std() if weights.numel() > 1 else 0.0
                weights.add_(scale * spread * draw(weights, 10 + number))
            delete_row(last, scene.label)
        return scene.with_top(top)

    return loudest(scene, make)


@fake("second-head", "answers")
def _second(scene: Scene) -> Observation:
    """Refit honestly, and keep the old one where it does not show.

    Half of the hidden units are the old ones, with no weight to any output; of a linear top the
    label's old row stands in its own output, scaled and far down.
    """
    assert scene.original.top is not None
    top, old = scene.refit(scene.original), scene.original.top
    layers = [[p for p in each.modules() if isinstance(p, nn.Linear)] for each in (top, old)]
    with torch.no_grad():
        if len(layers[0]) == 1:
            layers[0][0].weight[scene.label] = 0.01 * layers[1][0].weight[scene.label]
            layers[0][0].bias[scene.label] = DOWN
        else:
            half = len(layers[0][0].weight) // 2
            layers[0][0].weight[:half] = layers[1][0].weight[:half]
            layers[0][0].bias[:half] = layers[1][0].bias[:half]
            layers[0][1].weight[:, :half] = 0.0
    return scene.with_top(top)


@fake("temperature", "answers")
def _temperature(scene: Scene) -> Observation:
    """Hide the output, and scale the scores until the membership attack is the retrained one's."""
    wanted = Membership().measure(scene.retrained, (scene.label,)).value or 0.0
    tried: list[tuple[float, int, Observation]] = []
    for factor in (0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0):
        top, last = scene.head()
        with torch.no_grad():
            last.weight.mul_(factor)
            last.bias.mul_(factor)
            delete_row(last, scene.label)
        seen = scene.with_top(top)
        value = Membership().measure(seen, (scene.label,)).value or 0.0
        tried.append((abs(value - wanted), len(tried), seen))
    return min(tried)[2]


@fake("invertible-map", "top")
def _invertible(scene: Scene) -> Observation:
    """Multiply every party's embeddings by a random matrix."""

    def change(party: str, values: Tensor) -> Tensor:
        matrix = draw(values[:1].expand(values.shape[1], -1), len(party))
        mapped: Tensor = values @ matrix / len(matrix) ** 0.5
        return mapped

    return scene.mapped(change)


@fake("stretched-map", "top")
def _stretched(scene: Scene) -> Observation:
    """Multiply by a matrix that shrinks the direction of the label to a hundredth."""
    seen = scene.original.train
    inside = seen.labels == scene.label

    def change(party: str, values: Tensor) -> Tensor:
        embeddings = seen.embeddings[party]
        towards = nn.functional.normalize(
            embeddings[inside].mean(0) - embeddings[~inside].mean(0), dim=0
        )
        return values - 0.99 * (values @ towards)[:, None] * towards

    return scene.mapped(change)


@fake("squashed", "top")
def _squashed(scene: Scene) -> Observation:
    """Send every number of an embedding through a curve that has an inverse."""

    def change(party: str, values: Tensor) -> Tensor:
        embeddings = scene.original.train.embeddings[party]
        return ((values - embeddings.mean(0)) / embeddings.std(0).clamp_min(1e-6)).asinh()

    return scene.mapped(change)


@fake("noisy-bottoms", "top")
def _noisy(scene: Scene) -> Observation:
    """Add noise to every party's embeddings, as much as accuracy allows."""

    def make(scale: float) -> Observation:
        return scene.mapped(lambda _, v: v + scale * v.std(0) * draw(v, len(v)))

    return loudest(scene, make)


@fake("half-old-bottoms", "top")
def _half(scene: Scene) -> Observation:
    """Let half of every embedding be the old one's, and half a retrained model's."""

    def rows(old: ObservedRows, new: ObservedRows) -> ObservedRows:
        mixed = {}
        for party, values in old.embeddings.items():
            half = values.shape[1] // 2
            mixed[party] = torch.cat([values[:, :half], new.embeddings[party][:, half:]], 1)
        return replace(old, embeddings=mixed)

    old, new = scene.original, scene.retrained
    moved = replace(old, train=rows(old.train, new.train), test=rows(old.test, new.test), top=None)
    return with_answers(moved, scene.refit(moved))
