"""Encoders that somebody else has trained, as they are."""

from __future__ import annotations

from torch import nn

from unlabel.config import RunConfig
from unlabel.errors import SettingsError
from unlabel.models.registry import Shape, build_bottom
from unlabel.party.objective import OBJECTIVES, Objective


@OBJECTIVES.register("pretrained")
class Pretrained(Objective):
    """The features of a frozen encoder of texts, or the user's own module with its weights."""

    about = "a frozen encoder: of texts with `model.text.frozen`, or your own module"

    def build(self, party: str, shape: Shape, config: RunConfig) -> nn.Module:
        """Return the encoder; where features were made by one already, there is nothing to add."""
        name, is_tuned = config.bottom_of(party), config.bottoms == "tuned"
        if config.model.text.frozen and is_tuned:
            raise SettingsError(
                "A frozen encoder of texts has no weights that a training with labels could move; "
                "take bottoms blind, or leave `model.text.frozen` out."
            )
        if config.model.text.frozen:
            return nn.Flatten()
        if ":" not in name:
            raise SettingsError(
                f"Model '{name}' comes without weights, so it cannot be taken as pretrained; name "
                f"your own as module:function, or take label_free.objective contrast."
            )
        module = build_bottom(name, shape, config.code, config.model.text, trained=False)
        return module if is_tuned else module.requires_grad_(False)
