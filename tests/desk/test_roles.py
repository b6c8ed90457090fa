"""Who may do what at every route of the desk: roles, forms, sessions, guessing."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
import threading
import time
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from cli.command_line import one_thread
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from desk.asking import (
    MATRIX,
    PEOPLE,
    READ,
    ROUTES,
    ask,
    attempt,
    cookies,
    files,
    person,
    stored,
    wait_idle,
)
from desk.browsers import DEMAND, PASSWORD, Browser
from desk.conftest import MakeBrowser
from unlabel.desk.accounts import FREE
from unlabel.desk.app import app
from unlabel.desk.office import Desk
from unlabel.desk.sessions import IDLE
from unlabel.desk.visits import POSTS, Buckets, TooOften

__all__ = ["one_thread"]  # a fixture for every test here


# Who may do what


def routes_of(routes: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield every verb and path; a kind of route that nobody here knows fails."""
    for route in routes:
        if hasattr(route, "original_router"):  # as recent releases of FastAPI include one
            assert not route.include_context.prefix
            yield from routes_of(route.original_router.routes)
            continue
        assert isinstance(route, APIRoute), route
        yield from ((verb, route.path) for verb in route.methods or ())


def test_every_route_is_in_the_matrix(planned: Desk) -> None:
    assert set(routes_of(app(planned).routes)) == MATRIX.keys()


