"""A top model whose outputs are the labels that are known: no more and no fewer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from unlabel.config import OptimiserSettings
from unlabel.errors import CheckpointError
from unlabel.party.learner import Learner, Place
from unlabel.party.randomness import Stream, own_randomness

#: The tensor of a state that holds the names of the outputs.
OUTPUTS = "outputs"


class TopLearner(Learner):
    """A top that is built anew where the list of labels changes.

    A model that never had a label has no output for it. So a request that forgets one begins with
    a top of fewer outputs, with the weights that a new run without the label would draw.

    build  makes the module for so many labels
    names  of the outputs, in their order
    """

    def __init__(
        self,
        build: Callable[[int], nn.Module],
        names: Sequence[str],
        settings: OptimiserSettings,
        *,
        stream: Stream,
        place: Place,
    ) -> None:
        self._build = build
        self.names = tuple(names)
        super().__init__(self._drawn(stream), settings, stream=stream, place=place)

    def _drawn(self, stream: Stream) -> nn.Module:
        with own_randomness(torch.device("cpu")):
            stream.start("init", torch.device("cpu"))
            return self._build(len(self.names))

    def begin_anew(self, names: Sequence[str]) -> None:
        """Take the weights that a new run with these labels would begin with."""
        self.names = tuple(names)
        settings, stream, place = self._training, self._stream, self.place
        super().__init__(self._drawn(stream), settings, stream=stream, place=place)

    def places_in(self, names: Sequence[str]) -> list[int] | None:
        """Return where the outputs stand in a list of labels; None where they are that list."""
        return None if tuple(names) == self.names else [list(names).index(n) for n in self.names]

    def model_state(self) -> dict[str, Tensor]:
        """Return the model and the names of its outputs."""
        return {**super().model_state(), OUTPUTS: self._outputs()}

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, and the names of the outputs."""
        return {**super().state(), OUTPUTS: self._outputs()}

    def _outputs(self) -> Tensor:
        return torch.tensor(list(json.dumps(self.names).encode()), dtype=torch.uint8)

    def load_state(self, named: dict[str, Tensor]) -> None:
        """Return to a state, with the outputs that it has."""
        try:
            names = tuple(json.loads(bytes(named[OUTPUTS].tolist())))
        except (KeyError, ValueError) as error:
            raise CheckpointError("it does not name the labels of its outputs.") from error
        if names != self.names:
            self.begin_anew(names)
        super().load_state({k: v for k, v in named.items() if k != OUTPUTS})
