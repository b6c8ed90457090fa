"""The bench `no-labelled`: no public sample has a label.

labelled  beside: the public set with its labels
pseudo    the model itself names the same samples, or those of another dataset
anchors   embeddings made from means and spreads of the labels' training rows; the top moves alone
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from unlabel.federation import Federation
from unlabel.forget import PublicSet, named_by_model
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.domains import foreign
from unlabel_bench.robustness.levels import Circumstance, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, climb

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


def measure(settings: NoLabelledSettings, say: Say) -> Result:
    """Forget with labels and without."""
    kinds = ("labelled", "pseudo", "anchors")
    levels = [
        *(Circumstance(kind, settings, {"public_from": kind}) for kind in kinds),
        *(
            Circumstance(f"pseudo, {name}", settings, change=partial(strangers_named, name=name))
            for name in settings.others
        ),
    ]
    return climb(NAME, "public set", settings, say, levels)


add_bench(NAME, "forgetting where no public sample has a label", NoLabelledSettings, measure)
