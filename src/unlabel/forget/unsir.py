"""UNSIR (Tarun et al., IEEE TNNLS 2023): impair with error-maximising noise, then repair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.work import Work, adam, steady
from unlabel.party import DRAFT, Stream
from unlabel.party.optimiser import expect


@METHODS.register("unsir")
@dataclass(frozen=True)
class Unsir(Method):
    """Teach the forgotten label on noise that looks nothing like it, so that it means nothing.

    1. Noise: every party draws a batch of inputs z ~ N(0, 1) for each forgotten label y and, with
       the models still and as in prediction, moves it by Adam to maximise the label's loss:
       min over z of -CE(F(z), y) + decay mean |z|^2
    2. Impair: one pass over `copies` of every noise batch with its label y, among `retained` rows
       of each other label, in random batches
    3. Repair: one pass over those retained rows alone

    The published code gives every class the label 0 and leaves normalisation in training while it
    makes the noise; here neither happens.

    noise_batch  noise rows a forgotten label
    noise_steps  steps of Adam on the noise
    noise_lr     its rate
    decay        weight of the noise's squared norm
    copies       noise batches in the pass that impairs
    retained     rows of each other label, at most
    impair_lr    rate of Adam in the pass that impairs (0.02 in the paper, 1e-4 in its use in VFL)
    repair_lr    and in the one that repairs (0.01 and 1e-4)
    batch        rows a step; 0 is the batch of the training
    """

    about: ClassVar[str] = "the label taught on noise, then the rest repaired"
    discloses: ClassVar[str] = "rows of the other labels, none of the forgotten; gradients on noise"

    noise_batch: int = 256
    noise_steps: int = 40
    noise_lr: float = 0.1
    decay: float = 0.1
    copies: int = 20
    retained: int = 1000
    impair_lr: float = 1e-4
    repair_lr: float = 1e-4
    batch: int = 0

    def __post_init__(self) -> None:
        expect("noise_batch", self.noise_batch, self.noise_batch >= 1, "at least 1")
        expect("noise_steps", self.noise_steps, self.noise_steps >= 0, "0 or more")
        expect("copies", self.copies, self.copies >= 1, "at least 1")
        expect("retained", self.retained, self.retained >= 1, "at least 1")
        for name in ("noise_lr", "decay", "impair_lr", "repair_lr", "batch"):
            expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")

    def needs(self) -> Data:
        """Return that rows of the other labels repair."""
        return "retained"

    def tells(self) -> Tells:
        """Return that noise and rows of the other labels are asked for."""
        return Tells.of("retained drafts", "retained drafts", "Tune Draft")

    def is_control(self) -> bool:
        """Return whether nothing is learned at these rates."""
        return self.impair_lr == 0 and self.repair_lr == 0

    def sweep(self) -> tuple[Method, ...]:
        """Return rates between those of its use in VFL and the paper's."""
        rates = ((1e-3, 1e-3), (5e-3, 2e-3), (0.02, 0.01))
        return (self, *(replace(self, impair_lr=one, repair_lr=two) for one, two in rates))

    def run(self, work: Work) -> None:
        """Make the noise, impair, repair."""
        work.tune(steady(0.0, 0.0), steady(0.0, 0.0))
        drafts, labels = self._noise(work)
        kept = some_of_each(work, self.retained)
        taught = torch.cat([work.active.labels, labels])
        among = torch.cat([kept, *[drafts] * self.copies])
        objective = work.cross_entropy(taught)
        work.tune(adam(self.impair_lr), adam(self.impair_lr))
        work.learn(among, objective, batch=self.batch, table=DRAFT, title="impair")
        work.tune(adam(self.repair_lr), adam(self.repair_lr))
        work.learn(kept, objective, batch=self.batch, title="repair")

    def _noise(self, work: Work) -> tuple[Tensor, Tensor]:
        """Return where the noise stands, and its labels."""
        most = work.active.most_rows
        if self.noise_batch * len(work.labels) > most:
            raise ForgetError(
                f"Expected `noise_batch` times the labels to be at most {most}, the rows that "
                f"every party serves, but got {self.noise_batch * len(work.labels)}."
            )
        labels = torch.tensor(work.labels).repeat_interleave(self.noise_batch)
        labels = labels.to(work.active.device)
        drafts = work.draft(noise=len(labels), rule="adam", rate=self.noise_lr, decay=self.decay)

        def climb(embeddings: list[Tensor]) -> Tensor:
            return -F.cross_entropy(work.active.apply_top(embeddings), labels)

        for step in range(self.noise_steps):
            work.redraft(drafts, climb)
            work.watch(step + 1, self.noise_steps, "noise")
        return drafts, labels


def some_of_each(work: Work, most: int) -> Tensor:
    """Return up to so many random retained rows of each label."""
    rows, draw = work.retained, Stream(work.seed, "some").generator(0)
    mixed = rows[torch.randperm(len(rows), generator=draw).to(rows.device)]
    labels = work.active.labels[mixed]
    chosen = [mixed[labels == label][:most] for label in labels.unique().tolist()]
    return torch.cat(chosen).sort().values
