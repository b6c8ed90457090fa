"""Connections between two processes of one party: framed bytes over a local socket.

The engine that crosses the network runs in processes of its own. They hold no data and no model:
they pass everything on over such a connection to the party's own process. A frame is

    offset  size  what
    0       4     length h of the header, big-endian
    4       h     header: JSON object {"parts": {name: length}, ...}
    4 + h   rest  the parts, one after the other, in the order of the header

A connection needs the key beside the socket, which only its owner can read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
import struct
import tempfile
from collections.abc import Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

from unlabel.errors import RunError, WireError
from unlabel.files import OWNER_ONLY, write_atomically

#: The socket on which a command of the active party waits.
ACTIVE_SOCKET = "active"
#: Where the engine's processes find the sockets of their party.
LINKS = "UNLABEL_LINKS"
KEY = "link.key"
#: Bytes of the longest path of a socket; some systems take no more.
LONGEST_PATH = 100
_LENGTH = struct.Struct(">I")


def pack(parts: Mapping[str, bytes], **header: Any) -> bytes:
    """Return one frame.

    >>> unpack(pack({"shop": b"abc", "bank": b""}, timeout=2.5))
    ({'timeout': 2.5}, {'shop': b'abc', 'bank': b''})
    """
    lengths = {name: len(part) for name, part in parts.items()}
    text = json.dumps({"parts": lengths, **header}).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *parts.values()))


def unpack(frame: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the header and the parts of a frame."""
    try:
        (length,) = _LENGTH.unpack_from(frame)
        start = _LENGTH.size + length
        header = json.loads(frame[_LENGTH.size : start])
        lengths = header.pop("parts")
        parts = {}
        for name, size in lengths.items():
            parts[name] = frame[start : start + size]
            start += size
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WireError("Expected a frame between two processes but got something else.") from error
    if start != len(frame):
        raise WireError("A connection between two processes broke off within a frame.")
    return header, parts


def links_folder(state: Path, name: str) -> Path:
    """Return the folder of a party's sockets, which no other user may enter.

    A socket's path may have about a hundred characters. Where `state` lies deeper than that, the
    folder lies among the temporary files, under a name that follows from its path.
    """
    state = state.resolve()
    if len(os.fsencode(state / "links" / f"{name}.sock")) <= LONGEST_PATH:
        needed = [state / "links"]
    else:
        ours = Path(tempfile.gettempdir()) / f"unlabel-{os.getuid()}"
        needed = [ours, ours / hashlib.sha256(os.fsencode(state)).hexdigest()[:16]]
    for path in needed:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = path.lstat()  # a link to elsewhere is no folder of ours
        private = stat.S_ISDIR(held.st_mode) and not held.st_mode & 0o077
        if held.st_uid != os.getuid() or not private:
            raise RunError(f"'{path}' is open to other users; remove it and start again.")
    return needed[-1]


def make_key(folder: Path) -> bytes:
    """Return the key of the sockets in a folder; it is drawn by whoever comes first."""
    path = folder / KEY
    if not path.exists():
        draft = folder / f"{KEY}.{secrets.token_hex(8)}"
        write_atomically(draft, secrets.token_bytes(32), mode=OWNER_ONLY)
        # A link, unlike a rename, fails where another process was first.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_bytes()


def listen(folder: Path, name: str) -> Listener:
    """Open the socket on which a party's own process waits."""
    path = folder / f"{name}.sock"
    path.unlink(missing_ok=True)
    return Listener(str(path), family="AF_UNIX", backlog=8, authkey=make_key(folder))


def accept(listener: Listener, seconds: float) -> Connection[bytes, bytes] | None:
    """Return the connection of whoever calls within so many seconds and has the key."""
    # `Listener.accept` knows no timeout; the socket it waits on does.
    waiting = listener._listener._socket  # type: ignore[attr-defined]
    if wait([waiting], seconds):
        with contextlib.suppress(EOFError, OSError, AuthenticationError):
            return listener.accept()
    return None


def call(folder: Path, name: str) -> Connection[bytes, bytes]:
    """Reach a party's own process from one of the engine's."""
    try:
        key = (folder / KEY).read_bytes()
        return Client(str(folder / f"{name}.sock"), family="AF_UNIX", authkey=key)
    except (OSError, EOFError, AuthenticationError) as error:
        raise WireError(f"The process of party '{name}' is not running.") from error


def hang_up(connection: Connection[bytes, bytes] | None) -> None:
    """End a connection on which another thread may be waiting; that one then sees it ended."""
    if connection is not None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)


def close(end: Connection[bytes, bytes] | Listener | None) -> None:
    """Close a connection that may be broken already, or a socket that is listened on."""
    if end is not None:
        with contextlib.suppress(OSError):
            end.close()
