"""The paper's method: few-shot label unlearning by ascent on mixed embeddings, with recovery."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect
from unlabel.forget.method import METHODS, Preset
from unlabel.forget.methods.ascent import Ascent, BatchNorm, Mixed, recovery_weight
from unlabel.forget.mixing import at_most, mixer, pairs_among, pairs_within, shares
from unlabel.forget.work import Objective, Work
from unlabel.party import Stream

#: Length of the first gradient of an ascent, over the top's weights and all embeddings.
FIRST = 0.1
#: What the length is multiplied by a turn, while the label is known and after it is gone.
LONGER, SHORTER = 1.25, 0.5
#: Looks in turn at which both must hold.
LOOKS = 2


@METHODS.register("mixup-ascent")
@dataclass(frozen=True)
class MixupAscent(Ascent):
    """Algorithm 1 of the paper: its three modules, in turns that end.

    With H_k the embeddings of party k, Mix(a, b) = lambda a + (1 - lambda) b and all ordered pairs
    (i, j) of few-shot samples of one forgotten label, a turn is

        L_u = mean over i, j, lambda of CE(F(Mix(H_1i, H_1j), .., Mix(H_Ki, H_Kj)), Mix(y_i, y_j))
        w <- w + lr d L_u / d w          in the top and in every bottom
        w <- w - lr d L_r / d w          L_r likewise over all pairs of retained samples

    The gradient of L_u is next to nothing while the model is sure of the label, and grows as the
    label goes: at any one rate ascent does nothing, and then destroys the model. So, where `stop`
    is above 0, the gradient is brought to a length s before it is sent, and the length is found
    on these samples alone:

        p = mean over mixed samples of the probability of their label
        p > stop:   ascend with the gradient of length s;   s <- 1.25 s
        else:       do not ascend in this turn;             s <- s / 2

    from s = 0.1. The length is over the top's weights and all embeddings, which is what the label
    holder knows; no party tells it the gradients of a bottom's weights. Turns end when, at two
    looks one after the other, p is below 2 `stop` and as many mixed retained samples are called by
    one of their labels as in the beginning.

    Ascent leaves the model sure of another label, as it is of rows that it was trained on. So
    recovery also mixes forgotten samples with retained ones, in both orders, and what a mixed
    sample has of the forgotten label is shared out among the labels that stay:

        L_a = mean over forgotten i, retained j, lambda of CE(F(Mix(H_i, H_j)), Mix(u, y_j)),
              u = 1 / (labels that stay) for each of them
        w <- w - lr (d L_r / d w + across d L_a / d w)

    With `stop` 0 all turns are taken, with the gradients as they are and without L_a. The presets
    are the paper's settings of that kind: at their rates most of what is forgotten is drift of the
    normalisation, and the outcome says how much (the same run at rate 0).

    lr         rate of the top, in both steps
    bottom_lr  that of the bottoms; 0 means the same
    epochs     turns at most
    stop       mean probability of its label up to which a sample is not climbed; 0 never stops
    across     weight of L_a; more of it leaves the model less sure of forgotten rows
    look       turns between two looks

    and the settings of `ascent`.
    """

    about = "the paper's Algorithm 1: ascent on mixed embeddings and recovery, until both hold"
    tells_partners = "the few-shot samples, their gradients' direction and size"
    remedy = "Lower `lr` and `bottom_lr`, or give more samples that are retained (--retained)."

    mixup: bool = True
    recovery: bool = True
    lr: float = 0.1
    bottom_lr: float = 1e-4
    epochs: int = 100
    momentum: float = 0.0
    weight_decay: float = 0.0
    batchnorm: BatchNorm = "frozen"
    stop: float = 0.003
    across: float = 0.2
    look: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(look=1, across=0)
        expect("stop", self.stop, 0 <= self.stop < 1, "0 or more, and below 1")
        few = not self.stop or self.samples == "few"
        expect("samples", self.samples, few, "few, where `stop` is above 0")

    def presets(self) -> dict[str, Preset]:
        """Return the settings of the paper's two tables."""
        return {
            name: Preset(self.as_printed(lr, epochs), few_shot, retained)
            for name, (lr, epochs, few_shot, retained) in PRESETS.items()
        }

    @classmethod
    def as_printed(cls, lr: float, epochs: int) -> MixupAscent:
        """Return the paper's own run: one rate, every turn, normalisation as in training."""
        return cls(
            lr=lr,
            bottom_lr=0.0,
            epochs=epochs,
            momentum=0.9,
            weight_decay=5e-4,
            batchnorm="drift",
            stop=0.0,
            across=0.0,
        )

    def run(self, work: Work) -> None:
        """Take turns of ascent and recovery, until both hold or the turns are over."""
        if not self.stop:
            super().run(work)
            return
        self.open_request(work)
        turns = _Turns(work, self)
        for turn in range(1, self.epochs + 1):
            for rows, objective in turns.steps:
                loss = work.move(rows, objective, mode=self.mode, table=work.samples.table)
            # A look reads figures back from the device, so it is not taken at every turn.
            if turn % self.look == 0 or turn == self.epochs:
                work.expect_alive(loss=loss.item())
                ended = turns.look()
                work.watch(turn, self.epochs, f"p(forgotten) {turns.belief:.3f}")
                if ended:
                    return


