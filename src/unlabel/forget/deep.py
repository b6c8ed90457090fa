"""The mode in which the bottoms forget too: late layers drawn anew and taught by the old model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from unlabel.forget.method import METHODS, Data, Method, Mode, Tells
from unlabel.forget.work import Work
from unlabel.models import embedding_width
from unlabel.party import Learner, OptimiserSettings, Stream
from unlabel.party.optimiser import expect, one_of
from unlabel.train import batch_count


@METHODS.register("deep")
@dataclass(frozen=True)
class Deep(Method):
    """Draw the late layers of every bottom and the top anew; distil what the old model knew.

    With q(x) the original model's output with the forgotten labels masked and the rest
    renormalised, p the whole model and p_k a throw-away linear head on party k's embedding alone,
    every step descends over a batch of the parties' own training rows

        KL(q || p) + heads x sum over parties of KL(q || p_k)

    No labels are used. Layers drawn anew have never seen the forgotten label; the early ones that
    stay hold features that any label shares. It costs a few epochs of training, and it names the
    forgotten rows by leaving them out (`rows=retained`); with `rows=all` it does not, and forgets
    less, since q on a forgotten row still tells it from the others.

    renew         share of a bottom's weights that is drawn anew, the last layers first
    epochs        passes over the rows
    batch         rows a step; 0 is the batch of the training
    lr            highest rate; it rises over a tenth of the steps and falls to zero along a line
    heads         weight of the heads; they bring accuracy back sooner
    rows          retained: without the forgotten rows; all: with them
    weight_decay  of SGD
    """

    remedy: ClassVar[str] = (
        "Layers that were drawn anew need more steps on so few rows: give it more epochs "
        "(--set epochs=20)."
    )
    about: ClassVar[str] = "late layers drawn anew and distilled: the bottoms forget too"
    discloses: ClassVar[str] = "the forgotten rows, by leaving them out (rows=all does not)"

    renew: float = 0.93
    epochs: int = 4
    batch: int = 0
    lr: float = 0.03
    heads: float = 0.5
    rows: Literal["retained", "all"] = "retained"
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        one_of("rows", self.rows, ("retained", "all"))
        expect("renew", self.renew, 0 <= self.renew <= 1, "a share from 0 to 1")
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("heads", self.heads, self.heads >= 0, "0 or more")

    def needs(self) -> Data:
        """Return the rows it distils on."""
        return self.rows

    def tells(self) -> Tells:
        """Return that rows are asked for as in training, the forgotten ones or not."""
        rows = "retained" if self.rows == "retained" else "retained forgotten"
        return Tells.of(rows, rows)

    def mode(self) -> Mode:
        """Return that the bottoms forget, and that partners can tell what."""
        return "deep"

    def sweep(self) -> tuple[Method, ...]:
        """Return lower and higher rates."""
        return (self, *(replace(self, lr=lr) for lr in (0.01, 0.06, 0.1)))

    def run(self, work: Work) -> None:
        """Ask the old model once, renew, then distil."""
        active = work.active
        rows = work.retained
        if self.rows == "all":
            rows = torch.cat([rows, work.rows]).sort().values
        targets = torch.zeros(len(active.labels), work.count, device=active.device)
        targets[rows] = work.without(active.logits(rows))
        size = min(self.batch or work.batch, len(rows))
        steps = self.epochs * batch_count(rows, size)
        settings = OptimiserSettings(
            lr=self.lr,
            schedule="linear",
            warmup=0.1,
            nesterov=True,
            weight_decay=self.weight_decay,
        )
        work.tune(settings, settings, steps=steps, renew=self.renew)
        active.top.renew(1.0)
        # Known without asking: a message for one row might ask for a forgotten one alone.
        own = active.own
        widths = [embedding_width(own.module, own.tables["main"].shape)] if own else []
        heads = Learner(
            nn.ModuleList(nn.Linear(width, work.count) for width in [*widths, *active.widths]),
            settings,
            stream=Stream(work.seed, "heads"),
            place=active.top.place,
        )
        heads.steps = steps

        def objective(batch: Tensor) -> _Distil:
            if work.steps:  # the heads take the step before, which left them its gradients
                heads.descend(work.steps - 1)
            return _Distil(work, heads, targets[batch], self.heads)

        work.learn(rows, objective, epochs=self.epochs, batch=self.batch)


class _Distil:
    """KL(q || p), up to the entropy of q, of the whole model and of every party alone."""

    def __init__(self, work: Work, heads: Learner, target: Tensor, weight: float) -> None:
        self._work, self._heads, self._target, self._weight = work, heads, target, weight

    def __call__(self, embeddings: list[Tensor]) -> Tensor:
        """Return the loss of the embeddings of a batch."""
        loss = self._gap(self._work.active.apply_top(embeddings))
        if self._weight:
            for head, values in zip(self._heads.module.children(), embeddings, strict=True):
                with self._heads.place.autocast():
                    logits = head(values).float()
                loss = loss + self._weight * self._gap(logits)
        return loss

    def _gap(self, logits: Tensor) -> Tensor:
        return -(self._target * logits.log_softmax(1)).sum(1).mean()
