"""Our default: a bounded objective that cannot overshoot, on mixed few-shot embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlabel.config import expect
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.mixing import at_most, mixer, pairs_among, pairs_within, shares
from unlabel.forget.work import Work, sgd
from unlabel.party import Stream


@METHODS.register("renormalise")
@dataclass(frozen=True)
class Renormalise(Method):
    """Move the model to its own output without the forgotten labels.

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

    about = "default of open requests: bounded, keeps the rest, a few dozen joint steps"
    tells_partners = "the few-shot samples, and by their gradients' size which it is about"
    needs = "few-shot"
    disclosure = Disclosure.of("public")
    shows_rows = True

    top_lr: float = 5e-2
    bottom_lr: float = 2e-4
    hold: float = 1.0
    steps: int = 40
    until: float = 0.05
    look: int = 5
    momentum: float = 0.8
    lambdas: tuple[float, ...] = (0.25, 0.5)

    def __post_init__(self) -> None:
        self.expect_at_least(top_lr=0, bottom_lr=0, hold=0, steps=1, look=1)
        expect("until", self.until, 0 <= self.until < 1, "from 0 to below 1")
        expect("lambdas", self.lambdas, all(0 <= x <= 1 for x in self.lambdas), "from 0 to 1")

    def run(self, work: Work) -> None:
        """Take joint steps until the few-shot samples show that the label is forgotten."""
        work.use_optimisers(sgd(self.top_lr, self.momentum), sgd(self.bottom_lr, self.momentum))
        objective = JointObjective(work, self.lambdas, self.hold)
        for step in range(self.steps):
            work.move(objective.rows, objective, mode="frozen", table=work.samples.table)
            # A look reads figures back from the device, so it is not taken at every step.
            if (step + 1) % self.look == 0 or step + 1 == self.steps:
                belief, agreement, divergence = objective.look()
                work.expect_alive(agreement, divergence)
                work.watch(step + 1, self.steps, f"p(forgotten) <= {belief:.3f}")
                if max(belief, divergence) < self.until:
                    return


class JointObjective:
    """The objective of a joint step; the first call, before anything moved, fixes the original."""

    def __init__(self, work: Work, lambdas: tuple[float, ...], hold: float) -> None:
        self._work, self._hold = work, hold
        samples, draw = work.samples, Stream(work.seed, "pairs").generator(0)
        self.rows, self._places = samples.sent()
        count, rest = samples.forgotten, len(samples.labels) - samples.forgotten
        within = at_most(pairs_within(samples.labels[:count]), lambdas, draw)
        among = at_most(pairs_among(rest, samples.labels.device), lambdas, draw)
        forget, some = mixer(within, lambdas, count)
        retain, others = mixer(among, lambdas, rest)
        # One matrix for all mixed samples: one product and one pass of the top a step.
        self._matrix = torch.block_diag(forget, retain)
        self._forget = len(forget)
        trusts = samples.weights.split([count, rest])
        self._shares = torch.cat(
            [shares(forget, some, trusts[0]), shares(retain, others, trusts[1])]
        )
        self._start: list[Tensor] = []

    def __call__(self, embeddings: list[Tensor]) -> Tensor:
        """Return the loss of the embeddings of all few-shot samples, as they are sent."""
        embeddings = [values[self._places] for values in embeddings]
        mixed = [self._matrix @ values for values in embeddings]
        if not self._start:
            self._fix(embeddings, mixed)
        logits = self._work.active.apply_top(mixed)
        log_p = logits.log_softmax(1)
        # KL(q || p) up to the entropy of q, which does not move.
        loss = -(self._target * log_p).sum(1) @ self._shares
        for values, start, scale in zip(embeddings, self._start, self._scales, strict=True):
            moved = values[self._work.samples.forgotten :] - start
            loss = loss + self._hold * moved.square().sum() / scale
        self._logits = logits.detach()
        return loss

    def _fix(self, embeddings: list[Tensor], mixed: list[Tensor]) -> None:
        """Note the original model's embeddings and outputs; nothing has moved yet."""
        count = self._work.samples.forgotten
        with torch.no_grad():
            self._target = self._work.retained_softmax(self._work.active.apply_top(mixed))
            self._start = [values[count:].detach().clone() for values in embeddings]
            self._scales = [start.square().sum().clamp_min(1e-12) for start in self._start]
            self._called = self._target[self._forget :].argmax(1)

    def look(self) -> tuple[float, float, float]:
        """Return how far the last step had come; reading it back waits for the device.

        That is: the largest probability of the forgotten labels over mixed forgotten samples, the
        share of mixed retained samples that keep their label, and the larger mean KL(q || p) of
        the two kinds of mixed samples.
        """
        p = self._logits.softmax(1)
        belief = p[: self._forget, list(self._work.forgotten_labels)].sum(1).max()
        # Among the labels that stay: what is being forgotten may still win here and there.
        called = self._work.retained_softmax(self._logits[self._forget :]).argmax(1)
        same = (called == self._called).float().mean()
        q = self._target
        divergence = (torch.xlogy(q, q) - q * self._logits.log_softmax(1)).sum(1) * self._shares
        kinds = torch.stack([divergence[: self._forget].sum(), divergence[self._forget :].sum()])
        figures = torch.stack([belief, same, kinds.max()]).tolist()
        return figures[0], figures[1], figures[2]
