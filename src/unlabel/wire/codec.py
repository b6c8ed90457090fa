"""Messages to bytes and back: a small versioned header, then the tensors in safetensors form.

    offset  size  what
    0       4     b"UNLB"
    4       2     version of this format, big-endian
    6       4     length h of the header, big-endian
    10      h     header: JSON object {"kind": ..., plain fields ...}
    10 + h  rest  safetensors, holding exactly the tensor fields of that kind

Nothing here can run code (no pickle), and whatever is not exactly as above is a `WireError`.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy
from safetensors import torch as safetensors_torch
from torch import Tensor

from unlabel.errors import WireError
from unlabel.wire.messages import (
    MESSAGES,
    PLAIN,
    TENSORS,
    Message,
    check_scalar,
    check_tensor,
    kind_of,
    tensors_of,
)

MAGIC = b"UNLB"
#: 3 since a refusal carries a code beside its reason, 4 since messages have their present names, 5
#: since ids are matched in several messages, 6 since `Embed` names the version it is for.
VERSION = 6
_PREFIX = struct.Struct(">4sHI")
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.uint8: "U8",
}


@dataclass(frozen=True)
class Limits:
    """The largest message that is read at all.

    message  bytes of a whole message
    header   bytes of its header
    side     the most rows or columns of one tensor
    """

    message: int = 256 * 2**20
    header: int = 64 * 2**10
    side: int = 2**24


DEFAULT_LIMITS = Limits()


def encode(message: Message) -> bytes:
    """Write a message as bytes; it is checked against its own declaration first."""
    check(message)
    header = _header(message)
    tensors = {k: v.detach().cpu().contiguous() for k, v in tensors_of(message).items()}
    return _PREFIX.pack(MAGIC, VERSION, len(header)) + header + _save(tensors)


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Message:
    """Read a message from bytes; anything malformed raises `WireError` and nothing else."""
    kind, plain, header, body = _read_header(data, limits)
    declared = PLAIN[kind.__name__]
    if plain.keys() != declared.keys():
        raise WireError(f"{kind.__name__} has the fields {', '.join(declared)} and no others.")
    fields: dict[str, Any] = {}
    for name, hint in declared.items():
        fields[name] = check_scalar(f"{kind.__name__}.{name}", plain[name], hint)
    message = kind(**fields | _read_tensors(kind, body))
    # One message has one form, so that nothing can hide in blanks, repeated keys or metadata.
    if encoded_size(message) != len(data) or _header(message) != header:
        raise WireError(f"This {kind.__name__} carries bytes that belong to none of its fields.")
    for name, tensor in tensors_of(message).items():
        if any(size > limits.side for size in tensor.shape):
            raise WireError(
                f"{kind.__name__}.{name} has shape {list(tensor.shape)}, "
                f"but no side may exceed {limits.side}."
            )
    return message


def kind_in(data: bytes) -> type[Message]:
    """Return the kind of message that bytes hold, without reading its tensors."""
    return _read_header(data, DEFAULT_LIMITS)[0]


def check(message: Message) -> None:
    """Raise `WireError` where a message breaks its own declaration."""
    kind = type(message)
    if MESSAGES.get(kind.__name__) is not kind:
        raise WireError(f"{kind.__name__} is not a message of this protocol.")
    for name, declared in PLAIN[kind.__name__].items():
        check_scalar(f"{kind.__name__}.{name}", getattr(message, name), declared)
    if message.step < 0:
        raise WireError(f"{kind.__name__}.step is {message.step}, but steps are counted from 0.")
    for name, tensor in tensors_of(message).items():
        check_tensor(f"{kind.__name__}.{name}", tensor, TENSORS[kind.__name__][name])


def encoded_size(message: Message) -> int:
    """Return `len(encode(message))` without moving or copying a tensor.

    The recorder uses it at every step, also where the tensors lie on a GPU.
    """
    check(message)
    named = tensors_of(message).items()
    tensors = tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in named)
    return _PREFIX.size + len(_header(message)) + _size_of(tensors)


@functools.lru_cache
def _size_of(tensors: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]) -> int:
    """Return the bytes of tensors in safetensors form, by name, type and shape."""
    # safetensors lays tensors out by falling alignment, then by name; its header is compact JSON
    # padded to a multiple of eight bytes and preceded by its own length in eight bytes.
    described, offset = {}, 0
    for name, dtype, shape in sorted(tensors, key=lambda each: (-each[1].itemsize, each[0])):
        start, offset = offset, offset + math.prod(shape) * dtype.itemsize
        described[name] = {
            "dtype": _DTYPES[dtype],
            "shape": shape,
            "data_offsets": [start, offset],
        }
    table = len(json.dumps(described, separators=(",", ":")))
    return 8 + -(-table // 8) * 8 + offset


def _save(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors in safetensors form."""
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors.values()):  # NumPy has none
        return safetensors_torch.save(dict(tensors))
    # The same bytes by a far shorter way: a step of training encodes several small messages.
    return safetensors_numpy.save({name: tensor.numpy() for name, tensor in tensors.items()})


def _header(message: Message) -> bytes:
    plain = {name: getattr(message, name) for name in PLAIN[kind_of(message)]}
    return json.dumps({"kind": kind_of(message), **plain}, separators=(",", ":")).encode()


def _read_header(data: bytes, limits: Limits) -> tuple[type[Message], dict[str, Any], bytes, bytes]:
    if len(data) > limits.message:
        raise WireError(f"A message of {len(data)} bytes is over the limit of {limits.message}.")
    if len(data) < _PREFIX.size:
        raise WireError(f"A message needs at least {_PREFIX.size} bytes, but got {len(data)}.")
    magic, version, size = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise WireError("These bytes are not an unlabel message.")
    if version != VERSION:
        raise WireError(f"Wire format {version} is not format {VERSION}; upgrade the older side.")
    end = _PREFIX.size + size
    if size > limits.header or end > len(data):
        raise WireError(f"A header of {size} bytes does not fit in this message.")
    try:
        plain = json.loads(data[_PREFIX.size : end].decode("utf-8", errors="strict"))
    except (ValueError, RecursionError) as error:
        raise WireError("The message header is not readable JSON.") from error
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        raise WireError("The message header does not name a kind.")
    name = plain.pop("kind")
    if name not in MESSAGES:
        raise WireError(f"{name[:40]!r} is not a message of this protocol.")
    return MESSAGES[name], plain, data[_PREFIX.size : end], data[end:]


def _read_tensors(kind: type[Message], body: bytes) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors_torch.load(body)
    # safetensors reports damage as its own error, an unknown dtype as KeyError, and a shape that
    # does not fit its bytes as one of the others, depending on where it stumbles.
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise WireError("The tensors of this message are not in safetensors form.") from error
    declared = TENSORS[kind.__name__]
    if tensors.keys() != declared.keys():
        names = ", ".join(declared) or "none"
        raise WireError(f"{kind.__name__} carries the tensors: {names}; and no others.")
    return tensors
