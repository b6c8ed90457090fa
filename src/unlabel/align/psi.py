"""Private set intersection of two parties: a thin layer over `openmined-psi`, on all cores.

With H a hash into the curve P-256 and keys c and s that never leave their owners:

    receiver  masks its ids                 c H(x)
    sender    answers each of them with     s c H(x)     and sends its own ids as s H(y), sorted
    receiver  takes its key off again       s H(x)       and looks which of them are among s H(y)

The receiver learns the common ids and how many the sender has; the sender learns how many the
receiver has. Elements are compared whole (RAW), so there is no false match. Keys are new for every
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
from unlabel.progress import Watch, watch_nothing

#: Bytes of a compressed point.
POINT = 33
#: Ids a piece of work: some 100 ms of one core.
PIECE = 1024
#: Ids that are not worth a second thread.
SMALL = 256
#: Every piece of unmasking reads the other party's whole set, so there are few pieces of a large
#: one: reading costs less than a twentieth of the work that way.
READS = 8

R = TypeVar("R")


class MissingLibrary(SettingsError):
    """The library is not installed."""


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


class Receiver:
    """The side that learns which of its ids the other one has too.

    masked  what to send: one row an id, sorted
    """

    def __init__(self, ids: Sequence[str], *, watch: Watch = watch_nothing) -> None:
        self._psi = psi = library()
        self._key = psi.client.CreateWithNewKey(True).GetPrivateKeyBytes()
        self._watch = watch

        def mask(piece: Sequence[str]) -> bytes:
            return b"".join(self._client().CreateRequest(list(piece)).encrypted_elements)

        points = _points(_spread(mask, ids, PIECE, "masking ids", watch))
        self._order = _sorting(points)
        self.masked = torch.from_numpy(points[self._order])

    def _client(self) -> Any:
        return self._psi.client.CreateFromKey(self._key, True)

    def common(self, setup: Tensor, response: Tensor) -> Array:
        """Return the positions of the ids that the other side has too, in rising order."""
        answers, points = _rows(response), _rows(setup)
        if len(answers) != len(self._order):
            raise WireError(
                f"Expected {len(self._order)} answers to as many masked ids but got {len(answers)}."
            )
        theirs = self._psi.ServerSetup()
        theirs.raw.encrypted_elements.extend(_split(points[_sorting(points)]))

        def unmask(piece: Array) -> list[int]:
            answer = self._psi.Response()
            answer.encrypted_elements.extend(_split(piece))
            return list(self._client().GetIntersection(theirs, answer))

        size = max(PIECE, len(points) // READS)
        matches = _spread(unmask, answers, size, "matching ids", self._watch)
        places = [size * number + place for number, each in enumerate(matches) for place in each]
        return np.sort(self._order[np.array(places, dtype=np.int64)])


class Sender:
    """The side that answers, and learns how many ids it was asked about."""

    def __init__(self, ids: Sequence[str], *, watch: Watch = watch_nothing) -> None:
        self._psi = psi = library()
        self._key = psi.server.CreateWithNewKey(True).GetPrivateKeyBytes()
        self._watch = watch

        def mask(piece: Sequence[str]) -> bytes:
            # The rate of false matches and the size of the request matter to filters only.
            raw = psi.DataStructure.RAW
            setup = self._server().CreateSetupMessage(1e-9, len(piece), list(piece), raw)
            return b"".join(setup.raw.encrypted_elements)

        points = _points(_spread(mask, ids, PIECE, "masking ids", watch))
        self.setup = torch.from_numpy(points[_sorting(points)])

    def _server(self) -> Any:
        return self._psi.server.CreateFromKey(self._key, True)

    def answer(self, masked: Tensor) -> Tensor:
        """Return the answer to each masked id, in the same order."""

        def raise_to_key(piece: Array) -> bytes:
            request = self._psi.Request()
            request.reveal_intersection = True
            request.encrypted_elements.extend(_split(piece))
            return b"".join(self._server().ProcessRequest(request).encrypted_elements)

        answers = _spread(raise_to_key, _rows(masked), PIECE, "answering", self._watch)
        return torch.from_numpy(_points(answers))


def expect_points(points: Tensor) -> None:
    """Raise unless a tensor holds points, [n, 33]."""
    if points.dim() != 2 or points.shape[1] != POINT:
        raise WireError(
            f"Expected masked ids of {POINT} bytes each but got the shape {list(points.shape)}."
        )


def _rows(points: Tensor) -> Array:
    expect_points(points)
    return points.contiguous().numpy()


def _points(pieces: Iterable[bytes]) -> Array:
    """Return the points in some bytes as an array [n, 33] of its own memory."""
    return np.frombuffer(bytearray().join(pieces), np.uint8).reshape(-1, POINT)


def _split(points: Array) -> list[bytes]:
    """Return the bytes of each point."""
    data = points.tobytes()
    return [data[start : start + POINT] for start in range(0, len(data), POINT)]


def _sorting(points: Array) -> Array:
    """Return the order that sorts points by their bytes."""
    # NumPy takes no notice of zeros at the end of a text, which between equal lengths is no matter.
    return np.argsort(np.ascontiguousarray(points).view(f"S{POINT}")[:, 0], kind="stable")


def _spread(work: Callable[[Any], R], items: Any, size: int, note: str, watch: Watch) -> list[R]:
    """Return what `work` makes of each piece of so many items, in order, on all cores.

    Threads are enough: the library lets go of the interpreter while it computes. Every piece gets
    an object of its own, under the same key.
    """

    def safely(piece: Any) -> R:
        try:
            return work(piece)
        except RuntimeError as error:  # how the library reports a point that is none
            raise WireError("The masked ids are not points of the curve.") from error

    total = len(items)
    pieces = [items[start : start + size] for start in range(0, total, size)]
    count = 1 if total <= SMALL else cores()
    done, results = 0, []
    with ThreadPoolExecutor(count) as pool:
        running: Iterable[R] = pool.map(safely, pieces) if count > 1 else map(safely, pieces)
        for piece, result in zip(pieces, running, strict=True):
            results.append(result)
            done += len(piece)
            watch(done, total, note)
    return results
