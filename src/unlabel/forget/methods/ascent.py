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
    bottom_lr    rate of the bottoms; 0 means the same
    epochs       passes: an ascent step over the samples, then a recovery step
    lambdas      shares of the first sample in a mixed one
    momentum     of SGD
    weight_decay of SGD
    batchnorm    drift: normalisation runs as in training, so that batches of one label move its
                 running statistics, which forgets by itself; frozen: statistics stay as they are
    """

    about = "gradient ascent (GA-A, GA-S and their variants)"
    tells_partners = "the few-shot samples; with samples=all every row of the label"
    rates = ("lr", "bottom_lr")

    samples: Literal["all", "few"] = "few"
    mixup: bool = False
    recovery: bool = False
    lr: float = 2e-7
    recovery_lr: float = 0.0
    bottom_lr: float = 0.0
    epochs: int = 20
    lambdas: tuple[float, ...] = (0.25, 0.5)
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batchnorm: BatchNorm = "drift"

    def __post_init__(self) -> None:
        one_of("samples", self.samples, ("all", "few"))
        one_of("batchnorm", self.batchnorm, ("drift", "frozen"))
        self.expect_at_least(lr=0, recovery_lr=0, bottom_lr=0, epochs=1)
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
        self.open_request(work)
        turns = self._turns(work)
        for epoch in range(self.epochs):
            for rows, table, objective in turns:
                loss = work.move(rows, objective, mode=self.mode, table=table)
            work.expect_alive(loss=loss.item())
            work.watch(epoch + 1, self.epochs, f"loss {loss.item():.4f}")

    @property
    def mode(self) -> Mode:
        """How normalisation runs."""
        return "train" if self.drifts else "frozen"

    def open_request(self, work: Work) -> None:
        """Have all models use a fresh optimiser, the bottoms at their own rate."""
        rates = self.lr, self.bottom_lr or self.lr
        work.use_optimisers(*(sgd(rate, self.momentum, self.weight_decay) for rate in rates))

    def _turns(self, work: Work) -> list[tuple[Tensor, str, Objective]]:
        """Return the steps of an epoch: rows, the table they stand in, and the objective."""
        samples, count = work.samples, work.samples.forgotten
        if self.samples == "all":
            turns = [
                (rows, "main", Mixed.plain(work, work.active.labels[rows]).objective(-1.0))
                for rows in work.forgotten_rows.split(min(BATCH, work.active.most_rows))
            ]
        else:
            pairs = pairs_within(samples.labels[:count])
            turns = [self._on_samples(work, slice(count), pairs, sign=-1.0)]
        if self.recovery:
            pairs = pairs_among(len(samples.labels) - count, samples.labels.device)
            sign = recovery_weight(self)
            turns.append(self._on_samples(work, slice(count, None), pairs, sign=sign))
        return turns

    def _on_samples(
        self, work: Work, part: slice, pairs: Tensor, *, sign: float
    ) -> tuple[Tensor, str, Objective]:
        """Return a part of the few-shot samples with its objective, on mixed pairs if `mixup`."""
        mixed = Mixed.of(work, part, pairs if self.mixup else None, self.lambdas)
        return work.samples.rows[part], work.samples.table, mixed.objective(sign)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Mixed samples of one kind: what the top is asked about, and how much each counts.

    matrix  M, which mixes; None leaves the samples as they are
    target  M Y
    parts   weights in a mean, by how often a mixed sample occurs and how far it is trusted
    """

    work: Work
    matrix: Tensor | None
    target: Tensor
    parts: Tensor

    @classmethod
    def of(cls, work: Work, part: slice, pairs: Tensor | None, lambdas: tuple[float, ...]) -> Mixed:
        """Return a part of the few-shot samples, mixed in pairs where there are any."""
        labels, trust = work.samples.labels[part], work.samples.weights[part]
        if pairs is None:
            return cls.plain(work, labels, trust)
        draw = Stream(work.seed, "pairs").generator(0)
        matrix, often = mixer(at_most(pairs, lambdas, draw), lambdas, len(labels))
        target = F.one_hot(labels, work.label_count).float()
        return cls(work, matrix, matrix @ target, shares(matrix, often, trust))

    @classmethod
    def plain(cls, work: Work, labels: Tensor, trust: Tensor | None = None) -> Mixed:
        """Return samples as they are, all trusted alike if not said."""
        trust = torch.ones_like(labels, dtype=torch.float32) if trust is None else trust
        target = F.one_hot(labels, work.label_count).float()
        return cls(work, None, target, trust / trust.sum())

    def losses(self, embeddings: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return CE(F(M H_1, .., M H_K), M Y) of each mixed sample, and the logits."""
        mixed = embeddings if self.matrix is None else [self.matrix @ h for h in embeddings]
        logits = self.work.active.apply_top(mixed)
        return F.cross_entropy(logits, self.target, reduction="none"), logits

    def objective(self, sign: float) -> Objective:
        """Return sign x the mean of the losses."""
        return lambda embeddings: sign * (self.losses(embeddings)[0] * self.parts).sum()


def recovery_weight(method: Ascent) -> float:
    """Return what the loss of a recovery is multiplied by, so that it moves at its own rate.

    One optimiser moves the weights, so another rate is another weight of the loss.
    """
    return method.recovery_lr / method.lr if method.recovery_lr and method.lr else 1.0
