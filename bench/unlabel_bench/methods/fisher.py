"""Fisher forgetting (Golatkar, Achille and Soatto, CVPR 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import one_of
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Objective, Work
from unlabel.party import Learner, Stream
from unlabel.party.transform import SINGLE, noise_variance
from unlabel.train import batches
from unlabel_bench.shaping import accumulate_fisher

#: The most that 1 / importance may be in the layer that gives the logits.
MOST_LAST = 1e2
#: Variance of the forgotten labels' own weights, which start from 0, before it counts tenfold.
FRESH = 1e-4
#: Batches that an estimate is made of, at least.
LEAST_BATCHES = 64
#: The name of the sum that every party gathers.
RETAINED = "retained"


@METHODS.register("fisher")
@dataclass(frozen=True)
class Fisher(Method):
    """Drown in noise what the retained rows do not need.

    With F = mean over retained rows of sum over labels y of p(y | x) (d CE(x, y) / d w)^2, the
    diagonal of the Fisher information, normalisation as in prediction:

        w <- w + N(0, v),    v = alpha min(1 / (F + 1e-8), 1e3), mean over a unit's inputs

    Single numbers a unit (biases, normalisation) and the layer that gives the logits get ten times
    as much; that layer's 1 / F is at most 1e2, and a forgotten label's own weights there become
    N(0, 1e-3). Each party does this to its own weights.

    `labels=all` sums over the labels as written, one message a row and label. `labels=drawn` costs
    one pass: with independent signs e_y it squares the gradient, over a whole batch, of

        sum over rows x of u_x . F(x),    u_x = sum over y of e_y sqrt(p(y | x)) (p - onehot(y))

    whose cross terms have mean zero, so that the expected square is the same sum. Over k batches
    its relative error is about sqrt(2 / k), and 1 / F comes out larger by about k / (k - 2).

    alpha   strength of the noise
    labels  all: exact; drawn: an estimate of F without bias
    batch   rows a step of `drawn`, at most a 64th of the rows
    """

    about = "noise on the weights that the other labels do not need"
    tells_partners = "the forgotten rows, by leaving them out; gradients of the others"
    needs = "retained"
    disclosure = Disclosure.of(
        "retained", messages="BeginRequest AccumulateFisher TransformWeights"
    )

    alpha: float = 1e-7
    labels: Literal["drawn", "all"] = "drawn"
    batch: int = 128

    def __post_init__(self) -> None:
        one_of("labels", self.labels, ("drawn", "all"))
        self.expect_at_least(alpha=0, batch=1)

    def run(self, work: Work) -> None:
        """Gather the importance of every weight, then add noise."""
        if work.active.last_layer() is None:
            raise ForgetError("Fisher forgetting needs a top model that ends in a linear layer.")
        work.use_optimisers(STILL)
        rows = work.retained_rows
        pieces = list(rows.split(1))
        if self.labels == "drawn":
            size = max(1, min(self.batch, len(rows) // LEAST_BATCHES))
            pieces = list(batches(rows, size, seed=work.seed, epoch=-1))
        for number, piece in enumerate(pieces):
            if self.labels == "all":
                for label in range(work.label_count):
                    part = self._label(work, label)
                    accumulate_fisher(
                        work, piece, part, sum_name=RETAINED, weight=1 / work.label_count
                    )
            else:
                drawn = self._drawn(work, number, len(piece))
                accumulate_fisher(work, piece, drawn, sum_name=RETAINED, weight=len(piece))
            if number % 10 == 0:
                work.watch(number + 1, len(pieces), "importance")
        work.transform_weights("noise", sum_name=RETAINED, strength=self.alpha, top=False)
        self._shake_top(work)

    def _label(self, work: Work, label: int) -> Objective:
        """Return sqrt(p(y | x)) CE(x, y), whose gradient's square is a term of the sum."""

        def objective(embeddings: list[Tensor]) -> Tensor:
            logits = work.active.apply_top(embeddings)
            share = logits.detach().softmax(1)[0, label].sqrt()
            return share * F.cross_entropy(logits, torch.tensor([label], device=logits.device))

        return objective

    def _drawn(self, work: Work, number: int, size: int) -> Objective:
        generator = Stream(work.seed, "fisher").generator(number)
        signs = torch.randint(2, (size, work.label_count), generator=generator) * 2.0 - 1.0

        def objective(embeddings: list[Tensor]) -> Tensor:
            logits = work.active.apply_top(embeddings)
            p = logits.detach().softmax(1)
            terms = signs.to(p.device) * p.sqrt()
            towards = terms.sum(1, keepdim=True) * p - terms
            return (towards * logits).sum()

        return objective

    @torch.no_grad()
    def _shake_top(self, work: Work) -> None:
        """Add noise to the top, whose last layer has rules of its own."""
        top: Learner = work.active.top
        last = work.active.last_layer()
        ends = [] if last is None else [id(weights) for weights in last.parameters()]
        draw = Stream(work.seed, "fisher/top").generator(top.fingerprint())
        labels = list(work.forgotten_labels)
        for weights, importance in zip(
            top.module.parameters(), top.sums.mean(RETAINED), strict=True
        ):
            variance = noise_variance(importance, self.alpha)
            if id(weights) in ends:
                variance = noise_variance(importance, self.alpha, MOST_LAST)
                variance = variance if importance.dim() == 1 else SINGLE * variance
                weights[labels] = 0.0
                variance[labels] = SINGLE * FRESH
            noise = torch.randn(weights.shape, generator=draw).to(weights.device)
            if weights.requires_grad:
                weights.add_(variance.sqrt() * noise)
