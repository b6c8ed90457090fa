"""Gradient compression: only the largest numbers of a message are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.config import expect
from unlabel.defend.defence import DEFENCES, Defence, Rows
from unlabel.party import Stream


@DEFENCES.register("top-k")
@dataclass(frozen=True)
class TopK(Defence):
    """Send the k numbers of largest size, k = keep x all of them (at least 1), and 0 for the rest.

    Fu et al., "Label inference attacks against vertical federated learning" (USENIX Security 2022),
    try it against such attacks. It hides small numbers and nothing else: no bound goes with it.

    keep  share of the numbers of a message that are sent
    """

    about: ClassVar[str] = "the largest numbers of a message, zeros for the rest"
    on: ClassVar[tuple[Rows, ...]] = ("gradients",)

    keep: float = 0.1

    def __post_init__(self) -> None:
        expect("keep", self.keep, 0 < self.keep <= 1, "a share above 0, at most 1")

    def apply(self, values: Tensor, stream: Stream, step: int) -> Tensor:  # noqa: ARG002
        """Return the message with all but its largest numbers set to zero."""
        count = max(1, round(self.keep * values.numel()))
        if count >= values.numel():
            return values
        flat = values.flatten()
        kept = flat.abs().topk(count, sorted=False).indices
        # By index, not by a threshold: of numbers that tie, no more than k are sent.
        return torch.zeros_like(flat).index_copy_(0, kept, flat[kept]).view_as(values)
