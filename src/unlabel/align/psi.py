"""Private set intersection of two parties: a thin layer over `openmined-psi`, on all cores.

With H a hash into the curve P-256 and keys c and s that never leave their owners:

    asker     masks its ids                 c H(x)
    answerer  answers each of them with     s c H(x)     and tells its own ids as s H(y), sorted
    asker     takes its key off again       s H(x)       and looks which of them are among s H(y)

The asker learns the common ids and how many the answerer has; the answerer learns how many the
asker has. Elements are compared whole (RAW), so there is no false match. Keys are new for every
object, and what is masked is sorted by its masked form, so that no order tells anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from unlabel.data.dataset import Array
from unlabel.errors import SettingsError, WireError

#: Called with what is done, of how much, and a word on what it is.
Watch = Callable[[int, int, str], None]

#: Bytes of a compressed point.
POINT = 33
#: Ids a piece of work: some 100 ms of one core.
PIECE = 1024
#: Ids that are not worth a second thread.
SMALL = 256
#: Every piece of unmasking reads the other party's whole set, so there are few pieces of a large
#: one: reading costs less than a twentieth of the work that way.
READS = 8

NOT_POINTS = "The masked ids are not points of the curve."

T = TypeVar("T")
R = TypeVar("R")


class MissingLibrary(SettingsError):
    """The library is not installed."""


def watch_nothing(done: int, total: int, note: str) -> None:
    """Watch nothing."""


def library() -> Any:
    """Return the library, or say how to install it."""
    try:
        import private_set_intersection.python as psi
    except ImportError as error:
        raise MissingLibrary(
            "Matching ids without showing them needs openmined-psi; run: pip install "
            "'unlabel[federation]'."
        ) from error
    return psi


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Asker:
    """The side that learns which of its ids the other one has too.

    masked  what to send: one row an id, sorted
    """

    def __init__(
        self, ids: Sequence[str], *, watch: Watch = watch_nothing, workers: int | None = None
    ) -> None:
        psi = library()
        key = psi.client.CreateWithNewKey(True).GetPrivateKeyBytes()
        self._make: Callable[[], Any] = lambda: psi.client.CreateFromKey(key, True)
        self._psi, self._watch, self._workers = psi, watch, workers

        def mask(piece: Sequence[str]) -> list[bytes]:
            return list(self._make().CreateRequest(list(piece)).encrypted_elements)

        made = _spread(mask, _pieces(ids), len(ids), "masking ids", watch, workers)
        points = [point for piece in made for point in piece]
        self._order = sorted(range(len(points)), key=points.__getitem__)
        self.masked = pack([points[place] for place in self._order])

    def common(self, setup: Tensor, response: Tensor) -> Array:
        """Return the positions of the ids that the other side has too, in rising order."""
        answers = unpack(response)
        if len(answers) != len(self._order):
            raise WireError(
                f"Expected {len(self._order)} answers to as many masked ids but got {len(answers)}."
            )
        theirs = self._psi.ServerSetup()
        theirs.raw.encrypted_elements.extend(sorted(unpack(setup)))

        def unmask(piece: Sequence[bytes]) -> list[int]:
            given = self._psi.Response()
            given.encrypted_elements.extend(piece)
            return list(self._make().GetIntersection(theirs, given))

        size = max(PIECE, len(theirs.raw.encrypted_elements) // READS)
        pieces = _pieces(answers, size)
        found = _spread(unmask, pieces, len(answers), "matching ids", self._watch, self._workers)
        places = [size * number + place for number, each in enumerate(found) for place in each]
        return np.array(sorted(self._order[place] for place in places), dtype=np.int64)


class Answerer:
    """The side that is asked, and learns how many ids it was asked about."""

    def __init__(
        self, ids: Sequence[str], *, watch: Watch = watch_nothing, workers: int | None = None
    ) -> None:
        psi = library()
        key = psi.server.CreateWithNewKey(True).GetPrivateKeyBytes()
        self._make: Callable[[], Any] = lambda: psi.server.CreateFromKey(key, True)
        self._psi, self._watch, self._workers = psi, watch, workers

        def mask(piece: Sequence[str]) -> list[bytes]:
            # The rate of false matches and the size of the request matter to filters only.
            setup = self._make().CreateSetupMessage(
                1e-9, len(piece), list(piece), psi.DataStructure.RAW
            )
            return list(setup.raw.encrypted_elements)

        made = _spread(mask, _pieces(ids), len(ids), "masking ids", watch, workers)
        self.setup = pack(sorted(point for piece in made for point in piece))

    def answer(self, masked: Tensor) -> Tensor:
        """Return the answer to each masked id, in the same order."""

        def raise_to_key(piece: Sequence[bytes]) -> list[bytes]:
            request = self._psi.Request()
            request.reveal_intersection = True
            request.encrypted_elements.extend(piece)
            return list(self._make().ProcessRequest(request).encrypted_elements)

        asked = unpack(masked)
        made = _spread(
            raise_to_key, _pieces(asked), len(asked), "answering", self._watch, self._workers
        )
        return pack([point for piece in made for point in piece])


def pack(points: Sequence[bytes]) -> Tensor:
    """Return points as a tensor [n, 33]."""
    if not points:
        return torch.empty(0, POINT, dtype=torch.uint8)
    return torch.frombuffer(bytearray(b"".join(points)), dtype=torch.uint8).view(-1, POINT)


def unpack(points: Tensor) -> list[bytes]:
    """Return the points of a tensor [n, 33]."""
    if points.dim() != 2 or points.shape[1] != POINT:
        raise WireError(
            f"Expected masked ids of {POINT} bytes each but got the shape {list(points.shape)}."
        )
    data = points.contiguous().numpy().tobytes()
    return [data[start : start + POINT] for start in range(0, len(data), POINT)]


def _pieces(items: Sequence[T], size: int = 0) -> list[Sequence[T]]:
    size = size or PIECE
    return [items[start : start + size] for start in range(0, len(items), size)]


def _spread(
    work: Callable[[Sequence[T]], R],
    pieces: Sequence[Sequence[T]],
    total: int,
    note: str,
    watch: Watch,
    workers: int | None,
) -> list[R]:
    """Return what `work` makes of each piece, in order, on all cores.

    Threads are enough: the library lets go of the interpreter while it computes. Every piece gets
    an object of its own, under the same key.
    """

    def safely(piece: Sequence[T]) -> R:
        try:
            return work(piece)
        except RuntimeError as error:  # how the library reports a point that is none
            raise WireError(NOT_POINTS) from error

    count = 1 if total <= SMALL else workers or cores()
    done, found = 0, []
    with ThreadPoolExecutor(count) as pool:
        results: Iterable[R] = pool.map(safely, pieces) if count > 1 else map(safely, pieces)
        for piece, made in zip(pieces, results, strict=True):
            found.append(made)
            done += len(piece)
            watch(done, total, note)
    return found
