"""Forgetting in the bottoms too: late layers drawn anew and taught by the old model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from unlabel.config import OptimiserSettings, expect, one_of
from unlabel.forget.method import METHODS, Data, Disclosure, Method
from unlabel.forget.work import Objective, Work, divergence
from unlabel.models import embedding_width
from unlabel.party import Learner, Stream
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
    stay hold features that any label shares. Leaving the forgotten rows out names them; with
    `rows=all` it forgets less, since q on a forgotten row still tells it from the others.

    reinitialise  share of a bottom's weights that is drawn anew, the last layers first
    epochs        passes over the rows
    batch         rows a step; 0 is the batch of the training
    lr            highest rate; it rises over a tenth of the steps and falls to zero along a line
    heads         weight of the heads; they bring accuracy back sooner
    rows          retained: without the forgotten rows; all: with them
    weight_decay  of SGD
    """

    remedy = (
        "Layers that were drawn anew need more steps on so few rows: give it more epochs "
        "(--set epochs=20)."
    )
    about = "late layers drawn anew and distilled: the bottoms forget too"
    tells_partners = "the forgotten rows, by leaving them out (rows=all does not)"
    aim = "bottoms"

    reinitialise: float = 0.93
    epochs: int = 4
    batch: int = 0
    lr: float = 0.03
    heads: float = 0.5
    rows: Literal["retained", "all"] = "retained"
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        one_of("rows", self.rows, ("retained", "all"))
        self.expect_at_least(epochs=1, lr=0, heads=0)
        share = self.reinitialise
        expect("reinitialise", share, 0 <= share <= 1, "a share from 0 to 1")

    @property
    def needs(self) -> Data:
        """The rows it distils on."""
        return self.rows

    @property
    def disclosure(self) -> Disclosure:
        """Rows are asked for as in training, the forgotten ones or not."""
        return Disclosure.of("retained" if self.rows == "retained" else "retained forgotten")

    def run(self, work: Work) -> None:
        """Ask the old model once, reinitialise, then distil."""
        active = work.active
        rows = work.retained_rows if self.rows == "retained" else work.training_rows
        targets = work.by_row(rows, work.retained_softmax(active.logits(rows)))
        size = min(self.batch or work.batch, len(rows))
        steps = self.epochs * batch_count(rows, size)
        settings = OptimiserSettings(
            lr=self.lr, schedule="linear", warmup=0.1, nesterov=True, weight_decay=self.weight_decay
        )
        work.use_optimisers(settings, steps=steps, reinitialise=self.reinitialise)
        active.top.reinitialise(1.0)
        # Known without asking: a message for one row might ask for a forgotten one alone.
        bottom = active.bottom
        widths = [embedding_width(bottom.module, bottom.tables["main"].shape)] if bottom else []
        layers = [nn.Linear(width, work.label_count) for width in [*widths, *active.widths]]
        stream, place = Stream(work.seed, "heads"), active.top.place
        heads = Learner(nn.ModuleList(layers), settings, stream=stream, place=place)
        heads.steps = steps

        def objective(batch: Tensor) -> Objective:
            if work.steps:  # the heads take the step before, which left them its gradients
                heads.descend(work.steps - 1)
            target = targets[batch]

            def distil(embeddings: list[Tensor]) -> Tensor:
                loss = divergence(target, active.apply_top(embeddings))
                if self.heads:
                    for head, values in zip(heads.module.children(), embeddings, strict=True):
                        with place.autocast():
                            logits = head(values).float()
                        loss = loss + self.heads * divergence(target, logits)
                return loss

            return distil

        work.learn(rows, objective, epochs=self.epochs, batch=self.batch)
