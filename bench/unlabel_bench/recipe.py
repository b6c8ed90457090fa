"""The run that a bench measures, as settings that all benches share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from unlabel.config import (
    Columns,
    DefendSettings,
    ModelSettings,
    Policy,
    RunConfig,
    SplitKind,
    TextSettings,
    TrainSettings,
)
from unlabel.federation import Federation
from unlabel.train import load_holdings
from unlabel.train.checks import training_settings
from unlabel.words import parse_settings

#: Settings that came later: where they are as by default, a recipe is what it was before them.
LATER = (
    *("defend_gradients", "defend_embeddings", "split", "widths", "columns", "text", "top"),
    *("mixup", "balance", "same_rows"),
)
#: A party that agreed to noise takes gradients as large as that makes them.
ANY_NORM = 1e30


@dataclass(frozen=True)
class Recipe:
    """A dataset between parties, a model, and how it is trained: settings of a run by name.

    folder   where the file or the files of the data lie; no part of what is recorded
    widths   of the parts, where they are not even; `parties` is not looked at then
    columns  of a CSV or Parquet file, as NAME=VALUE; a list has + between its values
    text     how texts are read, as NAME=VALUE
    top      the top model; the one that goes with the bottom if not given
    same_rows  whether every seed has the parts of the rows that seed 0 has
    """

    data: str = "digits"
    model: str = "convnet"
    parties: int = 2
    epochs: int = 15
    batch: int = 64
    lr: float = 0.05
    weight_decay: float = 5e-4
    warmup: float = 0.0
    nesterov: bool = False
    schedule: str = "cosine"
    augment: str = "auto"
    validation: float = 0.1
    public: int = 40
    device: str = "cpu"
    precision: str = "float32"
    graphs: bool = False
    defend_gradients: tuple[str, ...] = ()
    defend_embeddings: tuple[str, ...] = ()
    folder: str = ""
    split: str = ""
    widths: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    top: str = ""
    mixup: float = 0.0
    balance: bool = False
    same_rows: bool = False

    def federation(self, seed: int) -> Federation:
        """Return the untrained federation of a seed."""
        if not self.same_rows:
            return Federation.create(self.config(seed))
        rows = load_holdings(self.config(0).under(Path.cwd()))
        return Federation.of(replace(rows, config=self.config(seed).under(Path.cwd())))

    def config(self, seed: int) -> RunConfig:
        """Return the run of a seed as settings."""
        train: dict[str, Any] = {
            name: getattr(self, name)
            for name in {f.name for f in fields(Recipe)} & {f.name for f in fields(TrainSettings)}
        }
        # The noise of a bench can be repeated, by its seed.
        defend = DefendSettings(
            gradients=list(self.defend_gradients),
            embeddings=list(self.defend_embeddings),
            seed=seed if self.is_defended() else None,
        )
        return RunConfig(
            data=self.data,
            folder=Path(self.folder) if self.folder else None,
            columns=parse_settings(Columns, [_listed(word) for word in self.columns]),
            parties=self.widths or self.parties,
            split=cast(SplitKind | None, self.split or None),
            model=ModelSettings(
                bottom=self.model,
                top=self.top or None,
                text=parse_settings(TextSettings, self.text),
            ),
            # Kept once, at the end: nobody goes back to an epoch of a bench.
            train=training_settings({**train, "seed": seed, "save_every": self.epochs}),
            defend=defend,
            policy=Policy(max_gradient_norm=ANY_NORM) if self.defend_gradients else Policy(),
        )

    def is_defended(self) -> bool:
        """Return whether the parties do anything to what they send."""
        return bool(self.defend_gradients or self.defend_embeddings)


@dataclass(frozen=True)
class RecordedRecipe(Recipe):
    """A recipe whose figures are kept and shown.

    records  JSONL file of the figures; it is read first, and what is there is not repeated
    picture  PNG file to draw into; needs matplotlib
    page     Markdown file to write the tables into
    note     a sentence for that page, below its introduction
    """

    records: str = ""
    picture: str = ""
    page: str = ""
    note: str = ""

    def about(self, *names: str) -> dict[str, Any]:
        """Return what a page and a picture say of the run."""
        return {name: getattr(self, name) for name in (*names, "note")}


def _listed(word: str) -> str:
    """Return a word about columns with commas in its list, which ended a word before.

    >>> _listed("categories=sex+job")
    'categories=sex,job'
    """
    return word.replace("+", ",") if word.startswith("categories=") else word
