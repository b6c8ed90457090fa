"""Half precision on the wire: two bytes a number in place of four."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from unlabel.config import one_of
from unlabel.defend.defence import DEFENCES, Defence
from unlabel.errors import WireError
from unlabel.party import Stream

HalfType = Literal["bf16", "fp16"]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@DEFENCES.register("half")
@dataclass(frozen=True)
class Half(Defence):
    """Round each number to 16 bits; the receiver computes in float32 again.

    bf16 keeps the range of float32 and 8 binary digits: what is sent lies within |x| / 256 of x.
    fp16 keeps 11 digits, within |x| / 2048, but ends at 65504 and rounds to 0 below 3e-8: a number
    above is refused, never sent as infinity. Gradients of a mean loss are small, so bf16 suits
    them, and fp16 embeddings. It hides nothing and comes with no bound: the only gain is bytes.

    dtype  bf16 or fp16
    """

    about: ClassVar[str] = "numbers of 16 bits, for half the bytes on the wire"
    last: ClassVar[bool] = True

    dtype: HalfType = "bf16"

    def __post_init__(self) -> None:
        one_of("dtype", self.dtype, get_args(HalfType))

    def apply(self, values: Tensor, stream: Stream, step: int) -> Tensor:  # noqa: ARG002
        """Return the rows in 16 bits, or refuse where they do not fit."""
        rounded = values.to(DTYPES[self.dtype])
        # Read back even from an accelerator: what is made small goes over a network next.
        if not torch.isfinite(rounded).all() and torch.isfinite(values).all():
            most, largest = torch.finfo(rounded.dtype).max, values.abs().max().item()
            raise WireError(
                f"Expected numbers up to {most:g}, the largest of {self.dtype}, but found "
                f"{largest:.3g} in step {step}; send float32, or bf16 in place of fp16."
            )
        return rounded
