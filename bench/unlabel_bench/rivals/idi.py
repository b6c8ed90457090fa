"""Information difference index: how much more the layers tell of the label than retrained ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.audit.figures import Unit
from unlabel.audit.layers import hidden_layers
from unlabel.audit.measure import Comparison, Figure, Models
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.terms import Depth
from unlabel_bench.knowledge import nats_about
from unlabel_bench.measures import residual
from unlabel_bench.rivals import RIVALS

#: Nats between original and retrained below which their ratio means nothing.
APART = 0.01
#: Rows of either part at most.
ROWS = 5_000
#: Where critics are fitted.
PLACE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@RIVALS.register("idi")
@dataclass(frozen=True)
class InformationDifference(Comparison):
    """sum_l (I_u - I_r) / sum_l (I_o - I_r) over layers l (Jeon et al., AAAI 2026).

    I = I(Z_l; Y), Y = [row is of a forgotten label], in nats, of the model u, the original o and
    retrained models r (their mean): 1 as before, 0 as retrained, below 0 where less is known.

    I is bounded by InfoNCE, E[f(z, y) - log mean_j exp f(z, y_j)] with a critic f. With two values
    of Y the mean over j is sum_y p(y) exp f(z, y), and the bound is H(Y) minus the cross-entropy of
    a classifier, as `knowledge.nats_about` has it, fitted to training rows and taken of test rows.

    Our reading: the layers are the embeddings of all parties side by side and the hidden layers of
    the top, since others do not leave a party; `layers` has I of each.
    """

    about: ClassVar[str] = "information of the layers on the label: 0 as retrained, 1 as before"
    depth: ClassVar[Depth | None] = "bottoms"
    unit: ClassVar[Unit] = "number"
    bounds: ClassVar[tuple[float, float]] = (-inf, inf)

    #: What original and retrained models tell: every model is held against the same ones.
    _told: dict[int, tuple[Observation, dict[str, float]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Estimate the information in every layer of three models."""
        known = models.get("retrained", ())
        retrained = [each for each in known if each is not observed] or known
        if "original" not in models or not retrained:
            return Figure(None, note="It needs the original and a retrained model.")
        forgotten = [_gone(part.labels, labels) for part in (observed.train, observed.test)]
        if any(not part.any() or part.all() for part in forgotten):
            return Figure(None, note="It needs rows of forgotten labels and of others.")
        before, *aims = (self._known(x, labels) for x in (models["original"][0], *retrained))
        return index(self.information(observed, labels), before, aims)

    def _known(self, observed: Observation, labels: tuple[int, ...]) -> dict[str, float]:
        """Return the same as `information`, estimated once; the model is kept, so its id is its."""
        if id(observed) not in self._told:
            self._told[id(observed)] = observed, self.information(observed, labels)
        return self._told[id(observed)][1]

    def information(self, observed: Observation, labels: tuple[int, ...]) -> dict[str, float]:
        """Return I(Z; Y) of each layer, in nats."""
        train, test = (_some(part) for part in (observed.train, observed.test))
        layers = {"embeddings": (train.joined(), test.joined())}
        if observed.top is not None:
            parts = [list(part.embeddings.values()) for part in (train, test)]
            pairs = zip(*(hidden_layers(observed.top, part) for part in parts), strict=True)
            layers |= {f"layer {number}": pair for number, pair in enumerate(pairs, 1)}
        v, truth = (_gone(part.labels, labels).long().to(PLACE) for part in (train, test))
        return {
            name: nats_about(seen.float().to(PLACE), v, asked.float().to(PLACE), truth)
            for name, (seen, asked) in layers.items()
        }


def index(
    now: dict[str, float], original: dict[str, float], retrained: list[dict[str, float]]
) -> Figure:
    """Return the index of one model from what the layers of each model tell."""
    shared = [name for name in now if all(name in each for each in (original, *retrained))]
    here, before = (sum(each[name] for name in shared) for each in (now, original))
    aim = sum(each[name] for each in retrained for name in shared) / len(retrained)
    detail = {"layers": now, "original": before, "retrained": aim}
    value = residual(here, before, aim) if abs(before - aim) >= APART else None
    if value is None:
        note = f"Undefined: original and retrained differ by {before - aim:.3f} nats."
        return Figure(None, detail=detail, note=note)
    return Figure(value, detail=detail)


def _some(part: ObservedRows) -> ObservedRows:
    if len(part) <= ROWS:
        return part
    return part.take(torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:ROWS])


def _gone(truth: Tensor, labels: tuple[int, ...]) -> Tensor:
    return torch.isin(truth, torch.tensor(list(labels)))
