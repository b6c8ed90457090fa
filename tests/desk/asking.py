"""Asking for any route of the desk as anybody, and what the desk remembers before and after."""

from __future__ import annotations

import time
from typing import Any

from desk.browsers import PATIENCE, Browser, Page
from desk.conftest import ROLES, MakeBrowser
from unlabel.desk.office import Desk

#: Who may ask for a route: everybody, who is signed in, who works on requests, approvers.
OPEN, READ, WORK, CONFIRM = (
    frozenset({"", *ROLES.values()}),
    frozenset(ROLES.values()),
    frozenset({"caseworker", "approver"}),
    frozenset({"approver"}),
)
#: Every route of the desk. One that is not here fails `test_every_route_is_in_the_matrix`.
MATRIX: dict[tuple[str, str], frozenset[str]] = {
    ("GET", "/sign-in"): OPEN,
    ("POST", "/sign-in"): OPEN,
    ("POST", "/sign-out"): READ,
    ("GET", "/"): READ,
    ("GET", "/requests"): READ,
    ("GET", "/requests/new"): WORK,
    ("POST", "/requests"): WORK,
    ("GET", "/requests/{number}"): READ,
    ("GET", "/requests/{number}/events"): READ,
    ("GET", "/requests/{number}/edit"): WORK,
    ("POST", "/requests/{number}/edit"): WORK,
    ("POST", "/requests/{number}/plan"): WORK,
    ("POST", "/requests/{number}/start"): WORK,
    ("POST", "/requests/{number}/audit"): WORK,
    ("POST", "/requests/{number}/cancel"): WORK,
    ("POST", "/requests/{number}/withdraw"): WORK,
    ("POST", "/requests/{number}/extend"): WORK,
    ("POST", "/requests/{number}/decide"): WORK,
    ("POST", "/requests/{number}/confirm"): CONFIRM,
    ("POST", "/requests/{number}/take-back"): WORK,
    ("POST", "/requests/{number}/purge"): WORK,
    ("POST", "/requests/{number}/certify"): WORK,
    ("POST", "/requests/{number}/sent"): WORK,
    ("GET", "/requests/{number}/report"): READ,
    ("GET", "/requests/{number}/certificate"): READ,
    ("GET", "/requests/{number}/demand"): READ,
    ("GET", "/requests/{number}/letter"): READ,
    ("POST", "/requests/{number}/letter"): WORK,
    ("GET", "/requests/{number}/letter.txt"): READ,
    ("GET", "/requests/{number}/extension.txt"): READ,
    ("GET", "/federation"): READ,
    ("POST", "/federation/look"): WORK,
    ("POST", "/federation/cancel"): WORK,
    ("GET", "/trail"): READ,
    ("GET", "/trail/check"): READ,
    ("GET", "/trail.jsonl"): READ,
    ("GET", "/static/{name}"): OPEN,
    ("GET", "/healthz"): OPEN,
}
ROUTES = sorted(MATRIX)
PEOPLE = {"": "", **{role: name for name, role in reversed(ROLES.items())}}
#: A form that every route finds something in, and is refused by for what it asks and not for who.
FORM = {
    "choice": "none",
    "decision": "none",
    "proposal": "0",
    "answer": "none",
    "reason": "",
    "retrained": "99",
    "language": "xx",
    "text": "x",
    "action": "save",
    "ids": "",
    "name": "nobody",
    "password": "not the password",
}


def stored(desk: Desk) -> dict[str, list[Any]]:
    """Return what the desk remembers of requests, apart from when sessions were last used."""
    tables = ("requests", "people", "tasks", "trail", "notes", "accounts")
    return {
        name: [tuple(row) for row in desk.store.rows(f"SELECT * FROM {name}")] for name in tables
    }


def files(desk: Desk) -> set[str]:
    """Return the names of all files of a desk and beside it, but for the store's own."""
    around = desk.place.desk.parent
    return {
        f"{path.relative_to(around)}"
        for path in around.rglob("*")
        if path.is_file() and not path.name.startswith(("desk.sqlite", "desk.lock"))
    }


def wait_idle(desk: Desk) -> None:
    """Wait until the worker has nothing to do."""
    deadline = time.monotonic() + PATIENCE
    while desk.tasks.next() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ask(browser: Browser, verb: str, path: str, **changes: Any) -> Page:
    """Ask for a route as it is, without following where it leads."""
    path = path.format(number=changes.pop("number", 1), name="desk.css")
    data = {"form_token": browser.token, **FORM, **changes.pop("fields", {})}
    response = browser.client.request(
        verb,
        path,
        data=data if verb == "POST" else None,
        follow_redirects=False,
        **changes,
    )
    return Page(response.status_code, response.text, path, response.headers)


def person(make_browser: MakeBrowser, desk: Desk, role: str) -> Browser:
    """Return the browser of somebody of a role; of nobody who is signed in where it is empty."""
    browser = make_browser(desk, PEOPLE[role])
    if not role:
        browser.token = browser.get("/sign-in").find(r'name="form_token" value="(\w+)"')
    return browser


def attempt(browser: Browser, name: str, password: str, **headers: str) -> Page:
    """Try to sign in."""
    fields = {"name": name, "password": password}
    return ask(browser, "POST", "/sign-in", fields=fields, headers=headers)


def cookies(browser: Browser) -> dict[str, str]:
    """Return the cookies that a browser has."""
    return dict(browser.client.cookies.items())
