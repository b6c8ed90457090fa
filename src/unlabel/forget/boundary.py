"""Boundary unlearning (Chen et al., CVPR 2023): shrink the label's region, or expand another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, steady
from unlabel.party import DRAFT, Learner, Stream
from unlabel.party.optimiser import OptimiserSettings, expect, one_of


@METHODS.register("boundary")
@dataclass(frozen=True)
class Boundary(Method):
    """Give every forgotten row to the nearest other label, or all to a label that is then dropped.

    shrink  x' = x + size sign(d CE(F(x), y) / d x) against the original model, as in prediction;
            the nearest wrong label is the likeliest for x' among those that stay; then
            CE(F(x), nearest) is descended over the forgotten rows
    expand  an output is added, CE(F(x), added) is descended over the forgotten rows, and the
            output is dropped

    The input's gradient needs d CE / d embedding of every forgotten row at every party, which
    shows it their labels by their clusters.

    variant       shrink or expand
    size          step of x', in units of the range of a pixel or of a column's deviation
    epochs        passes over the forgotten rows
    lr            rate of SGD
    batch         rows a step
    momentum      of SGD
    weight_decay  of SGD
    """

    about: ClassVar[str] = "every row of the label moved over the nearest boundary"
    discloses: ClassVar[str] = "the forgotten rows, in messages of their own, and their gradients"

    variant: Literal["shrink", "expand"] = "shrink"
    size: float = 0.1
    epochs: int = 10
    lr: float = 1e-5
    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        one_of("variant", self.variant, ("shrink", "expand"))
        expect("size", self.size, self.size >= 0, "0 or more")
        expect("epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("lr", self.lr, self.lr >= 0, "0 or more")
        expect("batch", self.batch, self.batch >= 1, "at least 1")

    def needs(self) -> Data:
        """Return that the label's own rows are enough."""
        return "forgotten"

    def tells(self) -> Tells:
        """Return that the forgotten rows are asked for by themselves."""
        if self.variant == "expand":
            return Tells.of("forgotten", "forgotten", alone=True)
        return Tells.of("forgotten drafts", "forgotten drafts", "Tune Draft", alone=True)

    def sweep(self) -> tuple[Method, ...]:
        """Return higher rates: at the published one little moves."""
        return (self, *(replace(self, lr=lr) for lr in (1e-4, 1e-3, 1e-2)))

    def control(self) -> Method | None:
        """Return the same run at rate 0: batches of one label move normalisation by themselves."""
        return replace(self, lr=0.0, weight_decay=0.0)

    def is_control(self) -> bool:
        """Return whether nothing is learned at this rate."""
        return self.lr == 0

    def run(self, work: Work) -> None:
        """Find the nearest labels and learn them, or learn the added one."""
        settings = steady(self.lr, self.momentum, self.weight_decay)
        if self.variant == "expand":
            self._expand(work, settings)
            return
        work.tune(steady(0.0, 0.0), steady(0.0, 0.0))
        labels = work.active.labels.clone()
        for piece in work.rows.split(work.active.most_rows):
            labels[piece] = self._nearest(work, piece)
        work.tune(settings, settings)
        objective = work.cross_entropy(labels)
        work.learn(work.rows, objective, epochs=self.epochs, batch=self.batch)

    def _nearest(self, work: Work, rows: Tensor) -> Tensor:
        """Return the nearest label that stays, row by row."""
        target = work.active.labels[rows]
        drafts = work.draft(rows, rule="sign", rate=self.size)
        for at, y in zip(drafts.split(self.batch), target.split(self.batch), strict=True):

            def climb(embeddings: list[Tensor], y: Tensor = y) -> Tensor:
                return -F.cross_entropy(work.active.apply_top(embeddings), y)

            work.redraft(at, climb)
        return work.without(work.active.logits(drafts, table=DRAFT)).argmax(1)

    def _expand(self, work: Work, settings: OptimiserSettings) -> None:
        """Add an output on what the last layer reads, and drop it at the end."""
        active = work.active
        last = active.last_layer()
        if last is None:
            raise ForgetError("Boundary expanding needs a top model that ends in a linear layer.")
        work.tune(settings, settings)
        stream = Stream(work.seed, "added")
        stream.start("init", active.device)
        added = Learner(
            nn.Linear(last.in_features, 1), settings, stream=stream, place=active.top.place
        )
        read: list[Tensor] = []
        hook = last.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))

        def objective(rows: Tensor) -> _Added:
            # What the added output's last step left is taken here, before the next begins.
            added.descend(0)
            return _Added(work, added, read, len(rows))

        try:
            work.learn(work.rows, objective, epochs=self.epochs, batch=self.batch)
        finally:
            hook.remove()


class _Added:
    """CE(F(x), added): the label after the last is the right one."""

    def __init__(self, work: Work, added: Learner, read: list[Tensor], size: int) -> None:
        self._work, self._added, self._read, self._size = work, added, read, size

    def __call__(self, embeddings: list[Tensor]) -> Tensor:
        """Return the loss of the embeddings of a batch."""
        self._read.clear()
        logits = self._work.active.apply_top(embeddings)
        with self._added.place.autocast():
            extra = self._added.module(self._read[-1]).float()
        target = torch.full((self._size,), self._work.count, device=logits.device)
        return F.cross_entropy(torch.cat([logits, extra], 1), target)
