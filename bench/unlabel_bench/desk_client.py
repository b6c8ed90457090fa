"""A caseworker's browser as far as a bench needs it, and a small run with a desk to ask."""

from __future__ import annotations

import html
import http.client
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from unlabel.config import FitSettings, LabelFreeSettings
from unlabel.federation import Federation

PASSWORD = "four quiet herons"
ID, LABEL = "id", "digit"
#: Pixels of each of the two parties.
COLUMNS = 32


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 where nothing did."""

    status: int
    text: str = ""
    location: str = ""
    seconds: float = 0.0

    def find(self, pattern: str) -> str:
        """Return what a pattern finds in the page, empty where it finds nothing."""
        match = re.search(pattern, self.text, re.DOTALL)
        return html.unescape(match.group(1)) if match else ""


class DeskClient:
    """Somebody who is signed in; a connection that breaks is an answer of status 0."""

    def __init__(self, port: int, *, timeout: float = 30.0) -> None:
        self._port, self._timeout = port, timeout
        self.cookie, self.token = "", ""

    def sign_in(self, name: str) -> Reply:
        """Sign in."""
        page = self.ask("GET", "/sign-in")
        self.token = page.find(r'name="form_token" value="(\w+)"')
        reply = self.ask("POST", "/sign-in", name=name, password=PASSWORD)
        if reply.status == 303:
            self.token = self.ask("GET", "/requests").find(r'name="form_token" value="(\w+)"')
        return reply

    def ask(self, verb: str, path: str, **fields: str) -> Reply:
        """Ask for a page, or post a form with the session's token."""
        headers = {"cookie": f"desk={self.cookie}"} if self.cookie else {}
        body = None
        if verb == "POST":
            body = urlencode({"form_token": self.token, **fields})
            headers["content-type"] = "application/x-www-form-urlencoded"
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        try:
            connection.request(verb, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return Reply(0, seconds=time.perf_counter() - started)
        finally:
            connection.close()
        seconds = time.perf_counter() - started
        match = re.match(r"desk=([^;]+);", answer.headers.get("set-cookie", ""))
        if match:
            self.cookie = match.group(1)
        return Reply(answer.status, text, answer.headers.get("location", ""), seconds)


def tables(rows: int) -> dict[str, dict[str, Any]]:
    """Return digits as two tables, half of the pixels each."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    pixels, digits = pixels[:rows], digits[:rows] % 3
    ids = np.array([f"D{row:04}" for row in range(len(digits))])
    left = {f"l{place}": pixels[:, place] for place in range(COLUMNS)}
    right = {f"r{place}": pixels[:, COLUMNS + place] for place in range(COLUMNS)}
    names = np.array(["none", "one", "two"], dtype=object)[digits]
    return {"left": {ID: ids, LABEL: names, **left}, "right": {ID: ids, **right}}


def train(folder: Path, rows: int, seed: int) -> Federation:
    """Train a small blind run in a folder."""
    run = Federation.from_frames(
        tables(rows),
        label=LABEL,
        folder=folder,
        bottoms="blind",
        label_free=LabelFreeSettings(objective="components", epochs=1),
        fit=FitSettings(epochs=10, batch=32),
        seed=seed,
    )
    run.train()
    return run
