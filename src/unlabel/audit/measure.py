"""What a measure is: a function of what was seen of a model, with its uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from unlabel.audit.seen import Seen
from unlabel.registry import Registry
from unlabel.train.demands import LEVELS, Level

__all__ = ["LEVELS", "MEASURES", "Estimate", "Figure", "Level", "Measure", "Unit"]

#: share is shown as a percentage, ratio as so many times.
Unit = Literal["share", "number", "ratio"]


@dataclass(frozen=True)
class Estimate:
    """A value and how sure it is.

    value      None where it is undefined
    low, high  a 95 % interval
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Figure(Estimate):
    """One measured value.

    detail  plain data for pictures and tables, for example a confusion matrix; each measure says
            in its docstring what stands there
    note    a remark for people, empty where none is needed: why a value is undefined
    """

    detail: dict[str, Any] = field(default_factory=dict, repr=False)
    note: str = ""

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties of which the measure also looked at each alone."""
        return tuple(self.detail.get("parties", ()))


class Measure(ABC):
    """One measure: a frozen dataclass of settings, with the formula in its docstring.

    about             one line for people
    level             the level of forgetting it speaks about; None where it is about utility
    higher_is_better  None where only the distance from the retrained model counts
    unit              share (shown as a percentage), number, or ratio
    bounds            between which the value lies
    """

    about: ClassVar[str]
    level: ClassVar[Level | None] = None
    higher_is_better: ClassVar[bool | None] = None
    unit: ClassVar[Unit] = "share"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Return the value for a model, where `labels` are those to be forgotten."""


MEASURES: Registry[type[Measure]] = Registry("measure", package="unlabel.audit")
