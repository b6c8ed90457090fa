"""What a measure is: a function of what was observed of a model, with its uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from unlabel.audit.figures import Figure, Unit
from unlabel.audit.observation import Observation
from unlabel.registry import Registry
from unlabel.terms import Depth

__all__ = ["MEASURES", "Figure", "Measure"]


class Measure(ABC):
    """One measure: a frozen dataclass of settings, with the formula in its docstring.

    about             one line for people
    depth             the depth of forgetting it speaks about; None where it is about utility
    higher_is_better  None where only the distance from the retrained model counts
    unit              share (shown as a percentage), number, or ratio
    bounds            between which the value lies
    """

    about: ClassVar[str]
    depth: ClassVar[Depth | None] = None
    higher_is_better: ClassVar[bool | None] = None
    unit: ClassVar[Unit] = "share"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Return the value for a model, where `labels` are those to be forgotten."""


MEASURES: Registry[type[Measure]] = Registry(
    "measure", package="unlabel.audit.measures", plugins="unlabel.measures"
)
