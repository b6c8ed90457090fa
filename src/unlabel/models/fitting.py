"""Parts of a bottom model that are fitted to the training rows before the first step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

from torch import Tensor, nn


class Fitted(nn.Module):
    """A part that is fitted once, before training, by its owner and on its owner's rows alone.

    What is fitted lies in buffers, so that it is part of every checkpoint. There are no labels in
    it, and nothing of other parties. Training again without some rows fits it again without them.
    """

    @abstractmethod
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Fit to the training rows, batch by batch as the bottom model reads them."""


def fit_parts(module: nn.Module, batches: Callable[[], Iterable[Tensor]]) -> None:
    """Fit every part of a model that is to be fitted; rows are read only if there is one."""
    for part in module.modules():
        if isinstance(part, Fitted):
            part.fit(batches())
