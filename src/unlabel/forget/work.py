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

from unlabel.errors import CheckpointError, ForgetDiverged, ForgetError
from unlabel.forget.cover import draw_covers
from unlabel.forget.public import PublicSet, Shots, draw_shots
from unlabel.forget.request import Request
from unlabel.party import ActiveParty, OptimiserSettings, Snapshot
from unlabel.train import Forgotten, TrainSettings, batch_count, batches
from unlabel.wire import Draft, DraftRule, Mode, Rewrite, Rollback, Rule, Tune

if TYPE_CHECKING:
    from unlabel.forget.method import Method
    from unlabel.forget.settings import ForgetSettings

#: Called with how far a piece of work has come: the step, the most steps, and a note.
Watch = Callable[[int, int, str], None]

#: Retained few-shot samples that may change their label before a run counts as collapsed.
COLLAPSE = 0.5


def watch_nothing(step: int, steps: int, note: str) -> None:
    """Watch nothing."""


@dataclass(eq=False, repr=False)
class Work:
    """One request against the run it is made in, with verbs for all parties.

    active     the active party, with all others behind its transport
    request    what is to be forgotten
    method     that carries it out, and its `name`
    few_shot   public samples a forgotten label; `retained_shots` those a retained one
    settings   how the request is carried out
    train      training rows; `test` rows to measure by
    names      of the labels
    earlier    what was forgotten before this request
    public     all public samples
    training   how the model was trained; `batch` and `seed` are its
    watch      called with the step, the most steps and a note, at every look
    steps      taken since the last `tune`; `total` counts all
    """

    active: ActiveParty
    request: Request
    method: Method
    name: str
    few_shot: int
    retained_shots: int
    settings: ForgetSettings
    train: Tensor
    test: Tensor
    names: tuple[str, ...]
    earlier: Forgotten
    public: PublicSet
    training: TrainSettings
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
    def gone(self) -> tuple[int, ...]:
        """Numbers of all labels that must have no say afterwards, those of earlier requests too."""
        return tuple(sorted({*self.request.labels, *self.earlier.labels}))

    @property
    def count(self) -> int:
        """How many labels there are."""
        return len(self.names)

    @property
    def first(self) -> bool:
        """Whether nothing was forgotten before."""
        return not self.earlier.labels and not self.earlier.rows

    @property
    def key(self) -> str:
        """256 secret bits in hexadecimal, from which the request's noise is drawn."""
        return self.request.key

    @property
    def batch(self) -> int:
        """Rows a step in training."""
        return self.training.batch

    @property
    def seed(self) -> int:
        """What names every random draw."""
        return self.training.seed

    @cached_property
    def shots(self) -> Shots:
        """The few-shot samples; parties may be asked for them when they are first looked at."""
        if not self.method.draws():
            none = torch.empty(0, dtype=torch.int64, device=self.active.device)
            return Shots(self.public.table, none, none, none.float(), 0)
        return draw_shots(
            self.active,
            self.public,
            self.request.labels,
            self.earlier.labels,
            self.names,
            few_shot=self.few_shot,
            retained=self.retained_shots,
            robust=self.settings.robust,
            key=self.request.key,
            again=self.settings.deepen,
        )

    @property
    def rows(self) -> Tensor:
        """Training rows of what is forgotten; only methods that disclose them ask for them."""
        return self._trained[0]

    @property
    def retained(self) -> Tensor:
        """Training rows of everything else."""
        return self._trained[1]

    @cached_property
    def _trained(self) -> tuple[Tensor, Tensor]:
        labels, train = self.active.labels, self.train.to(self.active.device)

        def among(values: Tensor, wanted: Sequence[int]) -> Tensor:
            return torch.isin(values, torch.tensor(wanted, device=values.device))

        request, earlier = self.request, self.earlier
        people = bool(request.rows)
        chosen = among(train, request.rows) if people else among(labels[train], request.labels)
        past = among(labels[train], earlier.labels) | among(train, earlier.rows)
        return train[chosen & ~past], train[~chosen & ~past]

    @property
    def among(self) -> Tensor:
        """For people: a random cover with their rows among it, all that is ever asked for."""
        return self._covers[0]

    @property
    def apart(self) -> Tensor:
        """For people: another cover, of the same size and without them."""
        return self._covers[1]

    @cached_property
    def _covers(self) -> tuple[Tensor, Tensor]:
        among, apart = draw_covers(
            self.request.rows,
            train=self.train,
            labels=self.active.labels.cpu(),
            earlier=self.earlier,
            key=self.request.cover or self.request.key,
            wanted=self.settings.cover,
            batch=self.batch,
        )
        return among.to(self.active.device), apart.to(self.active.device)

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
                request=self.request.id,
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
            Draft(0, self.request.id, rows, noise, rule, float(rate), float(decay))
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
            Rewrite(0, self.request.id, rule, by, against, float(threshold), float(strength))
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

    def take_back(self, saved: Snapshot) -> None:
        """Return every party to its state from before the request."""
        self.active.versions.load_snapshot(saved)
        self.active.transport.ask(Rollback(0, self.request.id))

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
        if agreement < least and not self.settings.allow_collapse:
            raise ForgetError(
                f"Forgetting destroys the rest: after step {self.steps} only {agreement:.0%} of "
                f"the retained public samples keep their label; it was rolled back. "
                f"{self.method.remedy}"
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
