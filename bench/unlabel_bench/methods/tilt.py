"""Tilted reweighting (TRW, 2025): what a retrained model would say of forgotten rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Objective, Work, divergence, sgd


@METHODS.register("tilt")
@dataclass(frozen=True)
class Tilt(Method):
    """Train on with the forgotten rows given to the labels that resemble theirs.

    With p the original model's output, f the label of a forgotten row x, s a label that stays, w_s
    its weights in the last layer, centred over the labels and on their principal components:

        sim(s, f) = softmax over s of cos(w_s, w_f) / T
        q(s | x)  = p(s | x) exp(beta sim(s, f)) / Z,    0 for forgotten labels

        min KL(q(x) || p(x)) over the forgotten rows, CE(p(x), y) over the retained ones

    in batches of both kinds. A retrained model calls a forgotten row by the label it resembles;
    the tilt is the least change of p, by KL, that gives similar labels a certain mean share.

    The paper's text and code were not to be had: from its abstract and public reviews we know the
    zeroed label, the exponential tilt with beta = 10, and the cosine of last-layer weights after
    principal components, through a sharp softmax. How many components, T, the mix of the batches
    and the rates are our reading.

    beta          strength of the tilt; 0 is the renormalised output
    temperature   T
    components    principal components of the last layer's weights; 0 is all
    epochs        passes over all rows
    lr            rate of SGD
    batch         rows a step; 0 is the batch of the training
    momentum      of SGD
    weight_decay  of SGD
    """

    about = "the label's rows given to the labels that resemble it, the rest trained on"
    tells_partners = "the forgotten rows, by the size of their gradients"
    needs = "all"
    rates = ("lr",)
    shows_rows = True
    disclosure = Disclosure.of("forgotten retained")

    beta: float = 10.0
    temperature: float = 0.1
    components: int = 0
    epochs: int = 5
    lr: float = 0.01
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(beta=0, components=0, epochs=1, lr=0, batch=0)
        expect("temperature", self.temperature, self.temperature > 0, "above 0")

    def run(self, work: Work) -> None:
        """Ask the original once, tilt, then train."""
        active, every = work.active, work.training_rows
        last = active.last_layer()
        if last is None:
            raise ForgetError("Tilting needs a top model that ends in a linear layer.")
        stay = [n for n in range(work.label_count) if n not in work.forgotten_labels]
        alike = similarity(last.weight.detach().float(), stay, self.temperature, self.components)
        # All rows are asked for at once, so that no message is about the forgotten ones alone.
        logits, labels = active.logits(every), active.labels[every]
        target = F.one_hot(labels, work.label_count).float()
        leave = torch.isin(every, work.forgotten_rows)
        tilted = logits[leave].float() + self.beta * alike[:, labels[leave]].T
        target[leave] = work.retained_softmax(tilted)
        taught = work.by_row(every, target)
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))

        def objective(batch: Tensor) -> Objective:
            return lambda e: divergence(taught[batch], active.apply_top(e))

        work.learn(every, objective, epochs=self.epochs, batch=self.batch)


def similarity(weights: Tensor, stay: list[int], temperature: float, components: int) -> Tensor:
    """Return sim(s, f) of `tilt` in a table [C, C] of s and f; 0 where s does not stay.

    >>> alike = similarity(torch.tensor([[2.0, 0.0], [1.0, 0.0], [-3.0, 0.0]]), [1, 2], 1.0, 0)
    >>> [round(value, 4) for value in alike[:, 0].tolist()]  # 1 / (1 + exp(-2)), and the rest
    [0.0, 0.8808, 0.1192]
    """
    centred = weights - weights.mean(0)
    if components:
        axes = torch.linalg.svd(centred, full_matrices=False)[2][:components]
        centred = centred @ axes.T
    unit = F.normalize(centred, dim=1)
    table = torch.zeros(len(unit), len(unit), device=unit.device)
    table[stay] = (unit[stay] @ unit.T / temperature).softmax(0)
    return table
