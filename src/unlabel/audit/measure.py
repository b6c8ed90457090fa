"""What a measure is: a function of what was observed of a model, with its uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from unlabel.audit.figures import Figure, Unit
from unlabel.audit.observation import Observation
from unlabel.registry import Registry
from unlabel.terms import Depth

__all__ = ["MEASURES", "Comparison", "Figure", "Measure", "Models"]

#: What was seen of each model, by its name: of some, such as retrained ones, there are several.
Models = Mapping[str, Sequence[Observation]]


class Measure(ABC):
    """One measure: a frozen dataclass of settings, with the formula in its docstring.

    about             one line for people
    depth             the depth of forgetting it speaks about; None where it is about utility
    higher_is_better  None where only the distance from the retrained model counts
    unit              share (shown as a percentage), number, or ratio
    bounds            between which the value lies
    of_tops           whether it is also taken of refitted tops, which share the model's embeddings
    slow              whether it is taken only where retrained models are there for it to rule by
    """

    about: ClassVar[str]
    depth: ClassVar[Depth | None] = None
    higher_is_better: ClassVar[bool | None] = None
    unit: ClassVar[Unit] = "share"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    of_tops: ClassVar[bool] = False
    slow: ClassVar[bool] = False

    @abstractmethod
    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Return the value for a model, where `labels` are those to be forgotten."""

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:  # noqa: ARG002
        """Return the same where the other models are known, `observed` among them."""
        return self.measure(observed, labels)


class Comparison(Measure):
    """A measure of one model beside others, such as the original; alone it has no value."""

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Return no value."""
        return Figure(None, note="There is no other model to compare with.")

    @abstractmethod
    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Return the value for a model beside the others, `observed` among them."""


MEASURES: Registry[type[Measure]] = Registry(
    "measure", package="unlabel.audit.measures", plugins="unlabel.measures"
)
