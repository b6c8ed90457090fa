"""Which models a federation uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from unlabel.models.registry import check_names, default_top, name_of
from unlabel.models.texts import TextSettings
from unlabel.models.tops import Combine


@dataclass(frozen=True)
class ModelSettings:
    """The models of a federation; each name is a built-in one or `module:function`.

    bottom   the bottom model of every party
    top      the top model; the one that goes with the bottom if not given
    combine  how embeddings are joined: concat or sum
    bottoms  the bottom models of single parties, by name of the party
    text     how texts are read, where features are texts
    """

    bottom: str = "mlp"
    top: str | None = None
    combine: Combine = "concat"
    bottoms: dict[str, str] = field(default_factory=dict)
    text: TextSettings = field(default_factory=TextSettings)

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        if callable(self.bottom):  # a class or function, as people hand them over in Python
            object.__setattr__(self, "bottom", name_of(self.bottom))
        check_names([self.bottom, *self.bottoms.values()], self.top)

    @classmethod
    def of(cls, model: str | ModelSettings | Callable[..., nn.Module]) -> ModelSettings:
        """Return settings from a name, a function or class that makes a bottom, or settings."""
        if isinstance(model, ModelSettings):
            return model
        return cls(bottom=model if isinstance(model, str) else name_of(model))

    def under(self, base: Path) -> ModelSettings:
        """Return the same models with a folder of weights taken from `base`, if it lies there."""
        own = base / self.text.weights
        if not self.text.weights or not own.is_dir():
            return self
        return replace(self, text=replace(self.text, weights=str(own)))

    def bottom_of(self, party: str) -> str:
        """Return the name of a party's bottom model."""
        return self.bottoms.get(party, self.bottom)

    def top_name(self) -> str:
        """Return the name of the top model."""
        return self.top or default_top(self.bottom)
