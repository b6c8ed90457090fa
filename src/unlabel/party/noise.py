"""Random numbers that go into messages, which the receiver must not be able to draw again.

All parties of a simulation derive their streams from the run's one seed, so noise from such a
stream would be no protection: whoever knows the seed takes it off. A filter is therefore given a
stream with 256 secret bits of its own a message, unless a test or a bench asks for noise that can
be repeated.

On a CPU they make the 128 bits of a key of NumPy's Philox, where PyTorch's generator would take 32,
which can be tried out. On a GPU PyTorch's own Philox takes 63, and nothing has to be copied.
Neither is a cipher; docs/process-privacy.md says what that means.
"""

from __future__ import annotations

import secrets

import numpy as np
import torch
from torch import Tensor

from unlabel.party.randomness import Stream

#: Bits of a secret stream's seed.
SECRET_BITS = 256


def secret_stream(who: str) -> Stream:
    """Return a stream that nobody can start again."""
    return Stream(secrets.randbits(SECRET_BITS), who)


def normal(stream: Stream, step: int, like: Tensor) -> Tensor:
    """Return draws from N(0, 1) in double precision, of a tensor's shape and where it lies."""
    if like.device.type == "cpu":
        return torch.from_numpy(_philox(stream, step).standard_normal(tuple(like.shape)))
    return torch.randn(
        like.shape, generator=_on(stream, step, like), device=like.device, dtype=torch.float64
    )


def uniform(stream: Stream, step: int, like: Tensor) -> Tensor:
    """Return draws from [0, 1) in double precision, of a tensor's shape and where it lies."""
    if like.device.type == "cpu":
        return torch.from_numpy(_philox(stream, step).random(tuple(like.shape)))
    return torch.rand(
        like.shape, generator=_on(stream, step, like), device=like.device, dtype=torch.float64
    )


def _philox(stream: Stream, step: int) -> np.random.Generator:
    words = [stream.seed, step, int.from_bytes(stream.who.encode(), "big")]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words, pool_size=8)))


def _on(stream: Stream, step: int, like: Tensor) -> torch.Generator:
    return torch.Generator(like.device).manual_seed(stream.number(step))
