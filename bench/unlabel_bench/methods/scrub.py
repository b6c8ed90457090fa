"""SCRUB (Kurmanji et al., NeurIPS 2023): away from the original on some rows, towards on others."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Objective, Work, sgd


@METHODS.register("scrub")
@dataclass(frozen=True)
class Scrub(Method):
    """Distil away from the original model on forgotten rows and towards it on retained ones.

    With t(x) the original's logits, z(x) those of the model, T the temperature and
    D = T^2 KL(softmax(t / T) || softmax(z / T)), in turns:

        climb     min(D, ceiling) over the forgotten rows, in the first `climbs` epochs
        descend   alpha D + gamma CE(z, y) over the retained rows, in all epochs

    The mean of D over a batch has no bound of its own: climbed for a pass over thousands of rows,
    it runs away and takes the rest with it, to no number on VGG16. A row above the ceiling has no
    gradient. The published algorithm has no ceiling (0); the rate stays as it is here, while its
    code lowers it after the third epoch, and takes batches of 128 and 32.

    epochs         passes over the retained rows
    climbs         epochs that begin with a pass of ascent over the forgotten rows
    lr             rate of SGD
    alpha          weight of the distillation
    gamma          weight of the labels
    temperature    T
    ceiling        D of a forgotten row from which it is left alone; 0 is no ceiling
    batch          retained rows a step; 0 is the batch of the training
    forget_batch   forgotten rows a step; 0 is the batch of the training
    momentum       of SGD
    weight_decay   of SGD
    """

    about = "away from the original on the label, towards it on the rest, in turns"
    tells_partners = "the forgotten rows, in messages of their own, and their gradients"
    needs = "all"
    disclosure = Disclosure.of("forgotten retained", alone=True)
    rates = ("lr",)

    epochs: int = 5
    climbs: int = 3
    lr: float = 5e-4
    alpha: float = 0.5
    gamma: float = 1.0
    temperature: float = 4.0
    ceiling: float = 64.0
    batch: int = 0
    forget_batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(epochs=1, lr=0, alpha=0, gamma=0, ceiling=0, batch=0, forget_batch=0)
        expect("climbs", self.climbs, 0 <= self.climbs <= self.epochs, "0 to `epochs`")
        expect("temperature", self.temperature, self.temperature > 0, "above 0")

    def run(self, work: Work) -> None:
        """Take turns."""
        active = work.active
        every = work.training_rows
        teacher = work.by_row(every, active.logits(every))
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))

        def away(rows: Tensor) -> Objective:
            return lambda e: -self._climbed(self._distances(active.apply_top(e), teacher[rows]))

        def towards(rows: Tensor) -> Objective:
            def loss(embeddings: list[Tensor]) -> Tensor:
                logits = active.apply_top(embeddings)
                task = F.cross_entropy(logits, active.labels[rows])
                near = self._distances(logits, teacher[rows]).mean()
                return self.alpha * near + self.gamma * task

            return loss

        for epoch in range(self.epochs):
            if epoch < self.climbs:
                work.learn(
                    work.forgotten_rows, away, batch=self.forget_batch, first=epoch, title="away"
                )
            work.learn(work.retained_rows, towards, batch=self.batch, first=epoch, title="towards")

    def _climbed(self, distances: Tensor) -> Tensor:
        """Return the mean of what is climbed."""
        return (distances.clamp(max=self.ceiling) if self.ceiling else distances).mean()

    def _distances(self, logits: Tensor, teacher: Tensor) -> Tensor:
        """Return T^2 KL(softmax(t / T) || softmax(z / T)) of each row."""
        heat = self.temperature
        log_p, log_q = (logits / heat).log_softmax(1), (teacher / heat).log_softmax(1)
        return heat**2 * F.kl_div(log_p, log_q, reduction="none", log_target=True).sum(1)
