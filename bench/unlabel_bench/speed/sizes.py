"""How many bytes a training step puts on the wire."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unlabel.wire.codec import encoded_size
from unlabel.wire.messages import Done, Embed, Embeddings, Gradients


@dataclass(frozen=True)
class StepBytes:
    """Encoded bytes of one training step, over all passive parties.

    asked       requests for embeddings
    embeddings  the answers to them
    gradients   what is sent down
    done        the answers to those
    """

    asked: int
    embeddings: int
    gradients: int
    done: int

    @property
    def total(self) -> int:
        """All bytes, both ways."""
        return self.asked + self.embeddings + self.gradients + self.done


def step_bytes(
    parties: int,
    batch: int,
    width: int,
    *,
    embeddings: torch.dtype = torch.float32,
    gradients: torch.dtype = torch.float32,
    step: int = 0,
) -> StepBytes:
    """Return the encoded bytes of one step: `len(encode(...))` of its messages, without data.

    >>> step_bytes(2, 64, 32).total - step_bytes(2, 64, 32, embeddings=torch.bfloat16).total
    8192
    """
    rows = torch.empty(batch, dtype=torch.int64, device="meta")
    up = torch.empty(batch, width, dtype=embeddings, device="meta")
    down = torch.empty(batch, width, dtype=gradients, device="meta")
    return StepBytes(
        asked=parties * encoded_size(Embed(step, rows, "train")),
        embeddings=parties * encoded_size(Embeddings(step, up)),
        gradients=parties * encoded_size(Gradients(step, down)),
        done=parties * encoded_size(Done(step)),
    )
