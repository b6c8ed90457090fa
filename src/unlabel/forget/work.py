"""What a method of forgetting works with: the request, the samples, and verbs for all parties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import OptimiserSettings, TrainSettings
from unlabel.errors import ForgetDiverged, ForgetError
from unlabel.forget.few_shot import FewShotSamples, draw_samples
from unlabel.forget.public_set import PublicSet
from unlabel.forget.request import Request
from unlabel.party import ActiveParty, Snapshot
from unlabel.progress import Watch, watch_nothing
from unlabel.train import Forgotten, batch_count, batches
from unlabel.train.label_record import UNKNOWN
from unlabel.wire import BeginRequest, Mode, Rollback, Rule, TransformWeights

if TYPE_CHECKING:
    from unlabel.config import ForgetSettings
    from unlabel.forget.method import Method

#: What a joint step descends: a loss of the embeddings of all parties.
Objective = Callable[[list[Tensor]], Tensor]
#: Retained few-shot samples that may change their label before a run counts as collapsed.
COLLAPSE = 0.5
LOWER = "lower the method's rates or strengths."


@dataclass(eq=False, repr=False)
class Work:
    """One request against the run it is made in, with verbs for all parties.

    active     the active party, with all others behind its transport
    request    what is to be forgotten
    method     that carries it out, and its `name`
    few_shot   public samples a forgotten label; `retained` those a retained one
    settings   how the request is carried out
    train      training rows; `test` rows to measure by
    names      of the labels
    earlier    what was forgotten before this request
    public     all public samples
    training   how the model was trained; `batch` and `seed` are its
    kept_epoch  that early stopping returned to; 0 where the training went to its end
    watch      called with the step, the most steps and a note, at every look
    steps      taken since the last `use_optimisers`; `total` counts all
    """

    active: ActiveParty
    request: Request
    method: Method
    name: str
    few_shot: int
    retained: int
    settings: ForgetSettings
    train: Tensor
    test: Tensor
    names: tuple[str, ...]
    earlier: Forgotten
    public: PublicSet
    training: TrainSettings
    kept_epoch: int = 0
    watch: Watch = watch_nothing
    steps: int = field(default=0, init=False)
    total: int = field(default=0, init=False)

    def __repr__(self) -> str:
        about = f"{len(self.request.rows)} people" if self.request.rows else self.request.names
        return f"<Work of {self.name} on {about}, with public samples from {self.public.source}>"

    @property
    def labels(self) -> tuple[int, ...]:
        """Numbers of the labels to forget now; none where the request is about people."""
        return self.request.labels

    @property
    def forgotten_labels(self) -> tuple[int, ...]:
        """Numbers of all labels that are forgotten afterwards, those of earlier requests too."""
        return tuple(sorted({*self.request.labels, *self.earlier.labels}))

    @property
    def label_count(self) -> int:
        """How many labels there are."""
        return len(self.names)

    @property
    def batch(self) -> int:
        """Rows a step in training."""
        return self.training.batch

    @property
    def seed(self) -> int:
        """What names every random draw."""
        return self.training.seed

    @cached_property
    def samples(self) -> FewShotSamples:
        """The few-shot samples; the parties are asked about them at the first access."""
        if not self.method.draws_samples:
            none = torch.empty(0, dtype=torch.int64, device=self.active.device)
            return FewShotSamples(self.public.table, none, none, none.float(), 0)
        return draw_samples(self)

    @property
    def forgotten_rows(self) -> Tensor:
        """Training rows of what is forgotten; only methods that disclose them ask for them."""
        return self._training_rows[0]

    @property
    def retained_rows(self) -> Tensor:
        """Training rows of everything else."""
        return self._training_rows[1]

    @property
    def training_rows(self) -> Tensor:
        """The rows of both kinds, in order; without those of earlier requests."""
        return torch.cat(self._training_rows).sort().values

    @cached_property
    def _training_rows(self) -> tuple[Tensor, Tensor]:
        train, request, earlier = self.train.to(self.active.device), self.request, self.earlier
        labels = self.active.labels[train]

        def among(values: Tensor, numbers: Sequence[int]) -> Tensor:
            return torch.isin(values, torch.tensor(numbers, device=values.device))

        chosen = among(train, request.rows) if request.rows else among(labels, request.labels)
        past = among(labels, (UNKNOWN, *earlier.labels)) | among(train, earlier.rows)
        return train[chosen & ~past], train[~chosen & ~past]

    def by_row(self, rows: Tensor, values: Tensor) -> Tensor:
        """Return values [n, C] of rows in a table of all rows, 0 elsewhere."""
        table = torch.zeros(len(self.active.labels), self.label_count, device=self.active.device)
        table[rows] = values
        return table

    def use_optimisers(
        self,
        top: OptimiserSettings,
        bottoms: OptimiserSettings | None = None,
        *,
        steps: int = 0,
        reinitialise: float = 0.0,
    ) -> None:
        """Have all models use a fresh optimiser; with the first call every party opens the request.

        bottoms       settings of their optimisers; those of the top by default
        reinitialise  share of each bottom's weights, from its end, that is drawn anew before
        """
        bottoms = bottoms or top
        self.steps = 0
        self.active.monitor.restart()
        for half, learner in self.active.learners().items():
            learner.use_optimiser(top if half == "top" else bottoms, steps)
            if reinitialise and half == "bottom":
                learner.reinitialise(reinitialise)
        self.active.transport.ask(
            BeginRequest(
                0,
                request=self.request.id,
                steps=steps,
                lr=float(bottoms.lr),
                schedule=bottoms.schedule,
                warmup=float(bottoms.warmup),
                momentum=float(bottoms.momentum),
                nesterov="yes" if bottoms.nesterov else "no",
                weight_decay=float(bottoms.weight_decay),
                reinitialise=float(reinitialise),
                optimiser=bottoms.optimiser,
            )
        )

    def transform_weights(
        self,
        rule: Rule,
        *,
        sum_name: str = "",
        reference: str = "",
        threshold: float = 0.0,
        strength: float = 0.0,
        top: bool = True,
    ) -> None:
        """Have all parties change their weights by a rule, the top too unless `top` is false."""
        self.active.monitor.restart()
        for half, learner in self.active.learners().items():
            if top or half != "top":
                learner.transform_weights(rule, sum_name, reference, threshold, strength)
        self.active.transport.ask(
            TransformWeights(
                0, self.request.id, rule, sum_name, reference, float(threshold), float(strength)
            )
        )

    def learn(
        self,
        rows: Tensor,
        objective: Callable[[Tensor], Objective],
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

    def train_anew(self, rows: Tensor, epochs: int, *, stop: int = 0, top: bool = True) -> None:
        """Train all parties on rows as the run was trained, from where it began.

        stop  after this epoch, at the rates of a training that goes on; 0 is the end
        top   whether the top begins again too; else it has begun anew already
        """
        last = stop or epochs
        a_pass = batch_count(rows, self.batch)
        self.use_optimisers(self.training, steps=epochs * a_pass)
        self.transform_weights("begin", top=top)
        self.active.prepare(rows, epochs * a_pass)
        for epoch in range(1, last + 1):
            for batch in batches(rows, self.batch, seed=self.seed, epoch=epoch):
                loss = self.move(batch, self.training_loss(batch), mode="train", table="main")
            self.expect_alive(loss=loss.item())
            self.watch(epoch, last, f"loss {loss.item():.3f}")

    def cross_entropy(self, labels: Tensor) -> Callable[[Tensor], Objective]:
        """Return the objective CE(F(H), y) of a batch of rows, with these labels a row."""
        return lambda rows: lambda e: F.cross_entropy(self.active.apply_top(e), labels[rows])

    def training_loss(self, rows: Tensor) -> Objective:
        """Return the objective of training in the step that begins, mixed or balanced as it was."""
        active, step, labels = self.active, self.steps, self.active.labels[rows]
        return lambda e: active.training_loss.loss(active.apply_top, e, labels, step)[0]

    def move(self, rows: Tensor, objective: Objective, *, mode: Mode, table: str) -> Tensor:
        """Take one joint step."""
        if not len(rows):
            drawn = "; add `public` to the rows of its `disclosure`, else no samples are drawn"
            reason = "" if self.method.draws_samples else drawn
            raise ForgetError(f"Method '{self.name}' takes a step on no rows{reason}.")
        return self.active.move(rows, self.next_step(), objective, mode=mode, table=table)

    def move_samples(self, objective: Objective) -> Tensor:
        """Take one joint step on all few-shot samples, normalisation frozen."""
        rows, places = self.samples.sent()
        return self.move(
            rows,
            lambda embeddings: objective([values[places] for values in embeddings]),
            mode="frozen",
            table=self.samples.table,
        )

    def undo(self, saved: Snapshot) -> None:
        """Return every party to its state from before the request."""
        self.active.versions.load_snapshot(saved)
        self.active.transport.ask(Rollback(0, self.request.id))

    def next_step(self) -> int:
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
                f"Forgetting diverged after step {self.steps} and was rolled back; {LOWER}"
            )
        if agreement < least and not self.settings.allow_collapse:
            raise ForgetError(
                f"Forgetting destroys the rest: after step {self.steps} only {agreement:.0%} of "
                f"the retained public samples keep their label; it was rolled back. "
                f"{self.method.remedy}",
                code="collapsed",
            )

    def retained_softmax(self, logits: Tensor) -> Tensor:
        """Return the distribution with the forgotten labels masked and the rest renormalised."""
        masked = logits.clone()
        masked[:, list(self.forgotten_labels)] = -torch.inf
        return masked.softmax(1)


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Return KL(target || softmax(logits)), the mean over rows, up to the target's entropy."""
    return -(target * logits.log_softmax(1)).sum(1).mean()


def adam(lr: float) -> OptimiserSettings:
    """Return Adam at one rate over all steps."""
    return OptimiserSettings(optimiser="adam", lr=lr, weight_decay=0.0, schedule="constant")


def sgd(lr: float, momentum: float, weight_decay: float = 0.0) -> OptimiserSettings:
    """Return SGD at one rate over all steps."""
    return OptimiserSettings(
        lr=lr, momentum=momentum, weight_decay=weight_decay, schedule="constant"
    )


#: Of models that are not to move.
STILL = sgd(0.0, 0.0)
