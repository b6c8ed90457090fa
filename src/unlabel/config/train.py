"""What a person decides about a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from unlabel.config.checks import expect, one_of
from unlabel.config.data import Augment
from unlabel.errors import SettingsError

OptimiserKind = Literal["sgd", "adam"]
#: How a rate runs over the steps: it stays, or falls to zero along a line or a cosine.
Schedule = Literal["constant", "linear", "cosine"]
Precision = Literal["float32", "bf16"]
#: Where the data decides; see `train.epochs`.
AUTO: Literal["auto"] = "auto"


@dataclass(frozen=True)
class OptimiserSettings:
    """Settings of one party's optimiser.

    optimiser     sgd or adam
    lr            the highest learning rate
    momentum      momentum of SGD
    nesterov      Nesterov's form of that momentum
    weight_decay  L2 penalty on every weight
    schedule      constant, or falling to zero along a line or a cosine
    warmup        share of the steps in which the rate rises to `lr` first
    """

    optimiser: OptimiserKind = "sgd"
    lr: float = 0.05
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    schedule: Schedule = "cosine"
    warmup: float = 0.0

    def __post_init__(self) -> None:
        one_of("optimiser", self.optimiser, get_args(OptimiserKind))
        one_of("schedule", self.schedule, get_args(Schedule))
        expect("lr", self.lr, self.lr >= 0 and math.isfinite(self.lr), "a number of 0 or more")
        expect("momentum", self.momentum, 0 <= self.momentum < 1, "from 0 to below 1")
        expect("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
        expect("warmup", self.warmup, 0 <= self.warmup < 1, "a share from 0 to below 1")


@dataclass(frozen=True)
class MachineSettings:
    """Where and how a party computes; each party of a federation decides it for itself.

    device         cpu, cuda, or auto for whatever there is
    precision      float32, or bf16 for faster matrix products on a GPU
    graphs         replay the bottoms' passes as CUDA graphs: the same arithmetic, fewer launches
    deterministic  use only repeatable kernels on a GPU (slower); a CPU is always repeatable
    save_every     epochs between two checkpoints
    """

    device: str = "cpu"
    precision: Precision = "float32"
    graphs: bool = False
    deterministic: bool = False
    save_every: int = 1

    def __post_init__(self) -> None:
        one_of("device", self.device.partition(":")[0], ("auto", "cpu", "cuda"))
        one_of("precision", self.precision, get_args(Precision))
        expect("save_every", self.save_every, self.save_every >= 1, "at least 1")


@dataclass(frozen=True)
class TrainSettings(MachineSettings, OptimiserSettings):
    """Settings of a training; the optimiser's settings hold for every party.

    epochs      passes over the training rows; auto makes 600 steps of it, but 20 to 100 epochs
    batch       rows a step
    seed        names every random draw; the same seed gives the same run
    test        share of the rows kept for testing, where the data has no test part of its own
    validation  share of the other rows that guides early stopping, never used to train or test
    public      rows of each label set aside as the public set for forgetting, a tenth at most
    patience    stop after so many epochs without a better validation accuracy, and return to the
                best; 0 trains all epochs; auto is half of the epochs where these are auto, else 0
    augment     what may be done to training images; auto is what suits the dataset
    mixup       mix embeddings in pairs, with shares drawn from Beta(mixup, mixup); 0 mixes none
    balance     weigh every label alike in the loss, however many rows it has
    remember    numbers of labels: every party keeps the sum of what the batches that hold them
                change, so that `amnesiac` can subtract it; partners see which batches those are
    """

    epochs: int | Literal["auto"] = AUTO
    batch: int = 64
    seed: int = 0
    test: float = 0.2
    validation: float = 0.1
    public: int = 40
    patience: int | Literal["auto"] = AUTO
    augment: Augment | Literal["auto"] = AUTO
    mixup: float = 0.0
    balance: bool = False
    remember: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expect("lr", self.lr, self.lr > 0 and math.isfinite(self.lr), "a number above 0")
        OptimiserSettings.__post_init__(self)
        MachineSettings.__post_init__(self)
        expect("epochs", self.epochs, _at_least(self.epochs, 1), "auto or at least 1")
        expect("batch", self.batch, self.batch >= 2, "at least 2")
        expect("seed", self.seed, self.seed >= 0, "0 or more")
        expect("test", self.test, 0 < self.test < 1, "a share between 0 and 1")
        expect("validation", self.validation, 0 <= self.validation < 1, "a share from 0 to below 1")
        expect("public", self.public, self.public >= 0, "0 or more")
        expect("patience", self.patience, _at_least(self.patience, 0), "auto or 0 or more")
        expect("remember", self.remember, all(n >= 0 for n in self.remember), "numbers of labels")
        expect("mixup", self.mixup, 0 <= self.mixup < math.inf, "0 or more")
        one_of("augment", self.augment, (AUTO, *get_args(Augment)))
        if self.patience == AUTO and (self.epochs != AUTO or not self.validation):
            object.__setattr__(self, "patience", 0)
        if self.patience and not self.validation:
            raise SettingsError("Expected `validation` above 0 where `patience` is set but got 0.")


#: Settings that the loop alone reads, so that they may still change before it starts.
LOOP_SETTINGS = ("epochs", "batch", "patience", "save_every")
#: Settings of a training together, which a blind run does not have.
JOINT_SETTINGS = (
    *(each.name for each in fields(OptimiserSettings)),
    *("epochs", "batch", "mixup"),
)
#: Settings that may differ from sitting to sitting, since they only say where and how to compute.
MACHINE_SETTINGS = tuple(each.name for each in fields(MachineSettings))
#: Settings that each party of a federation decides for itself.
OWN_SETTINGS = ("seed", "remember", *MACHINE_SETTINGS)


def _at_least(value: object, least: int) -> bool:
    """Return whether a number that the data may decide is large enough."""
    return value == AUTO or (isinstance(value, int) and value >= least)
