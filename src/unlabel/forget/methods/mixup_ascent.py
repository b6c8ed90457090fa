"""The paper's method: few-shot label unlearning by ascent on mixed embeddings, with recovery."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.forget.method import METHODS, Preset
from unlabel.forget.methods.ascent import Ascent


@METHODS.register("mixup-ascent")
@dataclass(frozen=True)
class MixupAscent(Ascent):
    """Algorithm 1 of the paper with its equations.

    With H_k the embeddings of party k, Mix(a, b) = lambda a + (1 - lambda) b and all ordered pairs
    (i, j) of few-shot samples of one forgotten label, an epoch is

        L_u = mean over i, j, lambda of CE(F(Mix(H_1i, H_1j), .., Mix(H_Ki, H_Kj)), Mix(y_i, y_j))
        w <- w + lr d L_u / d w          in the top and in every bottom
        w <- w - lr d L_r / d w          L_r likewise over all pairs of retained samples

    Mixing happens under autograd at the active party, so that each party gets the exact derivative
    for its own rows. At the paper's rates most of what is forgotten is drift of the normalisation;
    the outcome says how much (the same run at rate 0).
    """

    about = "the paper's Algorithm 1: ascent on mixed embeddings, then recovery"
    tells_partners = "the few-shot samples, their gradients' direction and size"

    mixup: bool = True
    recovery: bool = True

    def presets(self) -> dict[str, Preset]:
        """Return the settings of the paper's two tables."""
        return {
            name: Preset(type(self)(lr=lr, epochs=epochs), few_shot, retained)
            for name, (lr, epochs, few_shot, retained) in PRESETS.items()
        }


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
