"""What every request passes first: who may ask, under which name, how much, and how slowly.

It also writes the log, a line a request, in which no id and no label stands, and answers what
nothing else caught without a traceback.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unlabel.serve.failures import failure
from unlabel.serve.figures import Figures
from unlabel.serve.limits import Limits

log = logging.getLogger("unlabel.serve")

#: Answered without a token: who looks after processes asks it.
OPEN = "/healthz"
Header = tuple[bytes, bytes]
NOT_KEPT: Header = (b"cache-control", b"no-store")


class Shield:
    """An ASGI application around another; see the module.

    figures  counts requests, where somebody asks for figures
    headers  that every answer has which does not bring its own of that name
    answer   makes an answer of what failed
    """

    def __init__(
        self,
        inner: ASGIApp,
        *,
        limits: Limits,
        figures: Figures | None = None,
        token: str | None = None,
        hosts: tuple[str, ...] = (),
        headers: tuple[Header, ...] = (NOT_KEPT,),
        answer: Callable[[Exception], Response] = failure,
        log: logging.Logger = log,
    ) -> None:
        self._inner, self._limits, self._figures, self._hosts = inner, limits, figures, hosts
        self._token = None if token is None else _digest(token.encode())
        self._headers, self._answer, self._log = headers, answer, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer why not."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = [*message.get("headers", ())]
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [h for h in self._headers if h[0] not in names]
            await send(message)

        try:
            self._check(scope)
            await self._inner(scope, self._bounded(receive), noted)
        except Exception as error:
            if status:  # a part of an answer went out, and the connection cannot go on
                self._log.warning("an answer was not taken (%s)", type(error).__name__)
                raise
            if not isinstance(error, HTTPException):
                self._log.error("a request failed: %s", where(error))
            await self._answer(error)(scope, receive, noted)
        seconds = time.monotonic() - started
        if self._figures is not None:
            self._figures.count(scope["path"], status, seconds)
        # Where it was routed to: the path that was asked for may name people, or break the line.
        route = getattr(scope.get("route"), "path", "-")
        self._log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._hosts and _host(headers.get("host", "")) not in self._hosts:
            raise HTTPException(421, "This server is asked under another name.")
        if self._token is not None and scope["path"] != OPEN:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            brought = _digest(given.strip().encode("latin-1", "replace"))
            if not hmac.compare_digest(brought, self._token) or scheme.lower() != "bearer":
                raise HTTPException(401, "The request brings no token, or another one.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._limits.body:
            raise self._too_large()

    def _bounded(self, receive: Receive) -> Callable[[], Awaitable[Message]]:
        """Return what receives a request of bounded size within bounded time."""
        left, deadline, ended = self._limits.body, time.monotonic() + self._limits.reading, False

        async def bounded() -> Message:
            nonlocal left, ended
            if ended:  # what comes now is only whether the other side goes away
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, "The request did not arrive in time.") from error
            left -= len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if left < 0:
                raise self._too_large()
            return message

        return bounded

    def _too_large(self) -> HTTPException:
        most = self._limits.body / 2**20
        return HTTPException(413, f"Expected at most {most:g} MiB in one request.")


def _digest(secret: bytes) -> bytes:
    """Return what tokens are compared by: of one length, whatever was brought."""
    return hashlib.sha256(secret).digest()


def _host(header: str) -> str:
    """Return the name in a Host header, without its port.

    >>> _host("localhost:8080"), _host("[::1]:8080"), _host("::1")
    ('localhost', '::1', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header if header.count(":") > 1 else header.partition(":")[0]


def where(error: BaseException) -> str:
    """Return what failed and where in the code, and not its message, which may name people."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"
