"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from unlabel.desk.accounts import SignInRefused
from unlabel.desk.views import page
from unlabel.desk.visits import (
    Anybody,
    Form,
    address_of,
    cookie_name,
    desk_of,
    drawn,
    expect_own_site,
    expect_token,
    read_form,
    set_cookie,
    throttled,
)

router = APIRouter()
NO_COOKIE = (
    "Your browser did not keep the desk's cookie. Allow cookies for this address; where the "
    "address begins with http, some browsers keep none that is for secure connections alone, so "
    "take another browser, or have the desk started with --certificate and --key."
)


async def _form(request: Request) -> Form:
    throttled(request)
    expect_own_site(request)
    return await read_form(request)


@router.get("/sign-in")
def ask(request: Request) -> Response:
    """Ask for a name and a password."""
    throttled(request)
    return _page(request)


@router.post("/sign-in")
def sign_in(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
    """Begin a session; its token is drawn now, whatever the browser brought."""
    desk, cookie = desk_of(request), request.cookies.get(cookie_name(request), "")
    if not cookie:
        return _page(request, NO_COOKIE, 403)
    expect_token(cookie, form)
    name = form.text("name")
    try:
        account = desk.accounts.sign_in(name, form.text("password"), address_of(request))
    except SignInRefused as refused:
        status = 429 if refused.wait else 403
        response = _page(request, str(refused), status, name)
        if refused.wait:
            response.headers["retry-after"] = str(max(1, round(refused.wait)))
        return response
    desk.sessions.end(cookie)
    token = desk.sessions.begin(account)
    desk.trail.add("signed in", None, account.name)
    response = RedirectResponse("/requests", 303)
    set_cookie(request, response, token)
    return response


@router.post("/sign-out")
def sign_out(visit: Anybody) -> Response:
    """End the session."""
    cookie = cookie_name(visit.request)
    visit.desk.sessions.end(visit.request.cookies[cookie])
    visit.desk.trail.add("signed out", None, visit.account.name)
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(cookie, path="/", secure=True, httponly=True, samesite="strict")
    return response


def _page(request: Request, trouble: str = "", status: int = 200, name: str = "") -> Response:
    token, of_forms = drawn(request)
    desk = desk_of(request)
    nobody = not desk.accounts.all()
    response = page(
        None,
        "sign_in.html",
        status=status,
        token=of_forms,
        trouble=trouble,
        name=name[:64],
        nobody=nobody,
        place=str(desk.place),
    )
    set_cookie(request, response, token)
    return response
