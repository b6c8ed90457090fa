"""Connections between two processes of one party: framed bytes over a local socket.

Commands of the active party reach its long-running process this way, and where the engine carries
the messages, its processes pass everything on to the party's own. A frame is

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
import queue
import secrets
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
    wait,
)
from pathlib import Path
from typing import Any, Protocol

from unlabel.errors import RunError, WireError
from unlabel.files import OWNER_ONLY, write_atomically

#: The socket on which a command of the active party waits.
ACTIVE_SOCKET = "active"
#: Where the engine's processes find the sockets of their party.
LINKS = "UNLABEL_LINKS"
KEY = "link.key"
#: Bytes of the longest path of a socket; some systems take no more.
LONGEST_PATH = 100
#: Seconds that a caller may take to show that it has the key, and between two looks at who calls.
KEY_SECONDS, LOOK = 2.0, 0.25
_LENGTH = struct.Struct(">I")
_TIME = struct.Struct("@ll")


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


def join(messages: Sequence[bytes]) -> bytes:
    """Return several messages to one party as one part of a frame.

    >>> split(join([b"abc", b""]))
    [b'abc', b'']
    """
    return b"".join(part for each in messages for part in (_LENGTH.pack(len(each)), each))


def split(part: bytes) -> list[bytes]:
    """Return the messages in one part of a frame."""
    messages, at = [], 0
    while at < len(part):
        start = at + _LENGTH.size
        if start > len(part):
            raise WireError("Several messages in one frame do not end where it ends.")
        at = start + _LENGTH.unpack_from(part, at)[0]
        messages.append(part[start:at])
    if at != len(part):
        raise WireError("Several messages in one frame do not end where it ends.")
    return messages


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


class Door:
    """A socket on which callers are let in as they show the key: who says nothing holds up nobody.

    folder  of the party's sockets
    name    of this one
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._listener = listen(folder, name)
        self._entered: queue.SimpleQueue[Connection[bytes, bytes]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="door", daemon=True)
        self._watching.start()

    def accept(self, seconds: float) -> Connection[bytes, bytes] | None:
        """Return the connection of whoever calls within so many seconds and has the key."""
        with contextlib.suppress(queue.Empty):
            return self._entered.get(timeout=max(0.0, seconds))
        return None

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed.set()
        self._watching.join()  # which looks at the listener
        close(self._listener)

    def _watch(self) -> None:
        while not self._closed.is_set():
            caller = waiting_caller(self._listener, LOOK)
            if caller is not None:
                threading.Thread(target=self._admit, args=(caller,), daemon=True).start()

    def _admit(self, caller: Connection[bytes, bytes]) -> None:
        connection = admit(self._listener, caller)
        if connection is not None:
            self._entered.put(connection)


def waiting_caller(listener: Listener, seconds: float) -> Connection[bytes, bytes] | None:
    """Return the connection of whoever calls within so many seconds, before it shows the key."""
    # `Listener.accept` knows no timeout, and waits for ever for the key of a caller who is silent.
    inner = listener._listener  # type: ignore[attr-defined]
    if wait([inner._socket], seconds):
        with contextlib.suppress(OSError):
            caller: Connection[bytes, bytes] = inner.accept()
            return caller
    return None


def admit(listener: Listener, caller: Connection[bytes, bytes]) -> Connection[bytes, bytes] | None:
    """Return the connection of a caller once it has shown the key, None where it does not."""
    key: bytes = listener._authkey  # type: ignore[attr-defined]
    try:
        set_patience(caller, KEY_SECONDS)
        deliver_challenge(caller, key)
        answer_challenge(caller, key)
        set_patience(caller, 0.0)
    except (EOFError, OSError, AuthenticationError):
        close(caller)
        return None
    return caller


def set_patience(connection: Connection[bytes, bytes], seconds: float) -> None:
    """Have whatever waits for the other end raise OSError after so many seconds; 0 is for ever."""
    allowed = _TIME.pack(int(seconds), int(seconds % 1.0 * 1_000_000))
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, allowed)


def call(folder: Path, name: str, seconds: float = 0.0) -> Connection[bytes, bytes]:
    """Reach a party's own process from another one of the same party.

    seconds  after which whatever waits for it raises OSError; for ever if 0
    """
    try:
        key = (folder / KEY).read_bytes()
        called: Connection[bytes, bytes] = Connection(socket.socket(socket.AF_UNIX).detach())
        try:
            set_patience(called, seconds)
            # Only now: where many wait to be let in, this does too.
            with socket.socket(fileno=os.dup(called.fileno())) as end:
                end.connect(str(folder / f"{name}.sock"))
            answer_challenge(called, key)
            deliver_challenge(called, key)
        except BaseException:
            close(called)
            raise
        return called
    except (OSError, EOFError, AuthenticationError) as error:
        raise WireError(f"The process of party '{name}' is not running.") from error


def hang_up(connection: Connection[bytes, bytes] | None) -> None:
    """End a connection on which another thread may be waiting; that one then sees it ended."""
    if connection is not None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Close it."""


def close(end: Closable | None) -> None:
    """Close a connection that may be broken already, or a socket that is listened on."""
    if end is not None:
        with contextlib.suppress(OSError):
            end.close()
