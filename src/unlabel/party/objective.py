"""What makes a bottom without labels: an objective, one a file in `party/objectives`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unlabel.config import RunConfig
from unlabel.config.data import ACTIVE
from unlabel.errors import SettingsError, unknown
from unlabel.models.registry import Shape
from unlabel.registry import Registry


class Objective(ABC):
    """One way to make a bottom from features alone.

    about       one line for people
    learns      whether the bottom is trained by pairs of views; else it is fitted once, or is ready
    is_tunable  whether the bottom has weights that a training with labels can move afterwards
    """

    about: ClassVar[str]
    learns: ClassVar[bool] = False
    is_tunable: ClassVar[bool] = True

    @abstractmethod
    def build(self, party: str, shape: Shape, config: RunConfig) -> nn.Module:
        """Return the bottom of a party for rows of a shape."""


OBJECTIVES: Registry[type[Objective]] = Registry(
    "label-free objective", package="unlabel.party.objectives", plugins="unlabel.objectives"
)


@dataclass(frozen=True)
class Plan:
    """How the bottoms of a run are made.

    learns     whether they are trained, by pairs of views
    gradients  whether the label holder sends gradients of how far parties agree
    """

    objective: Objective
    learns: bool
    gradients: bool


def plan_of(config: RunConfig) -> Plan:
    """Return how the bottoms of a run are made without labels."""
    settings = config.label_free
    if settings.objective not in OBJECTIVES.names():
        raise SettingsError(unknown("label_free.objective", settings.objective, OBJECTIVES.names()))
    objective = OBJECTIVES.get(settings.objective)()
    if config.bottoms == "tuned" and not objective.is_tunable:
        raise SettingsError(
            f"Bottoms of label_free.objective {settings.objective} have no weights that a training "
            f"with labels could move; take bottoms blind, or label_free.objective contrast."
        )
    return Plan(objective, objective.learns, objective.learns and settings.across)


def is_own(party: str) -> bool:
    """Return whether a party is the label holder, whose features nobody else is sent."""
    return party == ACTIVE
