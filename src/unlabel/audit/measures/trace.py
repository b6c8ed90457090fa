"""Is the old model's direction of a label still there, whatever map it went through?

Probes ask whether a label can be learnt from a layer, and features alone may answer that. This
asks whether what the *old* layer said of the label can be computed from the new one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.audit.layers import (
    RIDGE,
    explained,
    hidden_layers,
    label_direction,
    standardised,
    whitened,
)
from unlabel.audit.measure import MEASURES, Comparison, Figure, Models
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.terms import Depth

#: Rows of either part that are looked at, at most.
ROWS = 10_000
#: Ridges that hidden layers are read with.
RIDGES = (1e-3, 1e-1, 1.0, 10.0)
NO_ORIGINAL = "The model from before is gone, so there is nothing to look for."
#: Training rows and test rows of a layer.
Layer = tuple[Tensor, Tensor]


class _Trace(Comparison):
    """What all traces share: which layers there are, and how one is held against its old self."""

    #: Whether small columns of a layer count as much as large ones.
    alike: ClassVar[bool] = True

    def kept(self, old: Layer, new: Layer, truth: Tensor, labels: Sequence[int]) -> float:
        """Return R^2 of the old layer's direction of the labels, read off the new layer."""
        before, after = (whitened(*layer, alike=self.alike) for layer in (old, new))
        weights = label_direction(before[0], truth, labels)
        return explained([part @ weights for part in before], after, (RIDGE,))

    @abstractmethod
    def layers(self, seen: Observation, labels: Sequence[int]) -> dict[str, Layer]:
        """Return layers by name; "" is the one whose value is the measure's."""

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Hold every layer against the original's."""
        if "original" not in models:
            return Figure(None, note=NO_ORIGINAL)
        now, before = (_some(each) for each in (observed, models["original"][0]))
        truth = before.train.labels
        known = [n for n in labels if (truth == n).any()]
        if not known or not len(before.test):
            return Figure(None, note="There are no rows of the forgotten labels to look for.")
        old = self.layers(before, known)
        kept = {
            name: self.kept(old[name], layer, truth, known)
            for name, layer in self.layers(now, known).items()
            if name in old
        }
        if not kept:
            return Figure(None, note="There is no such layer.")
        alone = {name: {"value": value} for name, value in kept.items() if name}
        return Figure(kept.get("", max(kept.values())), detail={"parties": alone})


def _some(seen: Observation) -> Observation:
    """Return a model with at most 10,000 rows of either part, the same of every model."""

    def thin(part: ObservedRows) -> ObservedRows:
        if len(part) <= ROWS:
            return part
        order = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))
        return part.take(order[:ROWS].sort().values)

    return replace(seen, train=thin(seen.train), test=thin(seen.test))


@MEASURES.register("trace")
@dataclass(frozen=True)
class Trace(_Trace):
    """R^2 with which the old embeddings' direction of a label can be read off the new embeddings.

    With H_k and H'_k the whitened embeddings of party k before and after, of all rows,

        w = ridge of [row is of u] on H_k;   value = R^2 of H_k w by ridge on H'_k, on test rows,

    the mean over forgotten labels u; of all parties together, and in `parties` of each. It is 1 for
    the original and for whatever invertible linear map of it; models trained without the label
    reach what the features give to anybody, and that is the aim.
    """

    about: ClassVar[str] = "the old direction of the label that the new embeddings still give"
    depth: ClassVar[Depth | None] = "bottoms"

    def layers(self, seen: Observation, labels: Sequence[int]) -> dict[str, Layer]:  # noqa: ARG002
        """Return the embeddings of each party, and of all."""
        train, test = seen.train, seen.test
        parties = {p: (train.embeddings[p], test.embeddings[p]) for p in train.embeddings}
        return {"": (train.joined(), test.joined()), **parties}


@MEASURES.register("trace-output")
@dataclass(frozen=True)
class OutputTrace(_Trace):
    """R^2 with which a forgotten label's old score can be read off its own new score.

    Scores are those below any mask. 0 for an output that is the same for every row, as a deleted
    one is; 1 for one that was hidden, moved down or scaled.
    """

    about: ClassVar[str] = "the old score of the label that its own output still gives"
    depth: ClassVar[Depth | None] = "top"
    of_tops: ClassVar[bool] = True

    def layers(self, seen: Observation, labels: Sequence[int]) -> dict[str, Layer]:
        """Return the label's own scores."""
        chosen = list(labels)
        return {"": (seen.train.scores[:, chosen], seen.test.scores[:, chosen])}


@MEASURES.register("trace-top")
@dataclass(frozen=True)
class TopTrace(_Trace):
    """The same of the hidden layers of the top: what its linear layers read, embeddings apart.

    Where a layer is wider than half of the rows, its units are standardised and not whitened: what
    whitening makes of so few rows is noise. Between two nonlinear layers units can be scaled and
    change places without being noticed, which standardised units do not feel. The value is the
    largest, and `parties` has each layer in place of a party. Tops refitted to the same embeddings
    without the label are the aim. A linear top has no hidden layer, and no value.
    """

    about: ClassVar[str] = "the old direction of the label that hidden layers of the top still give"
    alike: ClassVar[bool] = False
    depth: ClassVar[Depth | None] = "top"
    of_tops: ClassVar[bool] = True

    def layers(self, seen: Observation, labels: Sequence[int]) -> dict[str, Layer]:  # noqa: ARG002
        """Return the hidden layers by number."""
        if seen.top is None:
            return {}
        parts = [list(part.embeddings.values()) for part in (seen.train, seen.test)]
        pairs = zip(*(hidden_layers(seen.top, part) for part in parts), strict=True)
        return {f"layer {number}": pair for number, pair in enumerate(pairs, 1)}

    def kept(self, old: Layer, new: Layer, truth: Tensor, labels: Sequence[int]) -> float:
        """Return the same; of a wide layer by standardised units, and the ridge that reads most."""
        if 2 * new[0].shape[1] <= len(new[0]):
            return super().kept(old, new, truth, labels)
        before, after = standardised(*old), standardised(*new)
        weights = label_direction(before[0], truth, labels, RIDGES[1])
        return explained([part @ weights for part in before], after, RIDGES)
