"""One request: where it stands, what can be done next, and how far what is under way has come."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from datetime import date

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response, StreamingResponse

from unlabel.desk import deadline
from unlabel.desk.answering import digest, is_outdated, note_sent
from unlabel.desk.failures import WrongState, status_of
from unlabel.desk.figures import shown
from unlabel.desk.pages.new import day_in
from unlabel.desk.preview import DISCLOSED, Preview
from unlabel.desk.requests import Request
from unlabel.desk.verbs import REPORT, VERDICT
from unlabel.desk.views import environment, page
from unlabel.desk.visits import (
    Approver,
    Number,
    Reader,
    Visit,
    Writer,
    cookie_name,
    expect_role,
)
from unlabel.errors import RunError, UnlabelError

router = APIRouter()
#: Seconds between two looks at how far something has come, and streams that look at once.
LOOK, MOST_STREAMS = 0.4, 100
#: Looks after which something is sent in any case, so that a connection that broke is noticed.
SILENT = 40
#: Ids that are shown at once.
SHOWN_IDS = 20


@router.get("/requests/{number}")
def show(visit: Reader, number: Number) -> Response:
    """Show a request."""
    return _page(visit, number)


@router.post("/requests/{number}/plan")
def plan(visit: Writer, number: Number) -> Response:
    """Look again at what each choice would mean."""
    return _act(visit, number, lambda: visit.desk.plan(number, visit.account))


@router.post("/requests/{number}/start")
def start(visit: Writer, number: Number) -> Response:
    """Carry it out."""
    choice, reason = visit.form.text("choice"), visit.form.text("reason")
    if choice == DISCLOSED.key:
        expect_role(visit.account, ("approver",))
    start = functools.partial(visit.desk.start, number, choice, visit.account, reason=reason)
    return _act(visit, number, start)


@router.post("/requests/{number}/audit")
def audit(visit: Writer, number: Number) -> Response:
    """Audit it again."""

    def act() -> None:
        visit.desk.audit(number, visit.form.number("retrained", 0), visit.account)

    return _act(visit, number, act)


@router.post("/requests/{number}/cancel")
def cancel(visit: Writer, number: Number) -> Response:
    """Stop what is under way."""
    return _act(visit, number, lambda: visit.desk.cancel(number, visit.account))


@router.post("/requests/{number}/withdraw")
def withdraw(visit: Writer, number: Number) -> Response:
    """End it without anything done."""
    reason = visit.form.text("reason")
    return _act(visit, number, lambda: visit.desk.withdraw(number, reason, visit.account))


@router.post("/requests/{number}/extend")
def extend(visit: Writer, number: Number) -> Response:
    """Extend its term."""
    reason = visit.form.text("reason")
    return _act(visit, number, lambda: visit.desk.extend(number, reason, visit.account))


@router.post("/requests/{number}/decide")
def decide(visit: Writer, number: Number) -> Response:
    """Decide on it, or propose a decision."""
    form = visit.form

    def act() -> None:
        visit.desk.decide(
            *(number, form.text("decision"), visit.account),
            force=form.text("force") == "on",
            reason=form.text("reason"),
        )

    return _act(visit, number, act)


@router.post("/requests/{number}/confirm")
def confirm(visit: Approver, number: Number) -> Response:
    """Answer what another person proposed."""
    proposal, answer = visit.form.text("proposal"), visit.form.text("answer")

    def act() -> None:
        if answer not in ("confirm", "decline"):
            raise WrongState("Confirm it, or decline.")
        visit.desk.confirm(number, proposal, answer, visit.account)

    return _act(visit, number, act)


@router.post("/requests/{number}/take-back")
def take_back(visit: Writer, number: Number) -> Response:
    """Take back what one proposed oneself."""
    proposal = visit.form.text("proposal")
    return _act(visit, number, lambda: visit.desk.take_back(number, proposal, visit.account))


@router.post("/requests/{number}/purge")
def purge(visit: Writer, number: Number) -> Response:
    """Purge."""

    def act() -> None:
        if visit.form.text("sure") != "on":
            raise WrongState("Say that you have read what is removed: a purge cannot be undone.")
        visit.desk.purge(number, visit.account)

    return _act(visit, number, act)


@router.post("/requests/{number}/certify")
def certify(visit: Writer, number: Number) -> Response:
    """Have it certified."""
    return _act(visit, number, lambda: visit.desk.certify(number, visit.account))


@router.post("/requests/{number}/sent")
def sent(visit: Writer, number: Number) -> Response:
    """Note that the letter was sent."""

    def act() -> None:
        day = day_in(visit.form.text("day"), "the day on which it was sent") or visit.desk.today()
        note_sent(visit.desk, number, visit.form.text("letter"), day, visit.account)

    return _act(visit, number, act)


@router.get("/requests/{number}/events")
async def events(visit: Reader, number: Number) -> Response:
    """Send how far it has come, as often as that changes, until nothing is under way."""
    state = visit.request.app.state
    await run_in_threadpool(visit.desk.requests.get, number)
    if state.streams >= MOST_STREAMS:
        raise RunError("Too many people are watching; load the page again later.", code="busy")
    return StreamingResponse(
        _events(visit, number),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _events(visit: Visit, number: int) -> AsyncIterator[str]:
    state, token = visit.request.app.state, visit.request.cookies[cookie_name(visit.request)]
    state.streams += 1
    try:
        before, silent = "", 0
        seen = visit.desk.tasks.live(number)
        while not visit.worker.is_ending:
            task = await run_in_threadpool(visit.desk.tasks.live, number)
            if task is None or (seen and task.number != seen.number) or seen is None:
                yield _event("changed", "")
            seen = task
            if task is None:
                break
            fragment = (
                environment()
                .get_template("_progress.html")
                .render(
                    task=task, progress=visit.worker.of(task), ahead=visit.desk.tasks.before(task)
                )
            )
            silent = 0 if fragment != before else silent + 1
            if fragment != before or silent >= SILENT:
                yield _event("progress", fragment)
                before, silent = fragment, 0
                # Whoever was signed out meanwhile sees no more of it; to look on is not to act.
                if not await run_in_threadpool(
                    lambda: visit.desk.sessions.find(token, using=False)
                ):
                    break
            await asyncio.sleep(LOOK)
        yield _event("ended", "")
    finally:
        state.streams -= 1


def _event(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.strip().splitlines() or [""])
    return f"event: {name}\n{lines}\n"


def _act(visit: Visit, number: int, act: Callable[[], None]) -> Response:
    """Do something to a request and show it; where that is refused, show why."""
    try:
        act()
    except UnlabelError as error:
        if error.code == "no-such-request":
            raise
        return _page(visit, number, str(error), status_of(error))
    visit.worker.wake()
    return RedirectResponse(f"/requests/{number}", 303)


def _page(visit: Visit, number: int, refused: str = "", status: int = 200) -> Response:
    desk = visit.desk
    task = desk.tasks.live(number)  # first: where none is, the state that is read next is its end
    request, files = desk.requests.get(number), desk.place.files(number)
    ids = desk.requests.people(number)
    previews = [Preview.from_json(each) for each in request.fact("previews", [])]
    return page(
        visit,
        "request.html",
        status=status,
        request=request,
        task=task,
        progress=visit.worker.of(task),
        ahead=0 if task is None else desk.tasks.before(task),
        refused=refused,
        ids=ids[:SHOWN_IDS],
        more_ids=ids[SHOWN_IDS:],
        previews=previews,
        chosen=next((each.title for each in previews if each.key == request.fact("choice")), ""),
        audit=shown(files / VERDICT),
        has_report=(files / REPORT).exists(),
        history=list(reversed(desk.trail.of(number))),
        two_persons=desk.settings.two_persons,
        standing_in_the_way=_other(visit, request),
        may_extend=_may_extend(request, desk.today()),
        today=desk.today(),
        copies=_copies(request),
        outdated=not request.is_ended and is_outdated(desk, request),
        digest=digest(request.fact("letter", {}).get("text", "")),
    )


def _other(visit: Visit, request: Request) -> Request | None:
    """Return the request that is in the way of this one: of its plan, or of carrying it out."""
    desk = visit.desk
    other = desk.in_the_way() if request.state == "planned" else desk.requests.open()
    return other if other is not None and other.number != request.number else None


def _may_extend(request: Request, today: date) -> bool:
    received = date.fromisoformat(request.received)
    within = received <= today <= deadline.due(received)
    return within and not request.is_ended and not request.fact("extension")


def _copies(request: Request) -> dict[str, list[dict[str, str]]]:
    """Return the places that were listed, those where something is left first."""
    listed: list[dict[str, str]] = request.fact("copies", [])
    return {
        state: [each for each in listed if each["state"] == state]
        for state in ("left", "cleared", "kept")
    }