class _Turns:
    """The two steps of a turn, and what is seen of them; nothing here waits for the device.

    belief  the mean probability of its label over mixed forgotten samples, at the last look
    """

    def __init__(self, work: Work, method: MixupAscent) -> None:
        self._work, self._method = work, method
        samples, count = work.samples, work.samples.forgotten
        device = samples.labels.device
        forgotten, retained = slice(count), slice(count, None)
        within = pairs_within(samples.labels[forgotten])
        self._climbed = Mixed.of(work, forgotten, within if method.mixup else None, method.lambdas)
        self.steps: list[tuple[Tensor, Objective]] = [(samples.rows[forgotten], self._ascent)]
        if method.recovery:
            among = pairs_among(len(samples.labels) - count, device)
            self._kept = Mixed.of(work, retained, among if method.mixup else None, method.lambdas)
            self._shared = _shared_out(work, method.lambdas) if method.across else None
            self.steps.append(
                (samples.rows if method.across else samples.rows[retained], self._recovery)
            )
        weights = work.active.top.module.parameters()
        self._weights = [values for values in weights if values.requires_grad]
        self._length = torch.full((), FIRST, device=device)
        self._p, self._right = torch.ones((), device=device), torch.ones((), device=device)
        self._least: Tensor | None = None
        self.belief, self._held = 1.0, 0

    def _ascent(self, embeddings: list[Tensor]) -> Tensor:
        """Return -L_u, scaled so that its gradient has the length s, or 0 times it."""
        losses, _ = self._climbed.losses(embeddings)
        loss = -(losses * self._climbed.parts).sum()
        parts = torch.autograd.grad(
            loss, [*self._weights, *embeddings], retain_graph=True, allow_unused=True
        )
        squares = [part.square().sum() for part in parts if part is not None]
        norm = torch.stack(squares).sum().sqrt().clamp_min(1e-12)
        self._p = (-losses.detach()).exp() @ self._climbed.parts
        known = self._p > self._method.stop
        scale = torch.where(known, self._length / norm, 0.0)
        self._length = self._length * torch.where(known, LONGER, SHORTER)
        return scale * loss

    def _recovery(self, embeddings: list[Tensor]) -> Tensor:
        """Return L_r, and L_a where it counts, at their own rate."""
        also = embeddings[0].new_zeros(())
        if self._shared is not None:
            losses, _ = self._shared.losses(embeddings)
            also = self._method.across * (losses * self._shared.parts).sum()
            embeddings = [values[self._work.samples.forgotten :] for values in embeddings]
        losses, logits = self._kept.losses(embeddings)
        called = F.one_hot(logits.detach().argmax(1), logits.shape[1])
        self._right = ((self._kept.target * called).sum(1) > 0).float().mean()
        if self._least is None:
            self._least = self._right
        return recovery_weight(self._method) * ((losses * self._kept.parts).sum() + also)

    def look(self) -> bool:
        """Return whether both hold, at this look and at the one before."""
        least = self._right if self._least is None else self._least
        self.belief, right, first = torch.stack([self._p, self._right, least]).tolist()
        both = self.belief < 2 * self._method.stop and right >= first
        self._held = self._held + 1 if both else 0
        return self._held >= LOOKS


def _shared_out(work: Work, lambdas: tuple[float, ...]) -> Mixed:
    """Return mixes of a forgotten and a retained sample, their target Mix(u, y)."""
    samples, count = work.samples, work.samples.forgotten
    target = F.one_hot(samples.labels, work.label_count).float()
    stay = torch.ones(work.label_count, device=target.device)
    stay[list(work.forgotten_labels)] = 0
    target[:count] = stay / stay.sum()
    pairs = pairs_among(len(samples.labels), target.device)
    pairs = pairs[(pairs < count).sum(1) == 1]
    draw = Stream(work.seed, "pairs").generator(1)
    matrix, often = mixer(at_most(pairs, lambdas, draw), lambdas, len(target))
    return Mixed(work, matrix, matrix @ target, shares(matrix, often, samples.weights))


#: Rate, epochs, samples a forgotten label and a retained one: single-label, then two and four.
PRESETS: dict[str, tuple[float, int, int, int]] = {
    "resnet18-mnist": (2e-7, 10, 40, 3),
    "resnet18-cifar10": (2e-7, 20, 40, 3),
    "resnet18-cifar100": (5e-7, 10, 30, 3),
    "resnet18-modelnet": (5e-7, 4, 30, 3),
    "resnet18-brain-tumor-mri": (6e-6, 4, 15, 3),
    "resnet18-covid19-radiography": (2e-7, 5, 40, 3),
    "vgg16-cifar10": (2e-7, 17, 40, 3),
    "vgg16-cifar100": (1e-7, 9, 30, 3),
    "mixtext-yahoo": (7e-7, 30, 30, 3),
    "two-label-resnet18-cifar10": (1e-6, 17, 40, 3),
    "two-label-resnet18-cifar100": (9e-7, 15, 20, 3),
    "two-label-vgg16-cifar10": (1e-6, 17, 40, 3),
    "two-label-vgg16-cifar100": (9e-7, 5, 20, 3),
    "four-label-resnet18-cifar100": (3e-6, 25, 15, 3),
    "four-label-vgg16-cifar100": (1e-6, 17, 15, 3),
}
