"""What is typed and sent to the desk by people who mean harm, and what browsers are told."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cli.command_line import one_thread
from starlette.testclient import TestClient

from desk.asking import (
    ROUTES,
    ask,
    attempt,
    cookies,
    files,
    stored,
)
from desk.browsers import DEMAND, PASSWORD, Browser, Page
from desk.conftest import ROLES, MakeBrowser
from unlabel.desk.app import LIMITS, app
from unlabel.desk.office import Desk
from unlabel.desk.pages.new import MOST_CSV, MOST_DEMAND
from unlabel.desk.visits import MOST_BYTES, MOST_FIELDS
from unlabel.errors import SettingsError
from unlabel.serve import Limits

__all__ = ["one_thread"]  # a fixture for every test here

#: What people type who mean harm, and what breaks programs.
HOSTILE = (
    "'; DROP TABLE requests; --",
    '" OR 1=1 --',
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "${7*7}",
    "../../../../etc/passwd",
    "..\\..\\windows\\win.ini",
    "=cmd|' /C calc'!A0",
    "a\r\nSet-Cookie: stolen=1",
    "\u202etxt.exe",
    "\x1b[2J",
    "\ufeff\u0000nul",
    "%00%0a%s%n",
    "😀" * 20,
    "A" * 900,
)


# What is typed and sent


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_is_typed_is_kept_as_it_is_and_shown_as_text(
    planned: Desk, make_browser: MakeBrowser, text: str
) -> None:
    ada, papers = make_browser(planned, "ada"), files(planned)
    short = text[:150]
    page = ada.receive(ids=text, reference=short, demand=None)
    assert page.status in (200, 422), page.text
    pages = [page, ada.receive(kind="labels", labels=[text]), ada.receive(received=text)]
    pages += [ada.receive(language=text), ada.receive(kind=text)]
    pages += [
        ada.post("/requests/1/extend", reason=short),
        ada.post("/requests/1/start", choice=text),
    ]
    response = ada.client.get("/requests", params={"q": text, "state": text, "page": text})
    pages.append(Page(response.status_code, response.text, "", response.headers))
    response = ada.client.get("/trail", params={"before": text})
    pages.append(Page(response.status_code, response.text, "", response.headers))
    numbers = [row["number"] for row in planned.store.rows("SELECT number FROM requests")]
    pages += [ada.at(number) for number in numbers]
    pages += [ada.get(f"/requests/{number}/edit") for number in numbers]
    for each in pages:
        assert each.status < 500, each.text
        for raw in ("<script>alert", "<img src=x", "Set-Cookie: stolen"):
            assert raw not in each.text or (raw.startswith("Set") and "Set-Cookie" in text)
        assert "stolen" not in each.headers.get("set-cookie", "")
        assert "49" not in re.findall(r"\b49\b", each.text) or "7" not in text
    assert {"requests", "people", "trail"} <= {
        row["name"] for row in planned.store.rows("SELECT name FROM sqlite_master")
    }
    new = files(planned) - papers
    assert all(re.fullmatch(r"[^/]+\.desk/files/\d+/demand", name) for name in new), new
    attempt(ada, text, text)
    assert ada.get("/trail/check").has("The chain is whole")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_file_lies_where_the_desk_puts_it_whatever_it_is_called(
    planned: Desk, make_browser: MakeBrowser, name: str
) -> None:
    ada, papers = make_browser(planned, "ada"), files(planned)
    uploads = {"demand": (name, DEMAND), "file": (name, b"id\nP007\n")}
    today = f"{planned.today()}"
    page = ada.post("/requests", uploads, kind="people", ids="P006", received=today)
    assert page.status in (200, 400), page.text
    if page.status == 400:  # such a name cannot be said in a form's header
        assert files(planned) == papers
        return
    assert files(planned) - papers == {"blind.desk/files/2/demand"}
    answer = ada.client.get("/requests/2/demand")
    assert answer.content == DEMAND
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("attachment; filename*=UTF-8''")
    assert re.fullmatch(r"[\w.%~-]+", disposition.partition("''")[2])
    assert "%2F" not in disposition
    assert "%5C" not in disposition
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "number",
    [
        *("0", "-1", "99999999999999999999999999", "9223372036854775808", "1.5", "1e3", "0x1"),
        *("1'", "1 OR 1=1", "%31%27", "..", "../1", "..%2f..%2fetc", "1%00", "1;2", "\u0661", "1/"),
    ],
)
def test_a_number_that_is_none_finds_nothing(
    planned: Desk, make_browser: MakeBrowser, number: str
) -> None:
    ada = make_browser(planned, "ada")
    before = stored(planned)
    for end in (
        "",
        "/report",
        "/certificate",
        "/demand",
        "/letter",
        "/letter.txt",
        "/edit",
        "/events",
    ):
        answer = ada.client.get(f"/requests/{number}{end}", follow_redirects=False)
        assert answer.status_code in (303, 404, 409), (number, end, answer.status_code)
        assert "root:" not in answer.text
    for action in ("plan", "withdraw", "purge", "letter"):
        answer = ada.client.post(
            f"/requests/{number}/{action}", data={"form_token": ada.token, "reason": "x"}
        )
        assert answer.status_code in (404, 405, 409, 422), (number, action, answer.status_code)
    if number != "\u0661":  # Arabic digits are a number too, that of a request that is there
        assert stored(planned) == before


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/federation.py"),
        *("/static//etc/passwd", "/static/desk.css/../../store.py", "/static/desk.css%00.py"),
        *("/static/desk.sqlite", "/static/..\\app.py", "/../blind/run.yaml", "/files/1/demand"),
        *("/docs", "/redoc", "/openapi.json", "/.env", "/desk.sqlite", "/static/"),
    ],
)
def test_no_path_leads_to_a_file_that_is_not_an_asset(
    planned: Desk, make_browser: MakeBrowser, path: str
) -> None:
    answer = make_browser(planned, "ada").client.get(path)
    assert answer.status_code == 404
    for content in ("import ", "SQLite", "passive:", "root:"):
        assert content not in answer.text


def test_what_is_too_large_is_refused_and_leaves_nothing(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(planned, "ada")
    before, papers = stored(planned), files(planned)
    today = f"{planned.today()}"
    form = {"kind": "people", "ids": "P005", "received": today, "form_token": ada.token}

    def send(files: dict[str, Any] | None = None, **fields: Any) -> int:
        answer = ada.client.post("/requests", data={**form, **fields}, files=files)
        return answer.status_code

    assert send({"demand": ("d", b"x" * (MOST_DEMAND + 1))}) == 422
    assert send({"file": ("l.csv", b"id\n" + b"x" * MOST_CSV)}) == 422
    assert send({"demand": ("d", b"x" * LIMITS.body)}) == 413
    assert send(ids="x" * 1001) == 422
    assert send({"demand": ("d", b"x")}, ids="x" * (MOST_BYTES + 1)) == 400
    assert send({"demand": ("d", b"x")}, labels=["x"] * MOST_FIELDS) == 400
    assert send({f"demand{n}": ("d", b"x") for n in range(3)}) == 400
    assert send(ids="\n".join(f"P{n}" for n in range(100_001))) in (413, 422)

    def chunks() -> Iterator[bytes]:  # without a length that could be looked at first
        for _ in range(LIMITS.body // 2**20 + 2):
            yield b"x" * 2**20

    answer = ada.client.post(
        "/requests",
        content=chunks(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code in (400, 413)
    assert stored(planned) == before
    assert files(planned) == papers


def test_how_large_a_form_may_be_is_said_as_people_count(planned: Desk) -> None:
    client = TestClient(app(planned, limits=Limits(body=2**20)))
    answer = client.post("/sign-in", content=b"x" * (2**20 + 1))
    assert answer.status_code == 413
    assert "at most 1 MiB in one request" in answer.text


def test_a_form_that_comes_too_slowly_is_not_waited_for(planned: Desk) -> None:
    client = TestClient(
        app(planned, limits=Limits(body=2**20, reading=0.2)), base_url="https://testserver"
    )
    page = client.get("/sign-in")
    token = re.search(r'name="form_token" value="(\w+)"', page.text)
    assert token is not None

    def slowly() -> Iterator[bytes]:
        for _ in range(20):
            time.sleep(0.05)
            yield b"x"

    answer = client.post(
        "/sign-in",
        content=slowly(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code in (403, 408)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=x", b"--y\r\nnonsense"),
        ("multipart/form-data", b"--x"),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
        ),
        ("application/json", b'{"form_token": 1}'),
        ("text/xml", b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>"),
        ("application/x-www-form-urlencoded", b"form_token=%ff%fe&=&&&"),
        ("application/x-www-form-urlencoded; charset=utf-16", b"\x00\xff"),
    ],
)
def test_a_body_that_is_no_form_is_refused(
    planned: Desk, make_browser: MakeBrowser, kind: str, body: bytes
) -> None:
    ada = make_browser(planned, "ada")
    before = stored(planned)
    for path in ("/requests", "/requests/1/start", "/sign-in", "/sign-out"):
        answer = ada.client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code in (400, 403, 422), (path, answer.status_code)
        assert "root:" not in answer.text
    assert stored(planned) == before


# What browsers are told


def test_every_answer_forbids_what_it_does_not_need(
    planned: Desk, make_browser: MakeBrowser
) -> None:
    bert = make_browser(planned, "bert")
    for verb, path in [*ROUTES, ("GET", "/nothing"), ("GET", "/requests/x")]:
        page = ask(bert, verb, path, fields={"form_token": bert.token})
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy, (verb, path)
        assert "unsafe" not in policy
        assert "http:" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert "server" not in page.headers
        cached = path.startswith("/static/") and page.status == 200
        assert cached or "no-store" in page.headers["cache-control"], (verb, path)
        if page.headers.get("content-type", "").startswith("text/html"):
            assert "frame-ancestors 'none'" in policy
            assert not re.search(r"<script(?![^>]*\bsrc=)|<[^>]*\son\w+=|<[^>]*\sstyle=", page.text)
            assert not re.search(r"(src|href|action)=\"(https?:)?//", page.text), (verb, path)
        if path == "/sign-out":  # it ended the session
            bert = make_browser(planned, "bert")


def test_who_asks_under_another_name_gets_nothing(planned: Desk) -> None:
    client = TestClient(
        app(planned, hosts=("127.0.0.1", "localhost")), base_url="https://evil.example"
    )
    for verb, path in ROUTES:
        assert ask(Browser(client, planned), verb, path).status == 421


def test_a_failure_of_ours_tells_nothing(
    planned: Desk,
    make_browser: MakeBrowser,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("P005 has the label cedar")

    ada = make_browser(planned, "ada")
    monkeypatch.setattr(type(planned.requests), "get", fail)
    answer = TestClient(
        ada.client.app, base_url="https://testserver", raise_server_exceptions=False
    ).get("/requests/1", headers={"cookie": f"desk={cookies(ada)['desk']}"})
    assert answer.status_code == 500
    for secret in ("P005", "cedar", "ValueError", "Traceback", ".py"):
        assert secret not in answer.text
    assert "P005" not in caplog.text
    assert "cedar" not in caplog.text


def test_the_log_names_nobody(
    planned: Desk, make_browser: MakeBrowser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="unlabel.desk")
    ada = make_browser(planned, "ada")
    ada.client.get("/requests", params={"q": "P005"})
    ada.receive(reference="Anna Bauer")
    ada.at(2)
    assert "/requests" in caplog.text
    for secret in ("P005", "Anna", PASSWORD, cookies(ada)["desk"], ada.token):
        assert secret not in caplog.text


def test_what_the_desk_keeps_is_for_its_owner_alone(planned: Desk) -> None:
    assert planned.place.desk.stat().st_mode & 0o077 == 0
    for path in planned.place.desk.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path


def test_an_account_cannot_be_named_to_break_a_page_or_a_line(planned: Desk) -> None:
    for name in HOSTILE:
        with pytest.raises(SettingsError):
            planned.accounts.add(name, "caseworker", PASSWORD)
    assert json.dumps(sorted(ROLES)) == json.dumps([each.name for each in planned.accounts.all()])
