"""Bottoms that learn to tell rows apart, whatever view of them is shown."""

from __future__ import annotations

from torch import nn

from unlabel.config import RunConfig
from unlabel.models.registry import Shape, build_bottom
from unlabel.party.objective import OBJECTIVES, Objective


@OBJECTIVES.register("contrast")
class Contrast(Objective):
    """Two random views of a party's row are drawn together, and away from all other rows'.

    With `label_free.across` the parties' embeddings of one person are drawn together as well: the
    label holder computes that, on projections of its own, and sends its gradients.
    """

    about = "two views of a row drawn together, and the parties' embeddings of one person"
    learns = True

    def build(self, party: str, shape: Shape, config: RunConfig) -> nn.Module:
        """Return the party's bottom model, untrained."""
        return build_bottom(config.bottom_of(party), shape, config.code, config.model.text)
