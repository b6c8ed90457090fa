"""Arrays of numbers from `.npy` files that hold pickled objects, without unpickling objects.

A pickle can name any function and have it called. Here only the three names that NumPy writes for
an array are known, and even these stand for inert classes: nothing of NumPy runs before the shape
and the kind of the numbers are checked.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from math import prod
from typing import Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError, why

#: Kinds of numbers that an array may have, and `O8` of what lies around arrays.
NUMBERS = {f"{kind}{width}" for kind in "iu" for width in (1, 2, 4, 8)} | {"f2", "f4", "f8"}
OBJECTS = "O8"
MAGIC = b"\x93NUMPY\x01\x00"


class _Kind:
    """Stands for `numpy.dtype`."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name
        self.order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]


class _Marker:
    """Stands for `numpy.ndarray`, which is only ever named as the class of an array."""


class _Pickled:
    """Stands for an array while its parts are read."""

    def __init__(self, *_: object) -> None:
        self.content: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, columns_first, data = state
        if kind.name == OBJECTS and isinstance(data, list):
            self.content = data
            return
        if kind.name not in NUMBERS or kind.order not in ("<", "|") or columns_first:
            raise pickle.UnpicklingError(f"an array of '{kind.order}{kind.name}'")
        dtype = np.dtype(f"<{kind.name}")
        if not isinstance(data, bytes) or prod(shape) * dtype.itemsize != len(data):
            raise pickle.UnpicklingError(f"an array of shape {shape} without that many numbers")
        self.content = np.frombuffer(data, dtype).reshape(shape)


_KNOWN: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Pickled,
    ("numpy._core.multiarray", "_reconstruct"): _Pickled,
    ("numpy", "ndarray"): _Marker,
    ("numpy", "dtype"): _Kind,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """Return what stands for a name, if it is one of the three of an array."""
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names '{module}.{name}'")
        return _KNOWN[module, name]


def read_dictionary(data: bytes, member: str, where: str) -> dict[str, Array]:
    """Return the arrays of a dictionary that `numpy.savez` pickled as `member` of an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            content = archive.read(f"{member}.npy")
        if not content.startswith(MAGIC):
            raise ValueError("it is no .npy file of version 1")
        start = len(MAGIC) + 2 + int.from_bytes(content[len(MAGIC) :][:2], "little")
        outer = _Unpickler(io.BytesIO(content[start:])).load().content
        (held,) = outer
        return {str(name): _numbers(value) for name, value in held.items()}
    except Exception as error:  # a damaged or hostile pickle fails in any way
        raise DataError(
            f"{where}: expected a pickled dictionary of arrays of numbers and nothing else, but "
            f"it cannot be read ({why(error)})."
        ) from error


def _numbers(value: object) -> Array:
    if not isinstance(value, _Pickled) or not isinstance(value.content, np.ndarray):
        raise TypeError(f"a value is of type {type(value).__name__}")
    return value.content
