"""SCRUB (Kurmanji et al., NeurIPS 2023): away from the original on some rows, towards on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, steady
from unlabel.party.optimiser import expect


@METHODS.register("scrub")
@dataclass(frozen=True)
class Scrub(Method):
    """Distil away from the original model on forgotten rows and towards it on retained ones.

    With t(x) the original's logits, z(x) those of the model, T the temperature and
    D = T^2 KL(softmax(t / T) || softmax(z / T)), in turns:

        climb     D over the forgotten rows, in the first `climbs` epochs
        descend   alpha D + gamma CE(z, y) over the retained rows, in all epochs

    The rate stays as it is; the published code lowers it after the third epoch, and takes batches
    of 128 and 32.

    epochs         passes over the retained rows
    climbs         epochs that begin with a pass of ascent over the forgotten rows
    lr             rate of SGD
    alpha          weight of the distillation
    gamma          weight of the labels
    temperature    T
    batch          retained rows a step; 0 is the batch of the training
    forget_batch   forgotten rows a step; 0 is the batch of the training
    momentum       of SGD
    weight_decay   of SGD
    """

    about: ClassVar[str] = "away from the original on the label, towards it on the rest, in turns"
    discloses: ClassVar[str] = "the forgotten rows, in messages of their own, and their gradients"

    epochs: int = 5
    climbs: int = 3
    lr: float = 5e-4
    alpha: float = 0.5
    gamma: float = 1.0
    temperature: float = 4.0
    batch: int = 0
    forget_batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("climbs", self.climbs, 0 <= self.climbs <= self.epochs, "0 to `epochs`")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("temperature", self.temperature, self.temperature > 0, "above 0")
        expect("alpha", self.alpha, self.alpha >= 0, "0 or more")
        expect("gamma", self.gamma, self.gamma >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 0, "0 or more")
        expect("forget_batch", self.forget_batch, self.forget_batch >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that rows of both kinds are trained on."""
        return "all"

    def tells(self) -> Tells:
        """Return that both kinds of rows are asked for, each by itself."""
        rows = "forgotten retained"
        return Tells.of(rows, rows, alone=True)

    def is_control(self) -> bool:
        """Return whether nothing is learned at this rate."""
        return self.lr == 0

    def sweep(self) -> tuple[Method, ...]:
        """Return a lower rate, and fewer, larger steps of ascent at this and at a higher rate."""
        calmer = replace(self, forget_batch=512)
        return (self, replace(self, lr=2e-4), calmer, replace(calmer, lr=2e-3))

    def run(self, work: Work) -> None:
        """Take turns."""
        active = work.active
        every = torch.cat([work.retained, work.rows]).sort().values
        teacher = torch.zeros(len(active.labels), work.count, device=active.device)
        teacher[every] = active.logits(every)
        settings = steady(self.lr, self.momentum, self.weight_decay)
        work.tune(settings, settings)

        def away(rows: Tensor) -> Callable[[list[Tensor]], Tensor]:
            return lambda e: -self._distance(active.apply_top(e), teacher[rows])

        def towards(rows: Tensor) -> Callable[[list[Tensor]], Tensor]:
            def loss(embeddings: list[Tensor]) -> Tensor:
                logits = active.apply_top(embeddings)
                told = F.cross_entropy(logits, active.labels[rows])
                return self.alpha * self._distance(logits, teacher[rows]) + self.gamma * told

            return loss

        for epoch in range(self.epochs):
            if epoch < self.climbs:
                work.learn(work.rows, away, batch=self.forget_batch, first=epoch, title="away")
            work.learn(work.retained, towards, batch=self.batch, first=epoch, title="towards")

    def _distance(self, logits: Tensor, teacher: Tensor) -> Tensor:
        """Return T^2 KL(softmax(t / T) || softmax(z / T)), the mean over rows."""
        heat = self.temperature
        log_p, log_q = (logits / heat).log_softmax(1), (teacher / heat).log_softmax(1)
        return heat**2 * F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)
