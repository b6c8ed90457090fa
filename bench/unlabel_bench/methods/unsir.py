"""UNSIR (Tarun et al., IEEE TNNLS 2023): impair with error-maximising noise, then repair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Work, adam
from unlabel.party import Stream
from unlabel.party.bottom import SYNTHETIC
from unlabel_bench.shaping import make_inputs, move_inputs


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

    about = "the label taught on noise, then the rest repaired"
    tells_partners = "rows of the other labels, none of the forgotten; gradients on noise"
    needs = "retained"
    rates = ("impair_lr", "repair_lr")
    disclosure = Disclosure.of("retained synthetic", messages="BeginRequest SyntheticInputs")

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
        self.expect_at_least(noise_batch=1, noise_steps=0, copies=1, retained=1, batch=0)
        self.expect_at_least(noise_lr=0, decay=0, impair_lr=0, repair_lr=0)

    def run(self, work: Work) -> None:
        """Make the noise, impair, repair."""
        work.use_optimisers(STILL)
        synthetic, labels = self._noise(work)
        kept = some_of_each(work, self.retained)
        taught = torch.cat([work.active.labels, labels])
        among = torch.cat([kept, *[synthetic] * self.copies])
        objective = work.cross_entropy(taught)
        work.use_optimisers(adam(self.impair_lr))
        work.learn(among, objective, batch=self.batch, table=SYNTHETIC, title="impair")
        work.use_optimisers(adam(self.repair_lr))
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
        synthetic = make_inputs(
            work, noise=len(labels), rule="adam", rate=self.noise_lr, decay=self.decay
        )

        def climb(embeddings: list[Tensor]) -> Tensor:
            return -F.cross_entropy(work.active.apply_top(embeddings), labels)

        for step in range(self.noise_steps):
            move_inputs(work, synthetic, climb)
            work.watch(step + 1, self.noise_steps, "noise")
        return synthetic, labels


def some_of_each(work: Work, most: int) -> Tensor:
    """Return up to so many random retained rows of each label."""
    rows, draw = work.retained_rows, Stream(work.seed, "some").generator(0)
    mixed = rows[torch.randperm(len(rows), generator=draw).to(rows.device)]
    labels = work.active.labels[mixed]
    chosen = [mixed[labels == label][:most] for label in labels.unique().tolist()]
    return torch.cat(chosen).sort().values
