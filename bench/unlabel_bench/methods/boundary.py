"""Boundary unlearning (Chen et al., CVPR 2023): shrink the label's region, or expand another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, one_of
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Objective, Work, sgd
from unlabel.party import Learner, Stream
from unlabel.party.bottom import SYNTHETIC
from unlabel_bench.shaping import make_inputs, move_inputs


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

    about = "every row of the label moved over the nearest boundary"
    tells_partners = "the forgotten rows, in messages of their own, and their gradients"
    needs = "forgotten"
    rates = ("lr",)
    drifts = True

    variant: Literal["shrink", "expand"] = "shrink"
    size: float = 0.1
    epochs: int = 10
    lr: float = 1e-5
    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        one_of("variant", self.variant, ("shrink", "expand"))
        self.expect_at_least(size=0, epochs=1, lr=0, batch=1)

    @property
    def disclosure(self) -> Disclosure:
        """The forgotten rows are asked for by themselves."""
        if self.variant == "expand":
            return Disclosure.of("forgotten", alone=True)
        rows = "forgotten synthetic"
        return Disclosure.of(rows, messages="BeginRequest SyntheticInputs", alone=True)

    def run(self, work: Work) -> None:
        """Find the nearest labels and learn them, or learn the added one."""
        settings = sgd(self.lr, self.momentum, self.weight_decay)
        if self.variant == "expand":
            self._expand(work, settings)
            return
        work.use_optimisers(STILL)
        labels = work.active.labels.clone()
        for piece in work.forgotten_rows.split(work.active.most_rows):
            labels[piece] = self._nearest(work, piece)
        work.use_optimisers(settings)
        self._learn(work, work.cross_entropy(labels))

    def _nearest(self, work: Work, rows: Tensor) -> Tensor:
        """Return the nearest label that stays, row by row."""
        target = work.active.labels[rows]
        synthetic = make_inputs(work, rows, rule="sign", rate=self.size)
        for at, y in zip(synthetic.split(self.batch), target.split(self.batch), strict=True):

            def climb(embeddings: list[Tensor], y: Tensor = y) -> Tensor:
                return -F.cross_entropy(work.active.apply_top(embeddings), y)

            move_inputs(work, at, climb)
        return work.retained_softmax(work.active.logits(synthetic, table=SYNTHETIC)).argmax(1)

    def _expand(self, work: Work, settings: OptimiserSettings) -> None:
        """Add an output on what the last layer reads, and drop it at the end."""
        active = work.active
        last = active.last_layer()
        if last is None:
            raise ForgetError("Boundary expanding needs a top model that ends in a linear layer.")
        work.use_optimisers(settings)
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
            self._learn(work, objective)
        finally:
            hook.remove()

    def _learn(self, work: Work, objective: Callable[[Tensor], Objective]) -> None:
        work.learn(work.forgotten_rows, objective, epochs=self.epochs, batch=self.batch)


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
        target = torch.full((self._size,), self._work.label_count, device=logits.device)
        return F.cross_entropy(torch.cat([logits, extra], 1), target)
