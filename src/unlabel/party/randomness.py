"""Randomness without memory: every draw is a function of a seed, a name and a step.

Before a party draws (initial weights, dropout, crops) it moves PyTorch's generators to the start of
a stream named by (seed, who, step). So a resumed run continues exactly, with no generator state to
keep, whichever other parties share the process.

Noise in messages is another matter: whoever knows the run's one seed could draw it again and take
it off. A filter is therefore given a stream with 256 secret bits of its own a message, unless a
test or a bench asks for noise that can be repeated. On a CPU NumPy's Philox takes 128 of them, on a
GPU PyTorch's takes 63; docs/process-privacy.md says what that means.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Stream:
    """The random numbers of one drawer, for example the top model of the active party."""

    seed: int
    who: str

    def number(self, step: int | str) -> int:
        """Return the 63-bit number from which the stream of a step starts."""
        name = f"{self.seed}/{self.who}/{step}".encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1

    def start(self, step: int | str, device: torch.device) -> None:
        """Move the generators of the CPU and of `device` to the stream of a step."""
        number = self.number(step)
        torch.default_generator.manual_seed(number)
        if device.type == "cuda":
            torch.cuda.default_generators[device.index or 0].manual_seed(number)

    def generator(self, step: int | str) -> torch.Generator:
        """Return a CPU generator of its own at the start of the stream of a step."""
        return torch.Generator().manual_seed(self.number(step))


def keyed_order(rows: Tensor, key: str) -> Tensor:
    """Return the positions of rows in an order that only the holder of a key can tell.

    Rows are sorted by BLAKE2b(key, row). PyTorch's generators take 32 bits of a seed, which can be
    tried out one by one; a key in hexadecimal has 256.
    """
    secret = bytes.fromhex(key)
    marks = [
        hashlib.blake2b(row.to_bytes(8, "big"), key=secret, digest_size=16).digest()
        for row in rows.tolist()
    ]
    return torch.tensor(sorted(range(len(marks)), key=marks.__getitem__), dtype=torch.int64)


@contextlib.contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Leave the caller's random generators as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def secret_stream(who: str) -> Stream:
    """Return a stream that nobody can start again: its seed has 256 bits."""
    return Stream(secrets.randbits(256), who)


def normal(stream: Stream, step: int, like: Tensor) -> Tensor:
    """Return draws from N(0, 1) in double precision, of a tensor's shape and on its device."""
    if like.device.type == "cpu":
        return torch.from_numpy(_philox(stream, step).standard_normal(tuple(like.shape)))
    draw = torch.Generator(like.device).manual_seed(stream.number(step))
    return torch.randn(like.shape, generator=draw, device=like.device, dtype=torch.float64)


def uniform(stream: Stream, step: int, like: Tensor) -> Tensor:
    """Return draws from [0, 1) in double precision, of a tensor's shape and on its device."""
    if like.device.type == "cpu":
        return torch.from_numpy(_philox(stream, step).random(tuple(like.shape)))
    draw = torch.Generator(like.device).manual_seed(stream.number(step))
    return torch.rand(like.shape, generator=draw, device=like.device, dtype=torch.float64)


def _philox(stream: Stream, step: int) -> np.random.Generator:
    words = [stream.seed, step, int.from_bytes(stream.who.encode(), "big")]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words, pool_size=8)))
