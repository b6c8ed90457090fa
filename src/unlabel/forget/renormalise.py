"""Our default: a bounded objective that cannot overshoot, on mixed few-shot embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.forget.method import METHODS, Data, Method, Tells
from unlabel.forget.mixing import at_most, mixer, pairs_among, pairs_within, shares
from unlabel.forget.work import Work, steady
from unlabel.party import Stream
from unlabel.party.optimiser import expect


@METHODS.register("renormalise")
@dataclass(frozen=True)
class Renormalise(Method):
    """Move the model to what it said itself, had it never had the forgotten labels.

    Let q(h) be the ORIGINAL model's output on embeddings h with the forgotten labels masked and
    the rest renormalised, p the model that moves, M_u all mixed pairs of samples of one forgotten
    label, M_r all mixed pairs of retained samples (beyond `mixing.MOST`, so many at random), H0 the
    original embeddings. Every joint step descends

        KL(q(M_u H0) || p(M_u H)) + KL(q(M_r H0) || p(M_r H))
            + hold x sum over parties of |H_r - H0_r|^2 / |H0_r|^2

    The first term ends where p(forgotten) = 0, so it cannot explode as plain ascent does, and it
    keeps the ratios between the other labels. The objective is that of DELETE (CVPR 2025),
    carried to mixed embeddings in a federation.

    top_lr      rate of the top model
    bottom_lr   rate of the bottoms
    hold        how firmly the embeddings of retained samples are held
    steps       most joint steps
    until       stop once no mixed forgotten sample gives the label more than this, and the mean
                divergence of each kind of sample has settled below it too; 0 takes all steps
    look        steps between two looks at that
    momentum    of SGD
    lambdas     shares of the first sample in a mixed one
    """

    about: ClassVar[str] = "--mode open's default: bounded, keeps the rest, a few dozen joint steps"
    discloses: ClassVar[str] = (
        "the few-shot samples, and by their gradients' size which it is about"
    )

    top_lr: float = 5e-2
    bottom_lr: float = 2e-4
    hold: float = 1.0
    steps: int = 40
    until: float = 0.05
    look: int = 5
    momentum: float = 0.8
    lambdas: tuple[float, ...] = (0.25, 0.5)

    def __post_init__(self) -> None:
        expect("top_lr", self.top_lr, self.top_lr >= 0, "0 or more")
        expect("bottom_lr", self.bottom_lr, self.bottom_lr >= 0, "0 or more")
        expect("hold", self.hold, self.hold >= 0, "0 or more")
        expect("steps", self.steps, self.steps >= 1, "at least 1")
        expect("look", self.look, self.look >= 1, "at least 1")
        expect("until", self.until, 0 <= self.until < 1, "from 0 to below 1")
        expect("lambdas", self.lambdas, all(0 <= x <= 1 for x in self.lambdas), "from 0 to 1")

    def needs(self) -> Data:
        """Return that a few public samples are enough."""
        return "few-shot"

    def tells(self) -> Tells:
        """Return that all few-shot samples are asked for together."""
        return Tells.of("public", "public")

    def shows_rows(self) -> bool:
        """Return that gradients of the label's samples are far larger than those of the others."""
        return True

    def sweep(self) -> tuple[Method, ...]:
        """Return other rates of the bottoms, and one that takes all steps."""
        rates = (replace(self, bottom_lr=lr) for lr in (5e-5, 1e-3))
        return (self, *rates, replace(self, until=0.0))

    def run(self, work: Work) -> None:
        """Take joint steps until the few-shot samples say that the label is gone."""
        work.tune(steady(self.top_lr, self.momentum), steady(self.bottom_lr, self.momentum))
        objective = JointObjective(work, self.lambdas, self.hold)
        for step in range(self.steps):
            work.move_shots(objective)
            # A look reads figures back from the device, so it is not taken at every step.
            if (step + 1) % self.look == 0 or step + 1 == self.steps:
                seen = objective.look()
                work.expect_alive(seen.agreement, seen.divergence)
                work.watch(step + 1, self.steps, f"p(forgotten) <= {seen.belief:.3f}")
                if max(seen.belief, seen.divergence) < self.until:
                    return


@dataclass(frozen=True)
class Look:
    """What the few-shot samples say of the model at a moment.

    belief      largest probability of the forgotten labels over mixed forgotten samples
    agreement   share of mixed retained samples that keep their label
    divergence  the larger mean KL(q || p) of the two kinds of mixed samples
    """

    belief: float
    agreement: float
    divergence: float


class JointObjective:
    """The objective of a joint step; the first call, before anything moved, fixes the original."""

    def __init__(self, work: Work, lambdas: tuple[float, ...], hold: float) -> None:
        self._work, self._hold = work, hold
        shots, draw = work.shots, Stream(work.seed, "pairs").generator(0)
        count = shots.forgotten
        within = at_most(pairs_within(shots.labels[:count]), lambdas, draw)
        among = pairs_among(len(shots.labels) - count, shots.labels.device)
        forget, some = mixer(within, lambdas, count)
        rest = len(shots.labels) - count
        retain, others = mixer(at_most(among, lambdas, draw), lambdas, rest)
        # One matrix for all mixed samples: one product and one pass of the top a step.
        self._matrix = torch.block_diag(forget, retain)
        self._forget = len(forget)
        trusts = shots.weights.split([count, rest])
        self._shares = torch.cat(
            [shares(forget, some, trusts[0]), shares(retain, others, trusts[1])]
        )
        self._start: list[Tensor] | None = None

    def __call__(self, embeddings: list[Tensor]) -> Tensor:
        """Return the loss of the embeddings of all few-shot samples."""
        mixed = [self._matrix @ values for values in embeddings]
        if self._start is None:
            self._fix(embeddings, mixed)
        assert self._start is not None
        logits = self._work.active.apply_top(mixed)
        log_p = logits.log_softmax(1)
        # KL(q || p) up to the entropy of q, which does not move.
        loss = -(self._target * log_p).sum(1) @ self._shares
        for values, start, scale in zip(embeddings, self._start, self._scales, strict=True):
            moved = values[self._work.shots.forgotten :] - start
            loss = loss + self._hold * moved.square().sum() / scale
        self._logits = logits.detach()
        return loss

    def _fix(self, embeddings: list[Tensor], mixed: list[Tensor]) -> None:
        """Note the original model's embeddings and outputs; nothing has moved yet."""
        count = self._work.shots.forgotten
        with torch.no_grad():
            self._target = self._work.without(self._work.active.apply_top(mixed))
            self._start = [values[count:].detach().clone() for values in embeddings]
            self._scales = [start.square().sum().clamp_min(1e-12) for start in self._start]
            self._called = self._target[self._forget :].argmax(1)

    def look(self) -> Look:
        """Return how far the last step had come; reading it back waits for the device."""
        p = self._logits.softmax(1)
        belief = p[: self._forget, list(self._work.gone)].sum(1).max()
        # Among the labels that stay: what is being forgotten may still win here and there.
        called = self._work.without(self._logits[self._forget :]).argmax(1)
        same = (called == self._called).float().mean()
        q = self._target
        divergence = (torch.xlogy(q, q) - q * self._logits.log_softmax(1)).sum(1) * self._shares
        kinds = torch.stack([divergence[: self._forget].sum(), divergence[self._forget :].sum()])
        return Look(*torch.stack([belief, same, kinds.max()]).tolist())
