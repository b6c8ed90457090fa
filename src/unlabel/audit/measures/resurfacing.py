"""Does a forgotten label come back by itself when training goes on with the others?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from unlabel.audit.classifiers import descend, head_inputs
from unlabel.audit.intervals import share_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.terms import Depth

#: Retained training rows that the head learns from at most.
ROWS = 5_000


@MEASURES.register("resurfacing")
@dataclass(frozen=True)
class Resurfacing(Measure):
    """The largest forgotten accuracy while a head is tuned on rows of the labels that stay alone.

    The head W starts as the least-squares reconstruction of the model's own scores S below any
    mask, over all training rows with standardised embeddings H,

        W = argmin |[H, 1] W - S|^2,

    which is the top itself where that is linear. Then it takes full-batch gradient steps of the
    cross-entropy on retained training rows; the accuracy is the share of the forgotten labels'
    test rows whose largest score is their label's. `curve` has it after every step, the start
    first; `fit` is the share of the scores' variance that the reconstruction explains. The interval
    is that of Clopper and Pearson.

    Only a head on embeddings that were seen once is tuned. Parties are not asked to train on
    retained rows: that would name the others.
    """

    about: ClassVar[str] = "accuracy that comes back when a head is tuned on the other labels"
    depth: ClassVar[Depth | None] = "bottoms"
    higher_is_better: ClassVar[bool | None] = False
    slow: ClassVar[bool] = True

    steps: int = 100

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Reconstruct, then tune."""
        asked = observed.test.of(labels)
        forgotten = torch.isin(observed.train.labels, torch.tensor(list(labels)))
        if not len(asked) or bool(forgotten.all()):
            note = "There are no test rows of the forgotten labels, or no rows of any other."
            return Figure(None, note=note)
        seen = observed.train
        x, queries = head_inputs(seen.joined(), seen.labels, labels, asked.joined())
        head, fit = _reconstruct(x, observed.train.scores)
        stays = torch.nonzero(~forgotten).flatten()
        some = torch.randperm(len(stays), generator=torch.Generator().manual_seed(0))[:ROWS]
        rows = stays[some]
        weights = torch.full((len(rows),), 1 / len(rows))
        heads = [head, *descend(head, x[rows], observed.train.labels[rows], weights, self.steps)]
        hits = [int(((queries @ one).argmax(1) == asked.labels).sum()) for one in heads]
        most = max(hits)
        curve = [hit / len(asked) for hit in hits]
        detail = {"curve": curve, "start": curve[0], "end": curve[-1], "fit": fit}
        return Figure(most / len(asked), *share_interval(most, len(asked)), detail)


def _reconstruct(x: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the linear head that gives the scores best, and how much of them it explains."""
    exact, wanted = x.double(), scores.double()
    gram = exact.T @ exact
    # Embeddings of a narrow or dead unit have no inverse; a hair of ridge picks the smallest head.
    gram.diagonal().add_(1e-9 * len(exact))
    head = torch.linalg.solve(gram, exact.T @ wanted)
    left = (exact @ head - wanted).square().sum()
    total = (wanted - wanted.mean(0)).square().sum().clamp_min(1e-12)
    return head.float(), float(1 - left / total)
