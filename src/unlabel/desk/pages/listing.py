"""The list of requests."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from unlabel.desk import views
from unlabel.desk.requests import STATES
from unlabel.desk.visits import Reader

router = APIRouter()
#: Requests on a page, and characters of what is looked for.
ON_PAGE, LONGEST = 50, 200


@router.get("/")
def first(_: Reader) -> Response:
    """Go to the list."""
    return RedirectResponse("/requests", 303)


@router.get("/requests")
def requests(visit: Reader, q: str = "", state: str = "", page: str = "1") -> Response:
    """Show requests, the newest first."""
    words, state = q[:LONGEST], state if state in STATES else ""
    number = int(page) if page.isdecimal() and len(page) < 7 else 1
    number = max(1, number)
    desk = visit.desk
    listed = desk.requests.list(
        words=words, state=state, count=ON_PAGE, skip=(number - 1) * ON_PAGE
    )
    last = desk.trail.last_of([each.number for each in listed.requests])
    counts = desk.requests.counts()
    return views.page(
        visit,
        "requests.html",
        listed=listed,
        last=last,
        counts=counts,
        all=sum(counts.values()),
        words=words,
        state=state,
        number=number,
        pages=max(1, -(-listed.total // ON_PAGE)),
        today=desk.today(),
    )
