"""The desk as an application: its routes, its headers, and what is said where one fails."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from importlib import resources

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from unlabel.desk.failures import status_of
from unlabel.desk.office import Desk
from unlabel.desk.pages import federation, listing, new, one, papers, sign_in, trail
from unlabel.desk.views import plain_page
from unlabel.desk.visits import Buckets, NotSignedIn, OtherSession, TooOften, typed_in
from unlabel.desk.worker import Worker
from unlabel.errors import UnlabelError
from unlabel.serve.limits import Limits
from unlabel.serve.shield import NOT_KEPT, Shield

log = logging.getLogger("unlabel.desk")

#: Bytes of a request: a demand's file and a list of ids.
LIMITS = Limits(body=32 * 2**20, reading=60.0)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    NOT_KEPT,
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
#: Sent over TLS alone: browsers are not to come back without it.
STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
ASSETS = {
    "desk.css": ("unlabel.desk", "static/desk.css", "text/css"),
    "report.css": ("unlabel.report", "page.css", "text/css"),
    "icon.svg": ("unlabel.desk", "static/icon.svg", "image/svg+xml"),
    "htmx.min.js": ("unlabel.desk", "static/htmx.min.js", "text/javascript"),
    "sse.min.js": ("unlabel.desk", "static/sse.min.js", "text/javascript"),
}


def app(
    desk: Desk, *, hosts: tuple[str, ...] = (), tls: bool = False, limits: Limits = LIMITS
) -> FastAPI:
    """Return the application of a desk, which works on its requests as long as it lives.

    hosts   names under which it may be asked, any if empty
    tls     whether browsers reach it by TLS
    limits  of a request
    """
    worker = Worker(desk)

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    web = FastAPI(
        title="unlabel desk",
        lifespan=life,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    web.state.desk, web.state.worker, web.state.tls = desk, worker, tls
    web.state.buckets, web.state.streams = Buckets(), 0
    headers = (*HEADERS, STRICT_TRANSPORT) if tls else HEADERS
    web.add_middleware(
        Shield, limits=limits, hosts=hosts, headers=headers, answer=answered, log=log
    )
    for kind in (UnlabelError, HTTPException, RequestValidationError, NotSignedIn, TooOften):
        web.add_exception_handler(kind, _handled)
    for each in (sign_in, listing, new, one, papers, federation, trail):
        # As they are: what `include_router` makes of them is made at the first request, where
        # another thread may be changing which warnings are shown.
        web.router.routes.extend(each.router.routes)

    @web.get("/static/{name}")
    def asset(name: str) -> Response:
        """Return a style sheet or a script of ours."""
        if name not in ASSETS:
            raise HTTPException(404)
        package, path, kind = ASSETS[name]
        content = resources.files(package).joinpath(path).read_bytes()
        kept = {"cache-control": "private, max-age=600"}
        return Response(content, media_type=kind, headers=kept)

    @web.get("/healthz")
    def healthz() -> Response:
        """Tell whether the desk can read its store."""
        desk.requests.open()
        return Response("ok\n", media_type="text/plain")

    return web


async def _handled(request: Request, error: Exception) -> Response:
    if isinstance(error, NotSignedIn):
        if request.method == "GET" and "hx-request" not in request.headers:
            return RedirectResponse("/sign-in", 303)
        typed = await typed_in(request)
        sentence = "Your session has ended, so nothing was changed; sign in again."
        response = plain_page(401, "Sign in", sentence, typed)
        response.headers["hx-redirect"] = "/sign-in"  # where a part of a page was asked for
        return response
    return answered(error)


def answered(error: Exception) -> Response:
    """Return the page that says what failed, in one sentence and without a traceback."""
    if isinstance(error, TooOften):
        response = plain_page(429, "Not so fast", "Too many requests; try again in a moment.")
        response.headers["retry-after"] = str(max(1, round(error.wait)))
        return response
    if isinstance(error, UnlabelError):
        return plain_page(status_of(error), "That did not work", str(error))
    if isinstance(error, HTTPException):
        heading = {404: "Nothing is here", 403: "Not allowed"}.get(
            error.status_code, "Not possible"
        )
        sentence = "There is no such page." if error.status_code == 404 else str(error.detail)
        typed = error.typed if isinstance(error, OtherSession) else ()
        return plain_page(error.status_code, heading, f"{sentence.rstrip('.')}.", typed)
    if isinstance(error, RequestValidationError):
        return plain_page(404, "Nothing is here", "There is no such page.")
    return plain_page(500, "That failed", "The request failed; the desk's log says where.")
