"""Browsers of the desk, as far as a test needs them: pages, forms with their tokens, waiting."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any

from argon2 import PasswordHasher
from starlette.testclient import TestClient

from unlabel.desk.app import app
from unlabel.desk.office import Desk

PASSWORD = "seven wet umbrellas"
#: Seconds that a task of these small runs takes at most, on a machine that is busy.
PATIENCE = 120.0
DEMAND = b"%PDF-1.4 Please forget me. \x00\xff"


def quick_hasher() -> PasswordHasher:
    """Return what hashes passwords in no time; how dear real hashes are `test_accounts` sees."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@dataclass
class Page:
    """What came back."""

    status: int
    text: str
    path: str
    headers: Any

    def state(self) -> str:
        """The state of the request that the page shows."""
        return self.find(r'<article id="request" data-number="\d+" data-state="([\w-]+)"')

    def find(self, pattern: str) -> str:
        """Return what a pattern finds; it must find something."""
        found = re.search(pattern, self.text, re.DOTALL)
        assert found, (self.status, pattern, self.text)
        return unescape(found.group(1)).strip()

    def has(self, pattern: str) -> bool:
        """Whether a pattern finds anything."""
        return re.search(pattern, self.text, re.DOTALL) is not None

    @property
    def trouble(self) -> str:
        """The sentence that says what went wrong, empty where none does."""
        return self.find(r'id="trouble"[^>]*>(.*?)</p>') if 'id="trouble"' in self.text else ""


class Browser:
    """A browser of one person."""

    def __init__(self, client: TestClient, desk: Desk) -> None:
        self.client, self.desk, self.token = client, desk, ""

    def sign_in(self, name: str, password: str = PASSWORD) -> Page:
        """Sign in as a person would."""
        self.token = self.get("/sign-in").find(r'name="form_token" value="(\w+)"')
        page = self.post("/sign-in", name=name, password=password)
        if page.path == "/requests":
            self.token = page.find(r'name="form_token" value="(\w+)"')
        return page

    def get(self, path: str, **headers: str) -> Page:
        """Ask for a page."""
        return _page(self.client.get(path, headers=headers))

    def post(
        self,
        path: str,
        files: dict[str, tuple[str, bytes]] | None = None,
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> Page:
        """Post a form, with the token that the last page had."""
        data = {"form_token": self.token, **fields}
        return _page(self.client.post(path, data=data, files=files, headers=headers))

    def receive(self, **fields: Any) -> Page:
        """Take a demand of one person up."""
        today = f"{self.desk.today()}"
        known = {"kind": "people", "ids": "P005", "received": today, "language": "en"}
        return self.post("/requests", {"demand": ("demand.pdf", DEMAND)}, **{**known, **fields})

    def at(self, number: int) -> Page:
        """Return the page of a request once nothing is under way for it."""
        deadline = time.monotonic() + PATIENCE
        while (page := self.get(f"/requests/{number}")).has('id="progress"'):
            assert time.monotonic() < deadline, page.text
            time.sleep(0.02)
        return page

    def do(self, number: int, action: str, **fields: Any) -> Page:
        """Do something to a request, and return its page once that is done."""
        page = self.post(f"/requests/{number}/{action}", **fields)
        assert page.status == 200, page.trouble
        return self.at(number)

    def carry_out(self, number: int) -> Page:
        """Carry a request out by the first way that is possible."""
        choice = self.at(number).find(r'name="choice" value="([a-z]+)"[^>]*checked')
        return self.do(number, "start", choice=choice)


def _page(response: Any) -> Page:
    return Page(response.status_code, response.text, response.url.path, response.headers)


@contextlib.contextmanager
def browsing() -> Iterator[Callable[..., Browser]]:
    """Give what makes browsers; all of one desk share its one worker."""
    with contextlib.ExitStack() as stack:
        served: dict[int, TestClient] = {}

        def make(desk: Desk, name: str = "") -> Browser:
            if id(desk) not in served:
                first = TestClient(app(desk), base_url="https://testserver")
                served[id(desk)] = stack.enter_context(first)
            client = TestClient(served[id(desk)].app, base_url="https://testserver")
            browser = Browser(client, desk)
            if name:
                assert browser.sign_in(name).path == "/requests"
            return browser

        yield make
