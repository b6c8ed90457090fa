"""Centred kernel alignment: how alike two models lay out the same rows, up to rotation and size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unlabel.audit.measure import Comparison, Figure, Models
from unlabel.audit.observation import Observation
from unlabel.party.layers import aligned, gram
from unlabel.terms import Depth
from unlabel_bench.rivals import RIVALS

#: Test rows at most.
ROWS = 2_000


def linear_cka(x: Tensor, y: Tensor) -> float | None:
    """Return |Y'X|^2 / (|X'X| |Y'Y|) of two layers of the same rows, each centred (Frobenius)."""
    return aligned(gram(x[:ROWS]), gram(y[:ROWS]))


class _Alignment(Comparison):
    """Linear CKA of test embeddings to those of another model; `parties` has each party alone.

    Mirage's code leaves the centring out, and so has higher values: embeddings after a ReLU share
    a mean that is far from 0.
    """

    to: ClassVar[str]

    def beside(
        self,
        observed: Observation,
        labels: tuple[int, ...],  # noqa: ARG002
        models: Models,
    ) -> Figure:
        """Average over the models of that name, without the model itself where there are others."""
        known = models.get(self.to, ())
        others = [each for each in known if each is not observed] or known
        if not others or len(observed.test) < 2:
            return Figure(None, note=f"It needs a model '{self.to}' and two test rows.")
        now = observed.test
        value = _mean(linear_cka(now.joined(), each.test.joined()) for each in others)
        if value is None:
            return Figure(None, note="The embeddings are the same for every row.")
        alone = {
            party: {"value": _mean(linear_cka(rows, o.test.embeddings[party]) for o in others)}
            for party, rows in now.embeddings.items()
        }
        return Figure(value, detail={"parties": alone})


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@RIVALS.register("cka-original")
@dataclass(frozen=True)
class CkaToOriginal(_Alignment):
    """Linear CKA of embeddings before and after: 1 where nothing moved but by rotation and size."""

    about: ClassVar[str] = "alignment of embeddings with the original's (linear CKA)"
    depth: ClassVar[Depth | None] = "bottoms"
    to: ClassVar[str] = "original"


@RIVALS.register("cka-retrained")
@dataclass(frozen=True)
class CkaToRetrained(_Alignment):
    """Linear CKA of embeddings with those of retrained models, their mean."""

    about: ClassVar[str] = "alignment of embeddings with the retrained models' (linear CKA)"
    depth: ClassVar[Depth | None] = "bottoms"
    to: ClassVar[str] = "retrained"
