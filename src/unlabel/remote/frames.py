"""What passes between the label holder's process and a party's: frames in a session of TLS.

Every frame is

    offset  size  what
    0       4     length n of the body, big-endian
    4       1     kind
    5       8     epoch: the number of the session of commands that it belongs to
    13      8     call: the number of the request within that session
    21      n     body

TLS sees to it that nobody in between reads, changes, repeats, drops or reorders any of it. A frame
longer than agreed is refused by its length, before anything is kept of it. A `Sealed` session knows
no socket: its bytes go over a connection of their own (`Line`), or in the engine's calls.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from unlabel.errors import WireError

_HEAD = struct.Struct(">IBQQ")
#: Bytes of a body until both ends know each other.
GREETING = 4096
#: Bytes that are read at once.
PIECE = 2**18
#: The version of all this; the two ends must have the same.
PROTOCOL = 1
#: Seconds for which who sends waits for another who is about it, and for an end that takes nothing.
STUCK = 5.0
TAKES_NOTHING = "it takes nothing of what is sent"


class Kind(IntEnum):
    """What a frame is for; who sends it."""

    HELLO = 1  # party: who it is, as JSON
    WELCOME = 2  # hub: it is registered
    REFUSED = 3  # hub: it is not, and why
    PING = 4  # hub: are you there?
    PONG = 5  # party
    REQUEST = 6  # hub: messages to answer in turn
    ANSWER = 7  # party
    ALARM = 8  # hub: somebody else came with the party's certificate
    REVOKED = 9  # hub: the newest lists of revoked certificates, each signed by the authority


@dataclass(frozen=True)
class Frame:
    """One frame."""

    kind: Kind
    body: bytes = b""
    epoch: int = 0
    call: int = 0

    def facts(self) -> dict[str, Any]:
        """Return a body of JSON as a mapping."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise WireError(f"the body of a frame {self.kind.name} is no JSON") from error
        if not isinstance(content, dict):
            raise WireError(f"the body of a frame {self.kind.name} is no mapping")
        return content


def stating(kind: Kind, **facts: Any) -> Frame:
    """Return a frame that states facts as JSON."""
    return Frame(kind, json.dumps(facts).encode())


class Sealed:
    """One end of a session of TLS; whoever has it carries the bytes.

    most  bytes of the longest body that is taken, to be raised once both ends know each other
    """

    def __init__(self, context: ssl.SSLContext, *, host: str | None = None) -> None:
        self.most = GREETING
        self.is_open = False
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = host is None
        self._tls = context.wrap_bio(
            self._in, self._out, server_side=is_server, server_hostname=host
        )
        self._plain = bytearray()
        # Of OpenSSL's, which takes no reading and writing at the same time.
        self._lock = threading.Lock()

    @property
    def certificate(self) -> dict[str, Any] | None:
        """What the other end has shown, once the handshake is over."""
        return self._tls.getpeercert()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes of the other end, and return the frames that are whole with them."""
        frames: list[Frame] = []
        with self._lock:
            self._in.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                if not self.is_open:
                    self._tls.do_handshake()
                    self.is_open = True
                while piece := self._tls.read(PIECE):
                    self._plain += piece
                    frames += self._whole()  # at once: no more is kept than one frame and a piece
                raise EOFError("it has closed the connection")
        return frames

    def _whole(self) -> list[Frame]:
        frames: list[Frame] = []
        while len(self._plain) >= _HEAD.size:
            size, kind, epoch, call = _HEAD.unpack_from(self._plain)
            if size > self.most:
                raise WireError(f"it sends a frame of {size:,} bytes, over {self.most:,}")
            end = _HEAD.size + size
            if len(self._plain) < end:
                break
            if kind not in Kind.__members__.values():
                raise WireError(f"it sends a frame of unknown kind {kind}")
            body = bytes(memoryview(self._plain)[_HEAD.size : end])
            del self._plain[:end]
            frames.append(Frame(Kind(kind), body, epoch, call))
        return frames

    def seal(self, *frames: Frame) -> None:
        """Add frames to what is to be carried to the other end."""
        with self._lock:
            for frame in frames:
                head = _HEAD.pack(len(frame.body), frame.kind, frame.epoch, frame.call)
                self._tls.write(head + frame.body)

    def drain(self) -> bytes:
        """Return what is to be carried to the other end now."""
        with self._lock:
            return self._out.read()


class Line:
    """A session of TLS over a connection of its own.

    Where its socket has a timeout, it is one of silence: of nothing at all coming or going. Where
    it has none, what is to be sent has one all the same, `STUCK`.
    """

    def __init__(self, plain: socket.socket, sealed: Sealed) -> None:
        self.sealed = sealed
        self._socket = plain
        self._waiting: list[Frame] = []
        self._sending = threading.Lock()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if plain.gettimeout() is None:
            patience = struct.pack("@ll", int(STUCK), 0)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)

    def shake(self) -> None:
        """Shake hands."""
        try:
            self._take(b"")
            while not self.sealed.is_open:
                self._take(self._read())
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                self._flush()  # which tells the other end why
            raise

    def send(self, *frames: Frame) -> None:
        """Send frames; raise `OSError` where the connection has broken or does not move on."""
        with self._turn():
            self.sealed.seal(*frames)
            self._flush_now()

    def receive(self) -> Frame:
        """Return the next frame."""
        while not self._waiting:
            self._take(self._read())
        return self._waiting.pop(0)

    def end(self) -> None:
        """Take nothing more; what is under way can still be sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """End the connection; a thread that waits on it then sees it ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, data: bytes) -> None:
        self._waiting += self.sealed.feed(data)
        self._flush()

    def _read(self) -> bytes:
        data = self._socket.recv(PIECE)
        if not data:
            raise EOFError("it has closed the connection")
        return data

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        # Who looks after all connections must not wait for ever for one that takes nothing.
        if not self._sending.acquire(timeout=STUCK):
            raise TimeoutError(TAKES_NOTHING)
        try:
            yield
        finally:
            self._sending.release()

    def _flush(self) -> None:
        """Send what TLS itself has to say; while another thread sends, it goes with the next frame.

        Who takes what comes in must not wait for a long send that moves on.
        """
        if self._sending.acquire(blocking=False):
            try:
                self._flush_now()
            finally:
                self._sending.release()

    def _flush_now(self) -> None:
        data = memoryview(self.sealed.drain())
        try:
            while data:
                data = data[self._socket.send(data[:PIECE]) :]
        except BlockingIOError as error:  # as `SO_SNDTIMEO` has it
            raise TimeoutError(TAKES_NOTHING) from error


def expect(frames: Sequence[Frame], kind: Kind) -> Frame:
    """Return the first of some frames, which must be of a kind."""
    if not frames or frames[0].kind is not kind:
        got = frames[0].kind.name if frames else "nothing"
        raise WireError(f"expected a frame {kind.name} but got {got}")
    return frames[0]
