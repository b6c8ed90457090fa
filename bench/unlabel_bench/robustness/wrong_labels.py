"""The bench `wrong-labels`: a share of the public labels is wrong, each another label at random.

`public-noise` has three ways in which labels can be wrong, and what is noticed of them; this one
holds the first of them against retraining, with the attack and the probes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import get_args

from unlabel.config import expect, one_of
from unlabel.config.forget import Robust
from unlabel.federation import Federation
from unlabel.forget import PublicSet
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.levels import Circumstance, RobustnessSettings
from unlabel_bench.robustness.public_noise import make_wrong
from unlabel_bench.robustness.summary import add_bench, climb

NAME = "wrong-labels"


@dataclass(frozen=True)
class WrongLabelsSettings(RobustnessSettings):
    """Settings of the bench.

    shares  of wrong labels
    robust  what a request does about suspects: none, drop, weight
    """

    shares: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.4)
    robust: tuple[str, ...] = ("none",)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect("shares", self.shares, all(0 <= x < 1 for x in self.shares), "from 0 to below 1")
        for robust in self.robust:
            one_of("robust", robust, get_args(Robust))


def some_wrong(
    federation: Federation, public: PublicSet, seed: int, *, label: int, share: float
) -> PublicSet:
    """Return the set with a share of all labels wrong."""
    count = len(federation.labels)
    return make_wrong(public, label, share, "any", count=count, keep=0, seed=seed)


def measure(settings: WrongLabelsSettings, say: Say) -> Result:
    """Forget with every share of wrong labels."""
    levels = [
        Circumstance(
            f"{100 * share:g} %" + ("" if robust == "none" else f", {robust}"),
            settings,
            {"robust": robust},
            partial(some_wrong, label=settings.labels[0], share=share),
        )
        for robust in settings.robust
        for share in sorted(settings.shares)
    ]
    return climb(NAME, "wrong labels", settings, say, levels)


add_bench(NAME, "forgetting with wrong labels in the public set", WrongLabelsSettings, measure)
