"""Principal components of a party's columns."""

from __future__ import annotations

from torch import nn

from unlabel.config import RunConfig
from unlabel.errors import SettingsError
from unlabel.models.components import Components
from unlabel.models.registry import Shape
from unlabel.party.objective import OBJECTIVES, Objective, is_own


@OBJECTIVES.register("components")
class PrincipalComponents(Objective):
    """A partner sends whitened components, fewer than it has columns by default.

    The label holder's own columns, which nobody is sent, stay as they are.
    """

    about = "whitened principal components of a party's columns, fitted in seconds"
    is_tunable = False

    def build(self, party: str, shape: Shape, config: RunConfig) -> nn.Module:
        """Return components, or for the label holder its columns as they are."""
        if config.model.text.weights == "" and config.bottom_of(party) in ("words", "bert"):
            raise SettingsError(
                "Words are names and no quantities, so they have no principal components; take "
                "label_free.objective contrast, or a frozen encoder (`model.text.frozen`)."
            )
        settings = config.label_free
        if is_own(party):
            return nn.Flatten()
        return Components(shape, width=settings.width, scale=settings.scale)
