"""The bench `no-labelled`: no public sample has a label.

labelled  beside: the public set with its labels
pseudo    the model itself names the same samples, or those of another dataset
anchors   embeddings made from means and spreads of the labels' training rows; the top moves alone
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.robustness import Ladder, Level, RobustnessSettings
from unlabel.bench.robustness_domains import foreign
from unlabel.bench.robustness_summary import finish, table
from unlabel.federation import Federation
from unlabel.forget import PublicSet, named_by_model

NAME = "no-labelled"


@dataclass(frozen=True)
class NoLabelledSettings(RobustnessSettings):
    """Settings of the bench.

    others  datasets whose images the model names, in place of its own public samples
    """

    others: tuple[str, ...] = ()


def strangers_named(
    federation: Federation, public: PublicSet, seed: int, *, name: str
) -> PublicSet:
    """Return as many samples of another dataset, with the labels that the model gives them."""
    size = max(1, len(public) // len(federation.labels))
    return named_by_model(federation.active, foreign(federation, name, size, seed))


def run(settings: NoLabelledSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Forget with labels and without."""
    kinds = ("labelled", "pseudo", "anchors")
    levels = [
        *(Level(kind, settings, {"public_from": kind}) for kind in kinds),
        *(
            Level(f"pseudo, {name}", settings, change=partial(strangers_named, name=name))
            for name in settings.others
        ),
    ]
    lines = Ladder(NAME, settings, say).climb(levels)
    return finish(settings, NAME, "public set", [level.name for level in levels], lines)


BENCHES.add(
    NAME,
    Bench("forgetting where no public sample has a label", NoLabelledSettings, run, table),
)