def test_each_role_may_do_what_the_matrix_says_and_nothing_else(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    before = {**stored(planned), "trail": []}
    for role in PEOPLE:
        browser = person(make_browser, planned, role)
        for verb, path in ROUTES:
            if (verb, path) == ("POST", "/sign-out"):
                continue  # below: it ends the session
            wait_idle(planned)
            desk_before = stored(planned)
            page = ask(browser, verb, path)
            told = (role, verb, path, page.status)
            if role in MATRIX[verb, path]:
                assert page.status not in (401, 405), told
                assert page.headers.get("location") != "/sign-in", told
                assert page.status != 403 or path == "/sign-in", told
                continue
            if role:
                assert page.status == 403, told
            elif verb == "GET":
                assert (page.status, page.headers["location"]) == (303, "/sign-in"), told
            else:
                assert page.status == 401, told
            assert stored(planned) == desk_before, told
    wait_idle(planned)
    after = stored(planned)
    assert after["requests"] == before["requests"], "the form asks for nothing that can be done"
    assert ask(person(make_browser, planned, ""), "POST", "/sign-out").status == 401
    for role in READ:
        assert ask(person(make_browser, planned, role), "POST", "/sign-out").status == 303


def test_other_verbs_are_not_known(planned: Desk, make_browser: MakeBrowser) -> None:
    ada, before = make_browser(planned, "ada"), stored(planned)
    for (known, path), verb in itertools.product(ROUTES, ("PUT", "DELETE", "PATCH", "TRACE")):
        page = ask(ada, verb, path)
        assert page.status in (404, 405), (known, verb, path)
    assert {**stored(planned), "trail": 0} == {**before, "trail": 0}


def test_looking_changes_nothing(planned: Desk, make_browser: MakeBrowser) -> None:
    bert = make_browser(planned, "bert")
    before, papers = stored(planned), files(planned)
    for verb, path in ROUTES:
        if verb == "GET":
            ask(bert, verb, path)
    assert stored(planned) == before
    assert files(planned) == papers


def test_what_the_desk_knows_is_in_no_page_for_who_is_not_signed_in(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    nobody = make_browser(planned)
    for verb, path in ROUTES:
        page = ask(nobody, verb, path)
        for secret in ("2026/17", "P005", "planned", "ada"):
            assert secret not in page.text.replace("loading", ""), (verb, path)


# Forms of other sites


POSTS_OF_THE_DESK = [path for verb, path in ROUTES if verb == "POST"]


@pytest.mark.parametrize(
    "change",
    [
        {"fields": {"form_token": ""}},
        {"fields": {"form_token": "0" * 64}},
        {"fields": {"form_token": "é" * 64}},
        {"headers": {"sec-fetch-site": "cross-site"}},
        {"headers": {"sec-fetch-site": "same-site"}},
        {"headers": {"origin": "https://elsewhere.example"}},
        {"headers": {"origin": "null"}},
        {"headers": {"origin": "http://testserver"}},
    ],
    ids=str,
)
def test_no_form_of_another_site_is_taken(
    planned: Desk, make_browser: MakeBrowser, change: dict[str, Any]
) -> None:
    bert = make_browser(planned, "bert")
    before = stored(planned)
    for path in POSTS_OF_THE_DESK:
        changed = {name: dict(values) for name, values in change.items()}
        assert ask(bert, "POST", path, **changed).status == 403, path
    assert stored(planned) == before
    assert bert.get("/requests").path == "/requests", "nor was anybody signed out"


def test_the_token_of_another_session_is_not_taken(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    ada, bert, nobody = (person(make_browser, planned, r) for r in ("caseworker", "approver", ""))
    before = stored(planned)
    for other in (ada.token, nobody.token):
        for path in POSTS_OF_THE_DESK:
            assert ask(bert, "POST", path, fields={"form_token": other}).status == 403, path
    assert stored(planned) == before


def test_a_form_of_the_session_itself_is_taken(planned: Desk, make_browser: MakeBrowser) -> None:
    ada = make_browser(planned, "ada")
    headers = {"sec-fetch-site": "same-origin", "origin": "https://testserver"}
    fields = {"reason": "Many came in."}
    page = ask(ada, "POST", "/requests/{number}/extend", fields=fields, headers=headers)
    assert page.status == 303
    assert planned.requests.get(1).fact("extension") == "Many came in."


# Sessions


def test_signing_in_draws_a_new_session_whatever_the_browser_brought(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    attacker = make_browser(planned)
    planted = "A" * 43
    for token in (planted, cookies(make_browser(planned, "eve"))["desk"]):
        victim = make_browser(planned)
        victim.client.cookies.set("desk", token, domain="testserver.local", path="/")
        victim.client.cookies.set("desk", token)
        page = ask(victim, "GET", "/sign-in")
        victim.token = page.find(r'name="form_token" value="(\w+)"')
        answer = ask(victim, "POST", "/sign-in", fields={"name": "ada", "password": PASSWORD})
        assert answer.status == 303
        drawn = re.search(r"desk=([^;]+)", answer.headers["set-cookie"])
        assert drawn is not None
        assert drawn.group(1) != token
        # Whoever planted the token is not signed in by it, nor stays so.
        attacker.client.cookies.clear()
        attacker.client.cookies.set("desk", token)
        assert ask(attacker, "GET", "/requests").status == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(planned: Desk) -> None:
    for tls, name in ((False, "desk"), (True, "__Host-desk")):
        client = TestClient(app(planned, tls=tls), base_url="https://testserver")
        header = client.get("/sign-in").headers["set-cookie"].lower()
        assert header.startswith(f"{name.lower()}=")
        for flag in ("httponly", "secure", "samesite=strict", "path=/"):
            assert flag in header
        assert "domain" not in header
        assert ("strict-transport-security" in client.get("/sign-in").headers) == tls


def test_a_session_ends_where_it_is_to_end(planned: Desk, make_browser: MakeBrowser) -> None:
    def stolen(browser: Browser) -> Browser:
        copy = make_browser(planned)
        copy.client.cookies.set("desk", cookies(browser)["desk"])
        copy.token = browser.token
        return copy

    ada = make_browser(planned, "ada")
    copy = stolen(ada)
    assert ask(copy, "GET", "/requests").status == 200
    ask(ada, "POST", "/sign-out")
    assert ask(copy, "GET", "/requests").status == 303
    assert ask(copy, "POST", "/requests/{number}/plan").status == 401
    ada = make_browser(planned, "ada")
    planned.accounts.set_password("ada", "eight dry umbrellas")
    assert ask(ada, "GET", "/requests").status == 303
    cleo = make_browser(planned, "cleo")
    planned.accounts.remove("cleo")
    assert ask(cleo, "GET", "/requests").status == 303


def test_a_session_is_not_guessed_from_what_is_stored(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    ada, thief = make_browser(planned, "ada"), make_browser(planned)
    content = b"".join(path.read_bytes() for path in planned.place.desk.iterdir() if path.is_file())
    assert cookies(ada)["desk"].encode() not in content
    assert PASSWORD.encode() not in content
    for row in planned.store.rows("SELECT token FROM sessions"):
        thief.client.cookies.set("desk", row["token"])
        assert ask(thief, "GET", "/requests").status == 303


# Guessing


def test_a_password_is_not_guessed_by_trying(planned: Desk, make_browser: MakeBrowser) -> None:
    guesser = person(make_browser, planned, "")
    for name in ("ada", "nobody"):  # whether there is such an account does not show
        seen = []
        for number in range(FREE["name"] + 2):
            page = attempt(guesser, name, f"guess {number}")
            seen.append((page.status, page.trouble))
        assert (
            seen[: FREE["name"]]
            == [(403, "The name and the password do not open an account.")] * FREE["name"]
        )
        assert [status for status, _ in seen[-1:]] == [429]
        assert int(page.headers["retry-after"]) >= 1
    waiting = attempt(guesser, "ada", PASSWORD)
    assert waiting.status == 429, "nor is the right one taken before its time"
    assert ask(guesser, "GET", "/requests").status == 303


def test_many_names_from_one_address_wait_and_a_header_makes_no_other_address(
    planned: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlabel.desk.visits.POSTS", (10_000, 1.0))  # that is tested below
    web = app(planned)

    def guesser(address: str) -> Browser:
        client = TestClient(web, base_url="https://testserver", client=(address, 1))
        browser = Browser(client, planned)
        browser.token = browser.get("/sign-in").find(r'name="form_token" value="(\w+)"')
        return browser

    bad, good = guesser("192.0.2.7"), guesser("192.0.2.8")
    statuses = [
        attempt(bad, f"name{number}", "guess", **{"x-forwarded-for": f"198.51.100.{number}"}).status
        for number in range(FREE["address"] + 2)
    ]
    assert statuses[: FREE["address"]] == [403] * FREE["address"]
    assert statuses[-1] == 429
    assert attempt(good, "ada", PASSWORD).status == 303


def test_no_session_asks_without_end(planned: Desk, make_browser: MakeBrowser) -> None:
    ada, bert = make_browser(planned, "ada"), make_browser(planned, "bert")
    statuses = [ask(ada, "POST", "/requests/{number}/cancel").status for _ in range(POSTS[0] + 5)]
    assert statuses[0] == 409
    assert statuses[-1] == 429
    assert ask(bert, "POST", "/requests/{number}/cancel").status == 409, "others go on"


def test_threads_that_ask_at_once_share_what_is_left() -> None:
    buckets, taken = Buckets(), list[int]()

    def take() -> None:
        for _ in range(2000):
            with contextlib.suppress(TooOften):
                buckets.take("somebody", 500, 1e-9)
                taken.append(1)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert len(taken) == 500


def test_what_was_typed_comes_back_where_the_session_has_ended(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(planned, "ada")
    planned.sessions.end(cookies(ada)["desk"])
    fields = {"text": "Dear <b>Jane</b>", "password": "seven wet umbrellas"}
    page = ask(ada, "POST", "/requests/1/letter", fields=fields)
    assert page.status == 401
    assert page.has("nothing was changed; sign in again")
    assert page.has(r"readonly>Dear &lt;b&gt;Jane&lt;/b&gt;</textarea>")
    assert not page.has("umbrellas|form_token")
    # A page of another site puts nothing onto one of ours.
    page = ask(ada, "POST", "/requests/1/letter", fields=fields, headers={"origin": "https://a.b"})
    assert (page.status, page.has("Jane")) == (401, False)


def test_what_was_typed_comes_back_where_somebody_has_signed_in_again_meanwhile(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(planned, "ada")
    before, form = ada.token, {"demand": ("demand.pdf", DEMAND)}
    ada.sign_in("ada")
    assert ada.token != before
    ada.token = before
    page = ada.post("/requests", form, kind="people", ids="P006", reference="<2026/17>")
    assert page.status == 403
    assert page.trouble == "The form is not of this session; load the page again."
    assert page.has(r"readonly>P006</textarea>.*readonly>&lt;2026/17&gt;</textarea>")
    headers = {"origin": "https://a.b"}
    page = ada.post("/requests", form, headers, kind="people", ids="P006")
    assert (page.status, page.has("P006")) == (403, False)


def test_a_page_that_asks_again_by_itself_keeps_no_session_alive(
    planned: Desk, make_browser: MakeBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, later = make_browser(planned, "ada"), [time.time()]
    monkeypatch.setattr(planned.sessions, "_now", lambda: later[0])
    by_itself = {"hx-request": "true", "hx-trigger": "progress"}
    for headers, expected in (({}, [200] * 4), (by_itself, [200, 200, 401, 401])):
        statuses = []
        for _ in range(4):
            later[0] += IDLE / 3 + 1
            statuses.append(ask(ada, "GET", "/federation", headers=headers).status)
        assert statuses == expected
    template = resources.files("unlabel.desk").joinpath("templates/federation.html").read_text()
    assert '<section class="card next" id="progress" hx-get="/federation"' in template
