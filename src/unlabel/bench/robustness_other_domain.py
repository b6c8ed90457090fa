"""The bench `other-domain`: the public set is from somewhere else, or labelled in another order.

A request that is refused for its public set is forced, so that the figures show what it would have
done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.robustness import Ladder, Level, RobustnessSettings
from unlabel.bench.robustness_domains import NOISE, foreign
from unlabel.bench.robustness_summary import finish, table
from unlabel.federation import Federation
from unlabel.forget import PublicSet

NAME = "other-domain"
OWN, ORDER = "own", "own, labels turned"


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


def run(settings: OtherDomainSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Forget with every public set."""
    levels = [
        Level(OWN, settings),
        *(
            Level(name, settings, change=partial(from_elsewhere, name=name))
            for name in settings.others
        ),
        Level(ORDER, settings, change=turned),
    ]
    lines = Ladder(NAME, settings, say).climb(levels)
    return finish(settings, NAME, "public set", [level.name for level in levels], lines)


BENCHES.add(
    NAME,
    Bench("forgetting with a public set of another domain", OtherDomainSettings, run, table),
)
