"""Forgetting in the bottoms too: late layers drawn anew, all trained on without the label."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, expect, one_of
from unlabel.config.forget import FEW_SHOT, RETAINED
from unlabel.forget.method import METHODS, Data, Disclosure, Method, Preset
from unlabel.forget.work import Objective, Work, divergence
from unlabel.models import embedding_width
from unlabel.party import Learner, Stream
from unlabel.train import batch_count
from unlabel.train.epochs import STEPS, epochs_of

#: A model of the parts of a row: embeddings in, logits out.
Apply = Callable[[list[Tensor]], Tensor]
#: Where nothing else is said it takes this share of the training's epochs.
SHARE = 0.25
#: Temperature of the contrast between labels.
CONTRAST = 0.1


@METHODS.register("deep")
@dataclass(frozen=True)
class Deep(Method):
    """Draw late layers and top anew, and teach all the retained rows in fewer epochs.

    With y the labels, q(x) the original model's output with the forgotten labels masked and the
    rest renormalised, p the whole model and p_k a throw-away linear head on party k's embedding
    alone, every step descends over a batch of the parties' own training rows

        L(p) + sum over parties of (heads x L(p_k) + contrast x C(z_k)),
        L(p) = (1 - teacher) x CE(y, p) + teacher x KL(q || p)

    with C the supervised contrast of party k's embeddings z_k, and z_k normalised to length 1:

        C(z) = mean over i of -1 / |P(i)| x sum over j in P(i) of
                   log exp(z_i z_j / 0.1) / sum over k != i of exp(z_i z_k / 0.1)

    P(i) are the other rows of i's label in the batch. CE is as in the training, mixed or balanced
    as it was. Layers are drawn anew whole, from the last one back, until they hold the share
    `reinitialise`: in a ResNet18 its first layers stay, with 7 % of the weights at most, while of
    a small network, where each layer holds more, none may. What stays met the label, and is
    trained on without it: it brings accuracy back sooner and carries some of the label over. Only
    with `reinitialise` 1 and no teacher nothing that ever met the label takes part. Leaving the
    forgotten rows out names them.

    reinitialise  share of a bottom's weights that is drawn anew, the last layers first; with 1 all
                  begin as the training began, with scales fitted to the rows that stay
    teacher       share of the old model's answers in what is taught, the others are true labels
    epochs        passes over the rows; 0 is a quarter of the training's, but at least 600 steps,
                  and never more than the training's
    batch         rows a step; 0 is the batch of the training
    lr            highest rate of SGD; 0 is the optimiser of the training, its rate included
    warmup        share of the steps in which the rate rises; then it falls to zero along a line
    heads         weight of the heads; they bring accuracy back sooner
    contrast      weight of pulling the rows of a label together in every party's embeddings; where
                  the old model alone teaches it is left out
    rows          retained: without the forgotten rows; all: with them, and the old model alone
                  teaches, which forgets less, since q on a forgotten row tells it from the others
    weight_decay  where `lr` is given
    """

    remedy = (
        "It had too few steps, or too low a rate, to learn the rest anew: leave `epochs` and `lr` "
        "out, which follow the training then, or use --method retrain."
    )
    about = (
        "late layers drawn anew, all trained without the label for a shorter time: the bottoms "
        "forget too"
    )
    tells_partners = "the forgotten rows, by leaving them out (rows=all does not)"
    aim = "bottoms"

    reinitialise: float = 0.93
    teacher: float = 0.0
    epochs: int = 0
    batch: int = 0
    lr: float = 0.0
    warmup: float = 0.2
    heads: float = 0.5
    contrast: float = 0.1
    rows: Literal["retained", "all"] = "retained"
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        one_of("rows", self.rows, ("retained", "all"))
        self.expect_at_least(epochs=0, lr=0, heads=0, contrast=0)
        for name in ("reinitialise", "teacher"):
            share = getattr(self, name)
            expect(name, share, 0 <= share <= 1, "a share from 0 to 1")

    @property
    def needs(self) -> Data:
        """The rows it teaches."""
        return self.rows

    @property
    def disclosure(self) -> Disclosure:
        """Rows are asked for as in training, the forgotten ones or not."""
        rows = "retained" if self.rows == "retained" else "retained forgotten"
        if self.reinitialise < 1:
            return Disclosure.of(rows)
        return Disclosure.of(rows, messages="BeginRequest TransformWeights Prepare")

    def presets(self) -> dict[str, Preset]:
        """Return `distilled`, the form of 0.9: taught by the old model, for four epochs."""
        first = Deep(teacher=1.0, epochs=4, lr=0.03, warmup=0.1, contrast=0.0)
        return {"distilled": Preset(first, FEW_SHOT, RETAINED)}

    def run(self, work: Work) -> None:
        """Ask the old model where it teaches, draw anew, then train."""
        active = work.active
        rows = work.retained_rows if self.rows == "retained" else work.training_rows
        share = self.teacher if self.rows == "retained" else 1.0
        answers = Tensor()
        if share:
            answers = work.by_row(rows, work.retained_softmax(active.logits(rows)))
        a_pass = batch_count(rows, min(self.batch or work.batch, len(rows)))
        epochs = self.epochs or _epochs(epochs_of(work.training, len(rows)), a_pass)
        settings, steps = self._optimiser(work), epochs * a_pass
        self._begin(work, rows, settings, steps)
        heads = _Heads(work, settings, steps)

        def objective(batch: Tensor) -> Objective:
            step, labels = work.steps, active.labels[batch]
            heads.descend(step)

            def taught(apply: Apply, parts: list[Tensor]) -> Tensor:
                loss = torch.zeros((), device=active.device)
                if share < 1:
                    plain, _ = active.training_loss.loss(apply, parts, labels, step)
                    loss = loss + (1 - share) * plain
                if share:
                    loss = loss + share * divergence(answers[batch], apply(parts))
                return loss

            def descended(embeddings: list[Tensor]) -> Tensor:
                loss = taught(active.apply_top, embeddings)
                for head, values in zip(heads.each(), embeddings, strict=True):
                    if self.heads:
                        loss = loss + self.heads * taught(head, [values])
                    if self.contrast and share < 1:
                        loss = loss + self.contrast * contrasted(values, labels)
                return loss

            return descended

        work.learn(rows, objective, epochs=epochs, batch=self.batch)

    def _optimiser(self, work: Work) -> OptimiserSettings:
        names = [field.name for field in fields(OptimiserSettings)]
        chosen = OptimiserSettings(**{name: getattr(work.training, name) for name in names})
        if self.lr:
            chosen = OptimiserSettings(lr=self.lr, nesterov=True, weight_decay=self.weight_decay)
        return replace(chosen, schedule="linear", warmup=self.warmup)

    def _begin(self, work: Work, rows: Tensor, settings: OptimiserSettings, steps: int) -> None:
        """Draw what is to be drawn anew."""
        if self.reinitialise < 1:
            work.use_optimisers(settings, steps=steps, reinitialise=self.reinitialise)
            work.active.top.reinitialise(1.0)
            return
        work.use_optimisers(settings, steps=steps)
        work.transform_weights("begin")
        work.active.prepare(rows, steps)


class _Heads:
    """A linear head on each party's embedding alone, which is thrown away in the end."""

    def __init__(self, work: Work, settings: OptimiserSettings, steps: int) -> None:
        # Widths are known without asking: a message for one row might ask for a forgotten one.
        active, bottom = work.active, work.active.bottom
        widths = [embedding_width(bottom.module, bottom.tables["main"].shape)] if bottom else []
        stream, self._place = Stream(work.seed, "heads"), active.top.place
        stream.start("init", torch.device("cpu"))
        layers = [nn.Linear(width, work.label_count) for width in [*widths, *active.widths]]
        self._learner = Learner(nn.ModuleList(layers), settings, stream=stream, place=self._place)
        self._learner.steps = steps

    def each(self) -> list[Apply]:
        """Return the heads as functions of one party's embeddings."""
        return [partial(self._logits, head) for head in self._learner.module.children()]

    def _logits(self, head: nn.Module, parts: list[Tensor]) -> Tensor:
        with self._place.autocast():
            logits: Tensor = head(parts[0])
        return logits.float()

    def descend(self, step: int) -> None:
        """Take the step before this one, which left them its gradients."""
        if step:
            self._learner.descend(step - 1)


def _epochs(training: int, a_pass: int) -> int:
    """Return a quarter of a training's epochs, but at least 600 steps, and never more than it had.

    >>> _epochs(24, 176), _epochs(60, 7), _epochs(20, 57)
    (6, 60, 11)
    """
    return min(training, max(math.ceil(SHARE * training), math.ceil(STEPS / a_pass)))


def contrasted(values: Tensor, labels: Tensor) -> Tensor:
    """Return C(z) of the embeddings z of a batch, as `Deep` has it; rows without P(i) count 0."""
    z = F.normalize(values.float(), dim=1)
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    near = (z @ z.T / CONTRAST).masked_fill(~others, -torch.inf).log_softmax(1)
    same = (labels[:, None] == labels[None]) & others
    return -(near.masked_fill(~same, 0).sum(1) / same.sum(1).clamp_min(1)).mean()
