"""The server around the application: its address, TLS, its token, and how it ends."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from unlabel.config.checks import is_this_machine
from unlabel.errors import RunError, SettingsError
from unlabel.serve.app import app
from unlabel.serve.exported import ServedTop
from unlabel.serve.limits import Limits
from unlabel.serve.model import ServedModel

#: Connections at once; the next is told to come again by the server itself.
CONNECTIONS = 256
#: Seconds for requests under way when the server is to end.
ENDING = 10
#: Characters of the shortest token that is taken.
SHORTEST = 16
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Address:
    """Where a server listens.

    host, port        127.0.0.1 and 8080, or others; port 0 takes a free one
    certificate, key  PEM files for TLS, without which only this machine itself is served
    """

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise SettingsError(f"Expected `port` to be from 0 to 65535 but got {self.port}.")
        if (self.certificate is None) != (self.key is None):
            raise SettingsError("Expected both --certificate and --key, or neither of them.")
        if self.certificate is None and not self.is_here:
            raise SettingsError(
                f"Expected TLS for '{self.host}', which other machines can reach; give "
                f"--certificate and --key, or listen on 127.0.0.1."
            )

    @property
    def is_here(self) -> bool:
        """Whether only this machine itself can reach it."""
        return is_this_machine(self.host)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which it is asked: a page of elsewhere has another, in any browser."""
        return tuple(dict.fromkeys((self.host, *LOCAL_NAMES))) if self.is_here else ()

    def listen(self) -> socket.socket:
        """Return a socket that listens there."""
        try:
            kind = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((self.host, self.port), family=kind, backlog=128)
            # Connections inherit it; asyncio sets it on none of them, and answers wait 40 ms.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except OSError as error:
            raise RunError(
                f"Cannot listen on {self.host}, port {self.port} ({error.strerror}); choose "
                f"another --port or --host.",
                code="in-use",
            ) from error


def read_token(path: Path) -> str:
    """Read the token that requests must bring, the one line of a file that others cannot read."""
    try:
        if path.stat().st_mode & 0o077:
            raise SettingsError(
                f"Others may read the token in '{path}'; take that from them (chmod 600)."
            )
        lines = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The token in '{path}' cannot be read; check the file.") from error
    if len(lines) != 1 or len(lines[0]) < SHORTEST:
        raise SettingsError(
            f"Expected one token of at least {SHORTEST} characters in '{path}'; `openssl rand -hex "
            f"32` draws one."
        )
    return lines[0]


class Server(uvicorn.Server):
    """A server that ends where it is asked to, and leaves signals as they were.

    ending  called when it is asked to, before it waits for answers that are under way
    """

    ending: Callable[[], None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order; at once where it is asked to again."""
        if self.ending is not None:
            self.ending()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on the first signal, and at once on the second."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def server_of(application: FastAPI, address: Address) -> Server:
    """Return a server for an application, which does not listen yet."""
    config = uvicorn.Config(
        application,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",  # the application has a log of its own, without people in it
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=16_384,
        timeout_graceful_shutdown=ENDING,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"The certificate '{address.certificate}' and the key '{address.key}' cannot be used "
            f"({type(error).__name__}); expected PEM files that belong together."
        ) from error
    return Server(config)


def answer(
    model: Callable[[], ServedModel | ServedTop],
    address: Address,
    token: Path | None,
    limits: Limits,
    notify: Callable[[str], None] | None = None,
) -> None:
    """Answer questions until a signal ends it.

    model   returns what answers, once address and token were looked at
    token   file with the token that requests must bring
    notify  called with the address once it listens
    """
    secret = None if token is None else read_token(token)
    served = app(model(), token=secret, hosts=address.hosts, limits=limits)
    run(served, address, notify or (lambda _: None))


def run(
    application: FastAPI,
    address: Address,
    started: Callable[[str], None],
    ending: Callable[[], None] | None = None,
) -> None:
    """Serve until a signal ends it.

    started  called with the address once it listens
    ending   called when it is asked to end, before it waits for answers that are under way
    """
    server = server_of(application, address)
    server.ending = ending
    with address.listen() as listener:
        scheme = "http" if address.certificate is None else "https"
        host = f"[{address.host}]" if ":" in address.host else address.host
        started(f"{scheme}://{host}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])
