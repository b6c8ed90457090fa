"""A wire tap: passes connections on to a port, and keeps every byte in either direction."""

from __future__ import annotations

import contextlib
import socket
import threading


class RecordingProxy:
    """Listens on a port of its own; `captured` grows with what passes."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        self._streams: list[bytearray] = []

    def __enter__(self) -> RecordingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def captured(self) -> list[bytes]:
        """Return what has passed so far: each direction of each connection in one piece."""
        return [bytes(stream) for stream in self._streams]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target), timeout=10)
                    server.settimeout(None)
                except OSError:  # nobody listens there yet
                    client.close()
                    continue
                self._ends += [client, server]
                for source, sink in ((client, server), (server, client)):
                    stream = bytearray()
                    self._streams.append(stream)
                    passing = threading.Thread(target=_pass, args=(source, sink, stream))
                    passing.daemon = True
                    passing.start()


def _pass(source: socket.socket, sink: socket.socket, stream: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            stream += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
