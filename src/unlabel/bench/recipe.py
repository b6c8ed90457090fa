"""The run that a bench measures, as settings that all benches share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.federation import Federation


@dataclass(frozen=True)
class Recipe:
    """A dataset between parties, a model, and how it is trained: settings of a run by name."""

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

    def federation(self, seed: int) -> Federation:
        """Return the untrained federation of a seed."""
        train: dict[str, Any] = {
            name: getattr(self, name)
            for name in Recipe.__dataclass_fields__
            if name not in ("data", "model", "parties")
        }
        return Federation.local(
            self.data, parties=self.parties, model=self.model, seed=seed, **train
        )
