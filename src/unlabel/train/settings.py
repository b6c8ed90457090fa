"""What a person decides about a training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from unlabel.data import Augment
from unlabel.errors import SettingsError
from unlabel.party import OptimiserSettings, Place, Precision
from unlabel.party.lateness import LateRule
from unlabel.party.optimiser import expect, one_of

#: Where the data decides; see `train.epochs`.
AUTO: Literal["auto"] = "auto"
#: Steps that a party may be late at most: for each it keeps the way back through its model.
MOST_LATE = 64


@dataclass(frozen=True)
class TrainSettings(OptimiserSettings):
    """Settings of a training; the optimiser's settings hold for every party.

    epochs         passes over the training rows; auto takes as many as make 600 steps, but 20 to
                   100, and the run keeps the number
    batch          rows a step
    seed           names every random draw; the same seed gives the same run
    test           share of the rows kept for testing, where the data has no test part of its own
    validation     share of the other rows that guides early stopping, never used to train or test
    public         rows of each label set aside before training as the public set for forgetting, a
                   tenth of a label's rows at most; 0 sets none aside
    patience       stop after so many epochs without a better validation accuracy (or the same at a
                   lower loss), and return to the best; 0 trains all epochs; auto is half of the
                   epochs where these are auto too, and 0 where they are given
    augment        what may be done to training images; auto is what suits the dataset
    device         cpu, cuda, or auto for whatever there is
    precision      float32, or bf16 for faster matrix products on a GPU
    graphs         replay the bottoms' passes as CUDA graphs: the same arithmetic, fewer launches
    deterministic  use only repeatable kernels on a GPU (slower); a CPU is always repeatable
    save_every     epochs between two checkpoints
    mixup          train on embeddings mixed in pairs, with shares drawn from Beta(mixup, mixup); 0
                   mixes nothing
    balance        weigh every label alike in the loss, however many rows it has
    late           steps that parties have for an answer: each is asked for so many batches ahead,
                   and its embeddings are so many updates old when they are used, never more; with
                   0 they are new, and the models train as one
    late_parties   names of the parties that may be late; none stands for all passive ones
    late_rule      foresee: late parties embed with the weights they will probably have when the
                   gradients come; plain: with those they have
    remember       numbers of labels: every party keeps the sum of what the batches that hold them
                   change, so that `amnesiac` can subtract it. It tells partners which batches
                   those are, and takes as much room as the models
    """

    epochs: int | Literal["auto"] = AUTO
    batch: int = 64
    seed: int = 0
    test: float = 0.2
    validation: float = 0.1
    public: int = 40
    patience: int | Literal["auto"] = AUTO
    augment: Augment | Literal["auto"] = "auto"
    device: str = "cpu"
    precision: Precision = "float32"
    graphs: bool = False
    deterministic: bool = False
    save_every: int = 1
    mixup: float = 0.0
    balance: bool = False
    late: int = 0
    late_parties: tuple[str, ...] = ()
    late_rule: LateRule = "foresee"
    remember: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expect("lr", self.lr, self.lr > 0 and math.isfinite(self.lr), "a number above 0")
        super().__post_init__()
        expect("epochs", self.epochs, _at_least(self.epochs, 1), "auto or at least 1")
        expect("batch", self.batch, self.batch >= 2, "at least 2")
        expect("seed", self.seed, self.seed >= 0, "0 or more")
        expect("test", self.test, 0 < self.test < 1, "a share between 0 and 1")
        expect("validation", self.validation, 0 <= self.validation < 1, "a share from 0 to below 1")
        expect("public", self.public, self.public >= 0, "0 or more")
        expect("patience", self.patience, _at_least(self.patience, 0), "auto or 0 or more")
        expect("save_every", self.save_every, self.save_every >= 1, "at least 1")
        expect("remember", self.remember, all(n >= 0 for n in self.remember), "numbers of labels")
        expect("mixup", self.mixup, 0 <= self.mixup < math.inf, "0 or more")
        expect("late", self.late, 0 <= self.late <= MOST_LATE, f"from 0 to {MOST_LATE}")
        one_of("late_rule", self.late_rule, get_args(LateRule))
        one_of("augment", self.augment, ("auto", *get_args(Augment)))
        one_of("precision", self.precision, get_args(Precision))
        one_of("device", self.device.partition(":")[0], ("auto", "cpu", "cuda"))
        if self.patience == AUTO and (self.epochs != AUTO or not self.validation):
            object.__setattr__(self, "patience", 0)
        if self.patience and not self.validation:
            raise SettingsError("Expected `validation` above 0 where `patience` is set but got 0.")
        if self.late and self.graphs:
            raise SettingsError(
                f"Expected `graphs` only where no party is late but got `late` {self.late}; a "
                f"graph has room for one batch. Set `graphs` to false or `late` to 0."
            )

    def place(self) -> Place:
        """Return where to compute; a missing GPU is an error, not a slow surprise."""
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name.startswith("cuda") and not torch.cuda.is_available():
            raise SettingsError("Expected a CUDA device but this machine has none; use 'cpu'.")
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise SettingsError(
                f"Expected `device` like cpu or cuda:0 but got '{name}'."
            ) from error
        if device.type == "cuda":
            if (device.index or 0) >= torch.cuda.device_count():
                raise SettingsError(
                    f"Expected one of {torch.cuda.device_count()} CUDA devices but got '{name}'."
                )
            torch.backends.cudnn.benchmark = not self.deterministic
            torch.backends.cudnn.deterministic = self.deterministic
        if self.graphs and device.type != "cuda":
            raise SettingsError("Expected `graphs` only with a CUDA device; set it to false.")
        return Place(device, self.precision, self.graphs)


def _at_least(value: object, least: int) -> bool:
    """Return whether a number that the data may decide is large enough."""
    return value == AUTO or (isinstance(value, int) and value >= least)


def check_remembered(labels: tuple[int, ...], count: int) -> None:
    """Raise where a label to be remembered is none of the data's."""
    wrong = [label for label in labels if label >= count]
    if wrong:
        raise SettingsError(
            f"Expected `remember` to name labels from 0 to {count - 1} but got {wrong[0]}."
        )


def check_batch(batch: int, rows: Tensor, most: int) -> None:
    """Raise where a batch is larger than the data or than what every party serves."""
    if batch > len(rows):
        raise SettingsError(
            f"Expected `batch` to be at most the {len(rows)} training rows but got {batch}; set a "
            f"smaller `batch`."
        )
    if batch > most:
        raise SettingsError(
            f"Expected `batch` to be at most {most}, the rows a request that every party's policy "
            f"allows, but got {batch}."
        )
