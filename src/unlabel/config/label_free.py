"""How bottoms are made without labels, and how a top is fitted to what they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from unlabel.config.checks import expect, one_of
from unlabel.config.train import AUTO

#: supervised  bottoms learn from labels, from the first step on
#: blind       bottoms never see a label; the top is fitted to embeddings that are kept
#: tuned       as blind at first, then all models are trained together with labels
BottomsKind = Literal["supervised", "blind", "tuned"]
BOTTOMS_KINDS: tuple[BottomsKind, ...] = get_args(BottomsKind)
Scale = Literal["standard", "quantile"]


@dataclass(frozen=True)
class LabelFreeSettings:
    """How bottoms are made without labels.

    objective    components, pretrained or contrast; auto is what suits the features
    width        components: how many there are, as a share of a party's columns
    scale        components: columns standardised, or brought to a normal distribution by rank
    epochs       contrast: passes over the rows
    batch        contrast: rows a step
    lr           contrast: the highest rate of SGD, after a rise over a tenth of the steps, in
                 batches of 1,024 rows; smaller ones take their share of it
    flip         contrast and views: a party's images are mirrored, half of them
    across       contrast: the parties' embeddings of one person are drawn together too; gradients
                 of that come from the label holder
    temperature  contrast: by which similarities are divided
    views        augmented views of every training row that the top is fitted to; 0 is the row alone
    """

    objective: str = AUTO
    width: float = 0.5
    scale: Scale = "standard"
    epochs: int = 60
    batch: int = 1024
    lr: float = 0.4
    flip: bool = True
    across: bool = True
    temperature: float = 0.2
    views: int = 0

    def __post_init__(self) -> None:
        one_of("label_free.scale", self.scale, get_args(Scale))
        expect("label_free.width", self.width, 0 < self.width <= 1, "a share above 0, to 1")
        expect("label_free.epochs", self.epochs, self.epochs >= 1, "at least 1")
        expect("label_free.batch", self.batch, self.batch >= 2, "at least 2")
        expect("label_free.lr", self.lr, 0 < self.lr < math.inf, "a number above 0")
        warm = self.temperature
        expect("label_free.temperature", warm, 0 < warm < math.inf, "a number above 0")
        expect("label_free.views", self.views, 0 <= self.views <= 64, "from 0 to 64")

    def resolved(self, suited: str) -> LabelFreeSettings:
        """Return the same with an objective: the one that was chosen, or the one that suits."""
        return replace(self, objective=suited) if self.objective == AUTO else self


def suited_to_tables(bottoms: BottomsKind, *, texts: bool, frozen: bool) -> str:
    """Return the objective that suits the parties' own tables.

    texts   whether a party has a column of texts
    frozen  whether texts are read by a frozen encoder

    >>> suited_to_tables("blind", texts=False, frozen=False)
    'components'
    """
    if texts:
        return "pretrained" if frozen else "contrast"
    return "contrast" if bottoms == "tuned" else "components"  # which no training can move


@dataclass(frozen=True)
class FitSettings:
    """How the top of a blind run is fitted to embeddings, by AdamW along a cosine.

    epochs        passes over the training rows; auto makes 1,000 steps of it, but 10 to 300 epochs
    batch         rows a step
    lr            the highest learning rate
    weight_decay  of AdamW
    """

    epochs: int | Literal["auto"] = AUTO
    batch: int = 256
    lr: float = 5e-3
    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        fits = self.epochs == AUTO or (isinstance(self.epochs, int) and self.epochs >= 1)
        expect("fit.epochs", self.epochs, fits, "auto or at least 1")
        expect("fit.batch", self.batch, self.batch >= 2, "at least 2")
        expect("fit.lr", self.lr, 0 < self.lr < math.inf, "a number above 0")
        expect("fit.weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
