"""Gradient ascent on the forgotten label's loss: the ablations of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect, one_of
from unlabel.forget.method import METHODS, Data, Disclosure, Method
from unlabel.forget.mixing import at_most, mixer, pairs_among, pairs_within, shares
from unlabel.forget.work import Objective, Work, sgd
from unlabel.party import Stream
from unlabel.wire import Mode

BatchNorm = Literal["drift", "frozen"]
#: Training rows of the forgotten label that are climbed at a time (GA-A).
BATCH = 256


@METHODS.register("ascent")
@dataclass(frozen=True)
class Ascent(Method):
    """Climb the loss of the forgotten label, w <- w + lr d loss / d w, in top and bottoms.

    samples      all: every training row of the label (GA-A); few: the few-shot samples (GA-S)
    mixup        climb on mixed embeddings of the few-shot samples (GA-S with mixup)
    recovery     after each ascent descend on the retained few-shot samples, mixed if `mixup`
    lr           rate of the ascent
    recovery_lr  rate of the recovery; 0 means the same
    epochs       passes: an ascent step over the samples, then a recovery step
    lambdas      shares of the first sample in a mixed one
    momentum     of SGD
    weight_decay of SGD
    batchnorm    drift: normalisation runs as in training, so that batches of one label move its
                 running statistics, which forgets by itself; frozen: statistics stay as they are
    """

    about = "gradient ascent (GA-A, GA-S and their variants)"
    tells_partners = "the few-shot samples; with samples=all every row of the label"
    rates = ("lr",)

    samples: Literal["all", "few"] = "few"
    mixup: bool = False
    recovery: bool = False
    lr: float = 2e-7
    recovery_lr: float = 0.0
    epochs: int = 20
    lambdas: tuple[float, ...] = (0.25, 0.5)
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batchnorm: BatchNorm = "drift"

    def __post_init__(self) -> None:
        one_of("samples", self.samples, ("all", "few"))
        one_of("batchnorm", self.batchnorm, ("drift", "frozen"))
        self.expect_at_least(lr=0, epochs=1)
        expect("lambdas", self.lambdas, all(0 <= x <= 1 for x in self.lambdas), "from 0 to 1")

    @property
    def drifts(self) -> bool:
        """Whether batches of one label move the running statistics of normalisation."""
        return self.batchnorm == "drift"

    @property
    def needs(self) -> Data:
        """A few samples of the label, or all its rows."""
        return "forgotten" if self.samples == "all" else "few-shot"

    @property
    def disclosure(self) -> Disclosure:
        """Samples of the label are asked for in messages of their own."""
        rows = "forgotten" if self.samples == "all" else "public"
        return Disclosure.of(f"{rows} public" if self.recovery else rows, alone=True)

    def run(self, work: Work) -> None:
        """Alternate ascent and recovery, an epoch at a time."""
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))
        mode: Mode = "train" if self.batchnorm == "drift" else "frozen"
        turns = self._turns(work)
        for epoch in range(self.epochs):
            for rows, table, objective in turns:
                loss = work.move(rows, objective, mode=mode, table=table)
            work.expect_alive(loss=loss.item())
            work.watch(epoch + 1, self.epochs, f"loss {loss.item():.4f}")

    def _turns(self, work: Work) -> list[tuple[Tensor, str, Objective]]:
        """Return the steps of an epoch: rows, the table they stand in, and the objective."""
        samples, count = work.samples, work.samples.forgotten
        if self.samples == "all":
            turns = [
                (rows, "main", _objective(work, work.active.labels[rows], sign=-1.0))
                for rows in work.forgotten_rows.split(min(BATCH, work.active.most_rows))
            ]
        else:
            pairs = pairs_within(samples.labels[:count])
            turns = [self._on_samples(work, slice(count), pairs, sign=-1.0)]
        if self.recovery:
            # One optimiser moves the weights, so another rate is another weight of the loss.
            rate = self.recovery_lr / self.lr if self.recovery_lr and self.lr else 1.0
            pairs = pairs_among(len(samples.labels) - count, samples.labels.device)
            turns.append(self._on_samples(work, slice(count, None), pairs, sign=rate))
        return turns

    def _on_samples(
        self, work: Work, part: slice, pairs: Tensor, *, sign: float
    ) -> tuple[Tensor, str, Objective]:
        """Return a part of the few-shot samples with its objective, on mixed pairs if `mixup`."""
        samples = work.samples
        labels, mixing = samples.labels[part], None
        if self.mixup:
            draw = Stream(work.seed, "pairs").generator(0)
            mixing = mixer(at_most(pairs, self.lambdas, draw), self.lambdas, len(labels))
        objective = _objective(work, labels, samples.weights[part], sign=sign, mixing=mixing)
        return samples.rows[part], samples.table, objective


def _objective(
    work: Work,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    sign: float,
    mixing: tuple[Tensor, Tensor] | None = None,
) -> Objective:
    """Return sign x mean over mixed samples of CE(F(M H_1, .., M H_K), M Y)."""
    target = F.one_hot(labels, work.label_count).float()
    trust = torch.ones_like(labels, dtype=torch.float32) if weights is None else weights
    parts = trust / trust.sum()
    if mixing is not None:
        target, parts = mixing[0] @ target, shares(*mixing, trust)

    def objective(embeddings: list[Tensor]) -> Tensor:
        mixed = embeddings if mixing is None else [mixing[0] @ values for values in embeddings]
        losses = F.cross_entropy(work.active.apply_top(mixed), target, reduction="none")
        return sign * (losses * parts).sum()

    return objective
