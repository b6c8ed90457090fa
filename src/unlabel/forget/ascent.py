"""Gradient ascent on the forgotten label's loss: the ablations of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.mixing import at_most, mixer, pairs_among, pairs_within, shares
from unlabel.forget.work import Work, steady
from unlabel.party import Stream
from unlabel.party.optimiser import expect, one_of
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

    about: ClassVar[str] = "gradient ascent (GA-A, GA-S and their variants)"
    discloses: ClassVar[str] = "the few-shot samples; with samples=all every row of the label"

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
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("lambdas", self.lambdas, all(0 <= x <= 1 for x in self.lambdas), "from 0 to 1")

    def control(self) -> Method | None:
        """Return the same run at rate 0: what it forgets, the drift of normalisation forgets."""
        return replace(self, lr=0.0, weight_decay=0.0) if self.batchnorm == "drift" else None

    def is_control(self) -> bool:
        """Return whether nothing is learned at this rate."""
        return self.lr == 0

    def needs(self) -> Data:
        """Return whether a few samples of the label are climbed, or all its rows."""
        return "forgotten" if self.samples == "all" else "few-shot"

    def tells(self) -> Tells:
        """Return that samples of the label are asked for in messages of their own."""
        rows = "forgotten" if self.samples == "all" else "public"
        asked = f"{rows} public" if self.recovery else rows
        return Tells.of(asked, asked, alone=True)

    def sweep(self) -> tuple[Method, ...]:
        """Return the rate of the paper, and rates at which something is learned."""
        return (self, *(replace(self, lr=lr, batchnorm="frozen") for lr in (1e-3, 3e-3, 1e-2)))

    def run(self, work: Work) -> None:
        """Alternate ascent and recovery, an epoch at a time."""
        settings = steady(self.lr, self.momentum, self.weight_decay)
        work.tune(settings, settings)
        mode: Mode = "train" if self.batchnorm == "drift" else "frozen"
        climbs = self._climbs(work)
        recovers = self._recovers(work) if self.recovery else []
        for epoch in range(self.epochs):
            for rows, table, objective in [*climbs, *recovers]:
                loss = work.move(rows, objective, mode=mode, table=table)
            work.expect_alive(loss=loss.item())
            work.watch(epoch + 1, self.epochs, f"loss {loss.item():.4f}")

    def _climbs(self, work: Work) -> list[tuple[Tensor, str, _Objective]]:
        shots = work.shots
        if self.samples == "all":
            return [
                (rows, "main", _Objective(work, work.active.labels[rows], sign=-1.0))
                for rows in work.rows.split(min(BATCH, work.active.most_rows))
            ]
        labels, weights = shots.labels[: shots.forgotten], shots.weights[: shots.forgotten]
        mixing = None
        if self.mixup:
            mixing = mixer(self._few(work, pairs_within(labels)), self.lambdas, len(labels))
        objective = _Objective(work, labels, sign=-1.0, mixing=mixing, weights=weights)
        return [(shots.rows[: shots.forgotten], shots.table, objective)]

    def _recovers(self, work: Work) -> list[tuple[Tensor, str, _Objective]]:
        shots = work.shots
        labels, weights = shots.labels[shots.forgotten :], shots.weights[shots.forgotten :]
        mixing = None
        if self.mixup:
            pairs = self._few(work, pairs_among(len(labels), labels.device))
            mixing = mixer(pairs, self.lambdas, len(labels))
        # One optimiser moves the weights, so another rate is another weight of the loss.
        rate = self.recovery_lr / self.lr if self.recovery_lr and self.lr else 1.0
        objective = _Objective(work, labels, sign=rate, mixing=mixing, weights=weights)
        return [(shots.rows[shots.forgotten :], shots.table, objective)]

    def _few(self, work: Work, pairs: Tensor) -> Tensor:
        return at_most(pairs, self.lambdas, Stream(work.seed, "pairs").generator(0))


class _Objective:
    """sign x mean over mixed samples of CE(F(M H_1, .., M H_K), M Y)."""

    def __init__(
        self,
        work: Work,
        labels: Tensor,
        *,
        sign: float,
        mixing: tuple[Tensor, Tensor] | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self._active, self._sign = work.active, sign
        self._matrix = None if mixing is None else mixing[0]
        target = F.one_hot(labels, work.count).float()
        trust = torch.ones_like(labels, dtype=torch.float32) if weights is None else weights
        if mixing is None:
            self._target, self._shares = target, trust / trust.sum()
        else:
            self._target, self._shares = mixing[0] @ target, shares(*mixing, trust)

    def __call__(self, embeddings: list[Tensor]) -> Tensor:
        """Return the loss of the embeddings of the samples."""
        mixed = embeddings
        if self._matrix is not None:
            mixed = [self._matrix @ values for values in embeddings]
        losses = F.cross_entropy(self._active.apply_top(mixed), self._target, reduction="none")
        return self._sign * (losses * self._shares).sum()
