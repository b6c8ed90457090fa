"""What a measure is: a function of what was seen of a model, with its uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from unlabel.audit.seen import Seen
from unlabel.registry import Registry
from unlabel.train.demands import LEVELS, Level

__all__ = ["LEVELS", "MEASURES", "Figure", "Level", "Measure"]


@dataclass(frozen=True)
class Figure:
    """One measured value.

    value      None where it is undefined; `note` says why
    low, high  a 95 % interval
    detail     plain data for pictures and tables, for example a confusion matrix
    note       a remark for people, empty where none is needed
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    note: str = ""


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
    unit: ClassVar[Literal["share", "number", "ratio"]] = "share"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Return the value for a model, where `labels` are those to be forgotten."""


MEASURES: Registry[type[Measure]] = Registry("measure", package="unlabel.audit")
