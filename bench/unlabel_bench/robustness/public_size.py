"""The bench `public-size`: how many public samples a label a request needs.

One original a seed is trained beside the largest set; a level takes the first few samples of every
label of it. A request uses as many of the forgotten label as there are, and three of each other,
where its method draws few; `hidden:samples=public` looks at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from unlabel.config import expect
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import PublicSet
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.levels import Circumstance, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, climb

NAME = "public-size"


@dataclass(frozen=True)
class PublicSizeSettings(RobustnessSettings):
    """Settings of the bench.

    public  rows a label that are set aside before training
    sizes   public samples a label
    """

    public: int = 80
    sizes: tuple[int, ...] = (5, 10, 20, 40, 80)

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = all(2 <= size <= self.public for size in self.sizes)
        expect("sizes", self.sizes, fits, f"from 2 to `public`, which is {self.public}")


def first_of_each(federation: Federation, public: PublicSet, seed: int, *, size: int) -> PublicSet:  # noqa: ARG001
    """Return the first `size` samples of every label."""
    places = [
        (public.labels == label).nonzero()[:, 0][:size] for label in public.labels.unique().tolist()
    ]
    fewest = min(map(len, places))
    if fewest < size:
        raise SettingsError(
            f"Expected {size} public samples of every label but one has {fewest}: no more than a "
            f"tenth of a label's rows is set aside; name smaller `sizes` or larger data."
        )
    return public.take(torch.cat(places).sort().values)


def measure(settings: PublicSizeSettings, say: Say) -> Result:
    """Forget with every size of the set."""
    levels = [
        Circumstance(str(size), settings, {"few_shot": size}, partial(first_of_each, size=size))
        for size in sorted(settings.sizes)
    ]
    return climb(NAME, "samples a label", settings, say, levels)


add_bench(
    NAME, "forgetting with few public samples a label, and fewer", PublicSizeSettings, measure
)
