"""COLA (Jeon et al., AAAI 2026): collapse the retained labels' embeddings, then align the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Objective, Work, sgd


@METHODS.register("collapse")
@dataclass(frozen=True)
class Collapse(Method):
    """Draw the rows of each retained label together in the embeddings, then train all on.

    With z_i the embeddings of all parties for row i, joined and divided by their norm, P(i) the
    other rows of i's label in the batch and tau the temperature, over the retained rows:

        collapse   mean over i of -1 / |P(i)| x sum over j in P(i) of
                       log( exp(z_i z_j / tau) / sum over k != i of exp(z_i z_k / tau) )
        align      CE(F(H), y)

    The first phase moves the bottoms alone, the second everything. Nothing holds the forgotten
    label's cluster, so that its rows fall in with those of the labels that stay.

    The paper's text and code were not to be had: from summaries we know the two phases, and that
    the first works on features. The loss on retained rows alone, its batch and every number here
    are our reading.

    collapse_epochs  passes over the retained rows that collapse
    collapse_lr      rate of SGD in them
    temperature      tau
    epochs           passes that align
    lr               rate of SGD in them
    batch            rows a step; 0 is the batch of the training
    momentum         of SGD
    weight_decay     of SGD
    """

    about = "the other labels' embeddings drawn together, then training goes on"
    tells_partners = "the forgotten rows, by leaving them out"
    needs = "retained"
    rates = ("collapse_lr", "lr")
    aim = "bottoms"
    disclosure = Disclosure.of("retained")

    collapse_epochs: int = 5
    collapse_lr: float = 0.03
    temperature: float = 0.1
    epochs: int = 5
    lr: float = 0.01
    batch: int = 0
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(collapse_epochs=0, collapse_lr=0, epochs=1, lr=0, batch=0)
        expect("temperature", self.temperature, self.temperature > 0, "above 0")

    def run(self, work: Work) -> None:
        """Collapse, then align."""
        rows, labels = work.retained_rows, work.active.labels

        def together(batch: Tensor) -> Objective:
            return lambda e: contrast(torch.cat(e, 1), labels[batch], self.temperature)

        if self.collapse_epochs:
            work.use_optimisers(STILL, sgd(self.collapse_lr, self.momentum, self.weight_decay))
            work.learn(
                rows, together, epochs=self.collapse_epochs, batch=self.batch, title="collapse"
            )
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))
        work.learn(
            rows,
            work.cross_entropy(labels),
            epochs=self.epochs,
            batch=self.batch,
            first=self.collapse_epochs,
            title="align",
        )


def contrast(values: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return the loss of `collapse` for a batch of embeddings [n, d]; a row without P(i) counts 0.

    >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> loss = contrast(z, torch.tensor([0, 0, 1, 1]), 1.0)
    >>> round(loss.item(), 4)  # log(1 + 2 / e)
    0.5514
    """
    z = F.normalize(values.float(), dim=1)
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    near = (z @ z.T / temperature).masked_fill(~others, -torch.inf).log_softmax(1)
    same = (labels[:, None] == labels[None]) & others
    return -(near.masked_fill(~same, 0).sum(1) / same.sum(1).clamp_min(1)).mean()
