"""The run that a bench measures, as settings that all benches share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.defend import DefendSettings
from unlabel.federation import Federation, make_settings
from unlabel.models import ModelSettings
from unlabel.party import Policy
from unlabel.train import RunConfig

#: Settings of a recipe that are no settings of its training.
NOT_TRAINING = ("data", "model", "parties", "defend_gradients", "defend_embeddings")
#: A party that agreed to noise takes gradients as large as that makes them.
ANY_NORM = 1e30


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
    defend_gradients: tuple[str, ...] = ()
    defend_embeddings: tuple[str, ...] = ()

    def federation(self, seed: int) -> Federation:
        """Return the untrained federation of a seed."""
        train: dict[str, Any] = {
            name: getattr(self, name)
            for name in Recipe.__dataclass_fields__
            if name not in NOT_TRAINING
        }
        # The noise of a bench can be repeated, by its seed.
        defend = DefendSettings(
            gradients=list(self.defend_gradients),
            embeddings=list(self.defend_embeddings),
            seed=seed if self.is_defended() else None,
        )
        return Federation.create(
            RunConfig(
                data=self.data,
                parties=self.parties,
                model=ModelSettings(bottom=self.model),
                train=make_settings({**train, "seed": seed}),
                defend=defend,
                policy=Policy(max_gradient_norm=ANY_NORM) if self.defend_gradients else Policy(),
            )
        )

    def is_defended(self) -> bool:
        """Return whether the parties do anything to what they send."""
        return bool(self.defend_gradients or self.defend_embeddings)
