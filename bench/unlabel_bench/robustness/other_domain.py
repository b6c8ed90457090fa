"""The bench `other-domain`: the public set is from somewhere else, or labelled in another order.

A request that is refused for its public set is forced, so that the figures show what it would have
done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from unlabel.federation import Federation
from unlabel.forget import PublicSet
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.domains import NOISE, foreign
from unlabel_bench.robustness.levels import Circumstance, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, climb

NAME = "other-domain"
SAME, ORDER = "own", "own, labels turned"


@dataclass(frozen=True)
class OtherDomainSettings(RobustnessSettings):
    """Settings of the bench.

    others  datasets that public sets are taken from; `noise` is pixels drawn at random
    """

    others: tuple[str, ...] = (NOISE,)


def turned(federation: Federation, public: PublicSet, seed: int) -> PublicSet:  # noqa: ARG001
    """Return the set with every label called by the next one's name."""
    return replace(public, labels=(public.labels + 1) % len(federation.labels))


def from_elsewhere(federation: Federation, public: PublicSet, seed: int, *, name: str) -> PublicSet:
    """Return as many samples a label of another dataset."""
    size = max(1, len(public) // len(federation.labels))
    return foreign(federation, name, size, seed)


def measure(settings: OtherDomainSettings, say: Say) -> Result:
    """Forget with every public set."""
    levels = [
        Circumstance(SAME, settings),
        *(
            Circumstance(name, settings, change=partial(from_elsewhere, name=name))
            for name in settings.others
        ),
        Circumstance(ORDER, settings, change=turned),
    ]
    return climb(NAME, "public set", settings, say, levels)


add_bench(NAME, "forgetting with a public set of another domain", OtherDomainSettings, measure)
