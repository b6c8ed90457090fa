"""Who is asking, and whether they may: sessions, the tokens of forms, roles, and how often.

A page of another site can neither read what the desk shows (no cookie goes with its requests) nor
have a browser post anything (it does not know the form's token, and names itself as the origin).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Path
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from unlabel.desk.accounts import ROLES, Account, Role
from unlabel.desk.office import Desk
from unlabel.desk.sessions import LONGEST, draw, fits, form_token
from unlabel.desk.worker import Worker
from unlabel.errors import DataError

#: Who works on requests; an auditor only reads.
WORKING: tuple[Role, ...] = ("caseworker", "approver")
#: Requests of one session, or of an address that nobody is signed in from: at once, and a second.
READS, POSTS = (200, 20.0), (40, 1.0)
#: Buckets that are kept at most; the one used longest ago is forgotten first.
MOST_BUCKETS = 10_000
#: Fields of a form, and bytes of one that is no file.
MOST_FIELDS, MOST_BYTES = 3000, 2**20

#: Fields that take time to fill in: their text is given back where a session has ended meanwhile.
TYPED = {"text": "The letter", "ids": "Ids", "reference": "Reference", "reason": "The reason"}


class NotSignedIn(Exception):
    """Nobody is signed in."""


class OtherSession(HTTPException):
    """A form is of another session than the browser's; `typed` is what somebody typed into it."""

    def __init__(self, form: Form) -> None:
        super().__init__(403, "The form is not of this session; load the page again.")
        self.typed = form.typed()


class TooOften(Exception):
    """Too many requests in a short time; `wait` says how long to wait, in seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__("Too many requests in a short time.")
        self.wait = wait


@dataclass
class Form:
    """What a form brought: texts by name, and files by name."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the text of a field, empty where there is none."""
        return (self.texts.get(name) or [""])[0]

    def all(self, name: str) -> list[str]:
        """Return all texts of a field."""
        return self.texts.get(name, [])

    def typed(self) -> list[tuple[str, str]]:
        """Return what took time to type, by its name."""
        return [(name, self.text(key)) for key, name in TYPED.items() if self.text(key).strip()]

    def number(self, name: str, default: int) -> int:
        """Return the whole number in a field."""
        text = self.text(name).strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise DataError(f"Expected a whole number but got '{text[:20]}'.")
        return int(text) if text else default


@dataclass(frozen=True)
class Visit:
    """Somebody who is signed in, with what they brought.

    token  of the session's forms
    """

    request: Request
    account: Account
    token: str
    form: Form = field(default_factory=Form)

    @property
    def desk(self) -> Desk:
        """The desk."""
        return desk_of(self.request)

    @property
    def worker(self) -> Worker:
        """Who carries out what is asked for."""
        worker: Worker = self.request.app.state.worker
        return worker

    @property
    def may_work(self) -> bool:
        """Whether they may change anything."""
        return self.account.role in WORKING


class Buckets:
    """How often each may ask: so many at once, and so many a second in the long run."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, who: str, most: int, rate: float) -> None:
        """Count a request, or raise where it comes too soon."""
        with self._lock:
            now = time.monotonic()
            left, at = self._left.pop(who, (float(most), now))
            left = min(float(most), left + (now - at) * rate)
            self._left[who] = left - 1 if left >= 1 else left, now
            while len(self._left) > MOST_BUCKETS:  # the one that was used longest ago
                del self._left[next(iter(self._left))]
        if left < 1:
            raise TooOften((1 - left) / rate)


def desk_of(request: Request) -> Desk:
    """Return the desk that a request is for."""
    desk: Desk = request.app.state.desk
    return desk


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie: over TLS no other host and path can set it."""
    return "__Host-desk" if request.app.state.tls else "desk"


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Give the browser a token to keep, out of reach of scripts and other sites."""
    response.set_cookie(
        *(cookie_name(request), token),
        max_age=int(LONGEST),
        path="/",
        secure=True,
        httponly=True,
        samesite="strict",
    )


def visiting(request: Request) -> Visit:
    """Return who is signed in."""
    token = request.cookies.get(cookie_name(request), "")
    # A page that asks again by itself, to see how something goes, is nobody who does anything.
    using = request.headers.get("hx-trigger") != "progress"
    session = desk_of(request).sessions.find(token, using=using) if token else None
    if session is None:
        throttled(request)
        raise NotSignedIn
    _count(request, f"session {session.form}")
    return Visit(request, session.account, session.form)


def throttled(request: Request) -> None:
    """Count a request of somebody who is not signed in, or raise where it comes too soon."""
    _count(request, f"address {address_of(request)}")


def _count(request: Request, who: str) -> None:
    buckets: Buckets = request.app.state.buckets
    buckets.take(f"{request.method} {who}", *(POSTS if request.method == "POST" else READS))


Reader = Annotated[Visit, Depends(visiting)]


def needing(*roles: Role) -> Callable[[Visit], Visit]:
    """Return what lets only these roles see a page."""

    def check(visit: Reader) -> Visit:
        expect_role(visit.account, roles)
        return visit

    return check


def posting(*roles: Role) -> Callable[[Request, Visit], Awaitable[Visit]]:
    """Return what lets only these roles post a form, which must be one of their own session."""

    async def check(request: Request, visit: Reader) -> Visit:
        expect_role(visit.account, roles)
        expect_own_site(request)
        form = await read_form(request)
        token = request.cookies.get(cookie_name(request), "")
        expect_token(token, form)
        return Visit(request, visit.account, visit.token, form)

    return check


def expect_role(account: Account, roles: tuple[Role, ...]) -> None:
    """Raise where an account's role is none of these."""
    if account.role not in roles:
        raise HTTPException(403, f"That is not for the role {account.role}.")


def expect_own_site(request: Request) -> None:
    """Raise where a browser says that a page of another site posts this."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    desk = f"{request.url.scheme}://{request.url.netloc}"
    if site not in ("same-origin", "none") or origin not in (None, desk):
        raise HTTPException(403, "The form came from another site.")


def expect_token(cookie: str, form: Form) -> None:
    """Raise where a form does not bring the token that belongs to the browser's."""
    if not cookie or not fits(cookie, form.text("form_token")):
        raise OtherSession(form)


async def read_form(request: Request) -> Form:
    """Read what a form brought; how much that is at most the shield sees to."""
    form = Form()
    async with request.form(
        max_files=2, max_fields=MOST_FIELDS, max_part_size=MOST_BYTES
    ) as fields:
        for name, value in fields.multi_items():
            if isinstance(value, UploadFile):
                content = await value.read()
                if content or value.filename:
                    form.files[name] = value.filename or "", content
            else:
                form.texts.setdefault(name, []).append(value)
    return form


async def typed_in(request: Request) -> list[tuple[str, str]]:
    """Return what somebody typed into a form of this desk that is not taken, by its name."""
    if request.method != "POST":
        return []
    try:
        expect_own_site(request)
        return (await read_form(request)).typed()
    except HTTPException:
        return []


def drawn(request: Request) -> tuple[str, str]:
    """Return a token for a browser that has none yet, and that of its forms."""
    token = request.cookies.get(cookie_name(request), "") or draw()
    return token, form_token(token)


#: The number of a request in an address; one beyond what is counted is none.
Number = Annotated[int, Path(ge=1, lt=2**53)]
Writer = Annotated[Visit, Depends(posting(*WORKING))]
Approver = Annotated[Visit, Depends(posting("approver"))]
Anybody = Annotated[Visit, Depends(posting(*ROLES))]
Working = Annotated[Visit, Depends(needing(*WORKING))]
