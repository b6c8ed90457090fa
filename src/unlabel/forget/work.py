"""What a method of forgetting works with: the request, the samples, and verbs for all parties."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.errors import CheckpointError, ForgetDiverged, ForgetError
from unlabel.forget.public import PublicSet, Shots
from unlabel.party import ActiveParty, OptimiserSettings
from unlabel.train import TrainSettings, batch_count, batches
from unlabel.wire import Draft, DraftRule, Mode, Rewrite, Rule, Tune

#: Retained few-shot samples that may change their label before a run counts as collapsed.
COLLAPSE = 0.5


def watch_nothing(step: int, steps: int, note: str) -> None:
    """Watch nothing."""


@dataclass
class Work:
    """One request being worked on by the active party, with all others behind the transport.

    active     the active party
    request    id of the request
    labels     numbers of the labels to forget now (or, for people, none)
    gone       numbers of all labels that must have no say afterwards, those forgotten earlier too
    shots      the few-shot samples
    public     all public samples
    rows       training rows of what is forgotten; only methods that disclose them ask for them
    retained   training rows of everything else
    among      for people: a random cover with their rows among it, all that is ever asked for
    apart      for people: another cover, of the same size and without them
    count      how many labels there are
    training   how the model was trained; `batch` and `seed` are its
    wreck      carry on where the rest is destroyed, to see how badly
    first      whether nothing was forgotten before
    key        256 secret bits in hexadecimal, from which the request's noise is drawn
    watch      told the step, the most steps and a figure, at every look
    steps      taken since the last `tune`; `total` counts all
    """

    active: ActiveParty
    request: str
    labels: tuple[int, ...]
    gone: tuple[int, ...]
    shots: Shots
    public: PublicSet
    rows: Tensor
    retained: Tensor
    among: Tensor
    apart: Tensor
    count: int
    key: str = field(default="00" * 32, repr=False)
    watch: Callable[[int, int, str], None] = watch_nothing
    training: TrainSettings = field(default_factory=TrainSettings)
    wreck: bool = False
    first: bool = True
    steps: int = field(default=0, init=False)
    total: int = field(default=0, init=False)

    @property
    def batch(self) -> int:
        """Rows a step in training."""
        return self.training.batch

    @property
    def seed(self) -> int:
        """What names every random draw."""
        return self.training.seed

    def tune(
        self,
        top: OptimiserSettings,
        bottoms: OptimiserSettings,
        *,
        steps: int = 0,
        renew: float = 0.0,
    ) -> None:
        """Have all models move with a fresh optimiser, after renewing the ends of the bottoms."""
        self.steps = 0
        self.active.lookout.renew()
        for half, learner in self.active.learners().items():
            learner.tune(top if half == "top" else bottoms, steps)
            if renew and half == "bottom":
                learner.renew(renew)
        self.active.transport.ask(
            Tune(
                0,
                request=self.request,
                steps=steps,
                lr=float(bottoms.lr),
                schedule=bottoms.schedule,
                warmup=float(bottoms.warmup),
                momentum=float(bottoms.momentum),
                nesterov="yes" if bottoms.nesterov else "no",
                weight_decay=float(bottoms.weight_decay),
                renew=float(renew),
                optimiser=bottoms.optimiser,
            )
        )

    def draft(
        self,
        rows: Tensor | None = None,
        *,
        noise: int = 0,
        rule: DraftRule,
        rate: float,
        decay: float = 0.0,
    ) -> Tensor:
        """Have every party make inputs of its own; return where they stand in table `draft`."""
        rows = torch.empty(0, dtype=torch.int64) if rows is None else rows
        own = self.active.own
        if own is not None:
            try:
                own.start_draft(rows, noise, rule=rule, rate=rate, decay=decay)
            except CheckpointError as error:
                raise ForgetError(f"The active party can make no inputs: {error}") from error
        self.active.transport.ask(
            Draft(0, self.request, rows, noise, rule, float(rate), float(decay))
        )
        first = len(self.active.labels)
        return torch.arange(first, first + (len(rows) or noise), device=self.active.device)

    def redraft(self, rows: Tensor, objective: Callable[[list[Tensor]], Tensor]) -> None:
        """Move drafts, and no weights, one step."""
        self.active.redraft(rows, self._count(), objective)

    def weigh(
        self,
        rows: Tensor,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        into: str,
        weight: float = 1.0,
    ) -> None:
        """Have all gather how much each of their weights matters to an objective."""
        self.active.weigh(rows, self._count(), objective, into=into, weight=float(weight))

    def rewrite(
        self,
        rule: Rule,
        *,
        by: str = "",
        against: str = "",
        threshold: float = 0.0,
        strength: float = 0.0,
        top: bool = True,
    ) -> None:
        """Have all change their weights at once, the top too unless told otherwise."""
        self.active.lookout.renew()
        for half, learner in self.active.learners().items():
            if top or half != "top":
                learner.rewrite(rule, by, against, threshold, strength)
        self.active.transport.ask(
            Rewrite(0, self.request, rule, by, against, float(threshold), float(strength))
        )

    def learn(
        self,
        rows: Tensor,
        objective: Callable[[Tensor], Callable[[list[Tensor]], Tensor]],
        *,
        epochs: int = 1,
        batch: int = 0,
        first: int = 0,
        table: str = "main",
        title: str = "epoch",
    ) -> None:
        """Pass over rows in random batches, with a joint step on the objective of each.

        batch  rows a step; 0 is the batch of the training
        first  number of the first epoch, which decides the order
        """
        size = min(batch or self.batch, len(rows))
        total, done = epochs * batch_count(rows, size), 0
        for epoch in range(first, first + epochs):
            # Epochs of their own numbers, so that no order of the training comes again.
            for some in batches(rows, size, seed=self.seed, epoch=-1 - epoch):
                loss = self.move(some, objective(some), mode="train", table=table)
                done += 1
                if done % 10 == 0 or done == total:
                    self.watch(done, total, f"{title} {epoch + 1}")
            self.expect_alive(loss=loss.item())

    def cross_entropy(self, labels: Tensor) -> Callable[[Tensor], Callable[..., Tensor]]:
        """Return the objective CE(F(H), y) of a batch of rows, with these labels a row."""
        return lambda rows: lambda e: F.cross_entropy(self.active.apply_top(e), labels[rows])

    def lesson(self, rows: Tensor) -> Callable[[list[Tensor]], Tensor]:
        """Return the objective of training in the step that begins, mixed or balanced as it was."""
        active, step, labels = self.active, self.steps, self.active.labels[rows]
        return lambda e: active.lesson.loss(active.apply_top, e, labels, step)[0]

    def move_shots(self, objective: Callable[[list[Tensor]], Tensor]) -> Tensor:
        """Take one joint step on all few-shot samples, normalisation frozen."""
        rows, places = self.shots.sent()
        return self.move(
            rows,
            lambda embeddings: objective([values[places] for values in embeddings]),
            mode="frozen",
            table=self.shots.table,
        )

    def move(
        self,
        rows: Tensor,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        mode: Mode,
        table: str,
    ) -> Tensor:
        """Take one joint step."""
        return self.active.move(rows, self._count(), objective, mode=mode, table=table)

    def _count(self) -> int:
        """Return the number of the step that begins."""
        self.steps += 1
        self.total += 1
        return self.steps - 1

    def expect_alive(
        self, agreement: float = 1.0, loss: float = 0.0, *, least: float = COLLAPSE
    ) -> None:
        """Raise where the loss is no number or too few retained samples keep their label."""
        if math.isnan(loss):
            raise ForgetDiverged(
                f"Forgetting diverged after step {self.steps} and was rolled back; lower the "
                f"method's rates or strengths."
            )
        if agreement < least and not self.wreck:
            raise ForgetError(
                f"Forgetting destroys the rest: after step {self.steps} only {agreement:.0%} of "
                f"the retained public samples keep their label; it was rolled back. Lower the "
                f"method's rates or strengths, or take fewer steps."
            )

    def without(self, logits: Tensor) -> Tensor:
        """Return the distribution with the forgotten labels masked and the rest renormalised."""
        masked = logits.clone()
        masked[:, list(self.gone)] = -torch.inf
        return masked.softmax(1)


def adam(lr: float) -> OptimiserSettings:
    """Return Adam at one rate over all steps."""
    return OptimiserSettings(optimiser="adam", lr=lr, weight_decay=0.0, schedule="constant")


def steady(lr: float, momentum: float, weight_decay: float = 0.0) -> OptimiserSettings:
    """Return SGD at one rate over all steps."""
    return OptimiserSettings(
        lr=lr, momentum=momentum, weight_decay=weight_decay, schedule="constant"
    )
