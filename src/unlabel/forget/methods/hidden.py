"""Forgetting that partners cannot tell: a new top that never saw the label."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from unlabel.config import expect, one_of
from unlabel.defend.accountant import Account, Release
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Disclosure, Method
from unlabel.forget.noisy_request import CLIP, NoisyRequest
from unlabel.forget.work import STILL, Work, adam, divergence, sgd
from unlabel.party import Stream
from unlabel.train.label_record import UNKNOWN

#: Of SGD, where the bottoms move.
MOMENTUM = 0.8
#: How far a forgotten output lies below the mean of the others.
MARGIN = 10.0
#: Steps of the new top between two looks at the progress.
LOOK = 50
#: Noise between which the bound and the belief can be computed, and mean something.
LEAST_NOISE, MOST_NOISE = 1e-3, 1e6


@METHODS.register("hidden")
@dataclass(frozen=True)
class Hidden(Method):
    """Draw the whole top anew and teach it on retained samples alone; send nothing about it.

    Let F0 be the top before the request, H the embeddings of the public samples, and q(h) = F0(h)
    with the forgotten labels masked and the rest renormalised. A top F with fresh weights descends

        KL(q(h) || F(h)),   h = lambda h_i + (1 - lambda) h_j,   lambda uniform on [0, 1]

    over random pairs of RETAINED samples, the forgotten outputs of F left out: manifold mixup
    carried to distillation. Then the mean of the outputs that stay is taken off each of them, which
    changes no probability, and a forgotten output becomes the constant -`MARGIN`: below that mean,
    so never the largest, and the same for every sample. Were it taught to be small instead, it
    would grow away from all that stays, which is where the label's own samples lie.

    No sample of a forgotten label is used: the new top is that of a party that never knew the
    label, on bottoms that did. What the partners see does not depend on it: the same samples of
    all labels in one order, a fixed number of messages, no early stop, and an outcome is dropped
    in the messages in which it is kept. With `noise` the bottoms move too (`noisy_request`), and
    what is seen depends on the label through one noisy row alone, which the accountant counts.

    samples    public: the public samples; all: all training rows, all rows being asked for
    steps      of the new top
    batch      mixed samples a step
    lr         of Adam, falling to zero along a line
    noise      standard deviation of the noise on the request; 0 sends nothing about it
    moves      joint steps of the bottoms, where there is noise
    bottom_lr  their rate
    hold       how firmly embeddings of samples are held that the noisy request does not mean
    """

    about = "partners cannot tell: a new top that never saw the label"
    draws_samples = False
    visibility = "hidden"

    samples: Literal["public", "all"] = "public"
    steps: int = 200
    batch: int = 512
    lr: float = 1e-2
    noise: float = 0.0
    moves: int = 20
    bottom_lr: float = 2e-4
    hold: float = 1.0

    def __post_init__(self) -> None:
        one_of("samples", self.samples, ("public", "all"))
        self.expect_at_least(steps=1, batch=2, moves=1, bottom_lr=0, hold=0)
        expect("lr", self.lr, self.lr > 0, "above 0")
        fits = self.noise == 0 or LEAST_NOISE <= self.noise <= MOST_NOISE
        accepted = f"0 or more, and if more from {LEAST_NOISE:g} to {MOST_NOISE:g}"
        expect("noise", self.noise, fits, accepted)

    @property
    def needs(self) -> Data:
        """The samples it asks for."""
        return "public" if self.samples == "public" else "all"

    @property
    def disclosure(self) -> Disclosure:
        """Samples of all labels are asked for; gradients are sent only with noise."""
        rows = "public" if self.samples == "public" else "forgotten retained public"
        return Disclosure.of(rows, "public" if self.noise else "")

    @property
    def is_silent(self) -> bool:
        """Whether the partners' weights stay as they are."""
        return not self.noise

    @property
    def account(self) -> Account | None:
        """Nothing, or one noisy row and whether the outcome was kept."""
        if not self.noise:
            return Account.nothing()
        # The same row moves all parties, so that those who collude hold it once.
        row = Account.of(Release(rows=1, messages=1, clip=CLIP, sigma=self.noise))
        return row + Account.decision()

    @property
    def tells_partners(self) -> str:
        """Nothing, or what the noise leaves of the label."""
        if self.noise:
            return "one noisy row about the label, by how the bottoms move"
        return "nothing: the same messages whatever the label"

    def run(self, work: Work) -> None:
        """Ask for the samples, move the bottoms if there is noise, and build the new top."""
        noisy = NoisyRequest(work, self.noise, self.hold) if self.noise else None
        work.use_optimisers(STILL, sgd(self.bottom_lr, MOMENTUM) if noisy else STILL)
        before, labels = self._look(work)
        after = before
        if noisy is not None:
            noisy.move(self.moves)
            after, _ = self._look(work)
        unused = torch.tensor([UNKNOWN, *work.forgotten_labels], device=labels.device)
        kept = ~torch.isin(labels, unused)
        self._teach(work, [part[kept] for part in before], [part[kept] for part in after])

    def _look(self, work: Work) -> tuple[list[Tensor], Tensor]:
        """Return embeddings and labels of the samples, asked for in a fixed order."""
        active = work.active
        if self.samples == "public":
            public = work.public.balanced()
            rows = public.rows.to(active.device)
            return active.embeddings(rows, table=public.table), public.labels.to(active.device)
        every = active.embeddings(torch.arange(len(active.labels), device=active.device))
        trained = work.training_rows
        return [part[trained] for part in every], active.labels[trained]

    def _teach(self, work: Work, before: list[Tensor], after: list[Tensor]) -> None:
        """Fit a fresh top to the old one's output on mixed embeddings of retained samples."""
        top, count = work.active.top, len(before[0])
        old = copy.deepcopy(top.module).eval()
        # Fresh weights: those that training began with lie near what became of them, and would give
        # the label away.
        top.reinitialise(1.0)
        _expect_new(top.module, old)
        last = work.active.last_layer()  # a top without one is taught that they are small
        stay = [label for label in range(work.label_count) if label not in work.forgotten_labels]
        top.use_optimiser(replace(adam(self.lr), schedule="linear"), self.steps)
        pairs, shares = self._draws(work, count)
        for step, ((i, j), share) in enumerate(zip(pairs, shares, strict=True)):
            top.begin("train", step)
            with torch.no_grad(), top.place.autocast():
                logits = old([_mix(part, i, j, share) for part in before]).float()
                target = work.retained_softmax(logits)
            logits = work.active.apply_top([_mix(part, i, j, share) for part in after])
            if last is not None:
                target, logits = target[:, stay], logits[:, stay]
            divergence(target, logits).backward()
            top.descend(step)
            if (step + 1) % LOOK == 0:
                work.watch(step + 1, self.steps, "new top")
        if last is not None:
            _delete(last, list(work.forgotten_labels), stay)

    def _draws(self, work: Work, count: int) -> tuple[Tensor, Tensor]:
        """Return who is mixed with whom in every step, and how; moved to the device at once."""
        draw = Stream(work.seed, "hidden").generator(0)
        pairs, shares = [], []
        for _ in range(self.steps):
            pairs.append(torch.randint(count, (2, self.batch), generator=draw))
            shares.append(torch.rand(self.batch, 1, generator=draw))
        device = work.active.device
        return torch.stack(pairs).to(device), torch.stack(shares).to(device)


@torch.no_grad()
def _delete(layer: nn.Linear, forgotten: list[int], stay: list[int]) -> None:
    """Let the outputs that stay have the mean 0 on whatever input, and the others a constant."""
    layer.weight[stay] -= layer.weight[stay].mean(0)
    layer.weight[forgotten] = 0.0
    if layer.bias is not None:
        layer.bias[stay] -= layer.bias[stay].mean()
        layer.bias[forgotten] = -MARGIN


def _expect_new(top: nn.Module, old: nn.Module) -> None:
    """Raise where a weight that can differ from draw to draw was not drawn anew."""
    for (name, now), was in zip(top.named_parameters(), old.parameters(), strict=True):
        if torch.equal(now, was) and bool((was != was.flatten()[0]).any()):
            raise ForgetError(
                f"The weights '{name}' of the top cannot be drawn anew, so they would still know "
                f"the label; build the top of layers that have `reset_parameters`."
            )


def _mix(values: Tensor, i: Tensor, j: Tensor, share: Tensor) -> Tensor:
    return share * values[i] + (1 - share) * values[j]
