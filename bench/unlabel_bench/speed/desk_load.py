"""How the desk carries a long history and many people: the first page, and twenty people at once.

    history  so many requests in the store, with their people, states and lines of the trail
    first    the list of requests, the page after signing in, asked for by one person in turn
    people   everybody signed in, each with a session, asking for pages and taking demands up one
             after the other: a page counts as an error unless it is the one that was asked for

The desk runs in a process of its own, the people in threads of this one. Loopback alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import torch

from unlabel.config import expect
from unlabel.errors import TrainingError
from unlabel_bench.desk_client import PASSWORD, DeskClient, Reply, train
from unlabel_bench.registry import BENCHES, Bench, Result, Say

if TYPE_CHECKING:
    from unlabel.desk.office import Desk

#: States of requests in a history, and how often each comes.
STATES = {"certified": 90, "withdrawn": 6, "rolled-back": 3, "received": 1}
#: Pages that one person asks for in turn, by what they are called in the result.
PAGES = {
    "list": "/requests",
    "next page": "/requests?page=7",
    "by reference": "/requests?q=R-{number:05}",
    "by id": "/requests?q=P{number:05}",
    "by state": "/requests?state=withdrawn",
    "one request": "/requests/{number}",
    "trail": "/trail",
}
#: Milliseconds that the first page may take.
FIRST = 200.0


@dataclass(frozen=True)
class DeskLoadSettings:
    """Settings of the bench.

    requests  in the history
    first     timed first pages
    people    at once
    pages     that each of them asks for
    seed      that draws states and what is asked for
    """

    requests: int = 10_000
    first: int = 100
    people: int = 20
    pages: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        expect("requests", self.requests, self.requests >= 10, "at least 10")
        expect("first", self.first, self.first >= 2, "at least 2")
        expect("people", self.people, self.people >= 1, "at least 1")
        expect("pages", self.pages, self.pages >= 1, "at least 1")


def measure(settings: DeskLoadSettings, say: Say) -> Result:
    """Fill a history, then time one person and many."""
    from unlabel.desk.office import Desk

    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="unlabel-desk-load-") as folder:
        say("training a run")
        run = train(Path(folder) / "run", 240, settings.seed).folder
        say(f"writing {settings.requests} requests")
        desk = Desk.open(run)
        _fill(desk, settings)
        names = [f"person{number}" for number in range(settings.people)]
        for name in names:
            desk.accounts.add(name, "caseworker", PASSWORD)
        desk.close()
        size = desk.store.path.stat().st_size
        with _served(run) as port:
            clients = [_signed_in(port, name) for name in names]
            say("timing the first page")
            first = _first_pages(clients[0], settings)
            say(f"{settings.people} people at once")
            together = _together(clients, settings)
        desk = Desk.open(run)
        whole, stored = desk.trail.check(), desk.requests.list().total
        desk.close()
    if whole.trouble or stored != settings.requests + together["taken up"]:
        together["errors"].append(f"{stored} requests are there; {whole.trouble}")
    return {
        "cores": os.cpu_count(),
        "load": [load, os.getloadavg()[0]],
        "store_bytes": size,
        "first_page": first,
        "together": together,
    }


def _fill(desk: Desk, settings: DeskLoadSettings) -> None:
    """Write a history as the desk itself writes it, in one transaction."""
    from unlabel.desk.requests import About

    draw, today = random.Random(settings.seed), _today()
    kinds = draw.choices([*STATES], [*STATES.values()], k=settings.requests)
    with desk.store.transaction():
        for number, state in enumerate(kinds, start=1):
            received = today - timedelta(days=draw.randrange(1, 700))
            due = (received + timedelta(days=30)).isoformat()
            about = About((), (f"P{number:05}",), received.isoformat(), due, f"R-{number:05}")
            added = desk.requests.add(about, by="ada")
            desk.trail.add("received", added, "ada", people=1)
            if state != "received":
                desk.requests.note(added, state)  # type: ignore[arg-type]
                desk.trail.add(state, added, "ada")


@contextlib.contextmanager
def _served(run: Path) -> Iterator[int]:
    """Serve a desk in a process of its own; give its port."""
    from unlabel.serve.listening import Address

    with Address(port=0).listen() as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(run, listener))
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.join()


def _serve(run: Path, listener: socket.socket) -> None:
    from unlabel.desk.app import app
    from unlabel.desk.office import Desk
    from unlabel.serve.listening import Address, server_of

    torch.set_num_threads(1)
    server_of(app(Desk.open(run)), Address(port=0)).run(sockets=[listener])


def _signed_in(port: int, name: str) -> DeskClient:
    client = DeskClient(port)
    for _ in range(200):
        if client.sign_in(name).status == 303:
            return client
        time.sleep(0.1)
    raise TrainingError(f"'{name}' could not sign in.")


def _first_pages(client: DeskClient, settings: DeskLoadSettings) -> dict[str, Any]:
    """Time the list of requests, asked for no faster than a session may."""
    replies = []
    for _ in range(settings.first):
        replies.append(client.ask("GET", "/requests"))
        time.sleep(0.02)
    milliseconds = [1000 * reply.seconds for reply in replies]
    wrong = [reply.status for reply in replies if reply.status != 200]
    return {**_times(milliseconds), "pages": len(replies), "errors": wrong, "most_ms": FIRST}


def _together(clients: list[DeskClient], settings: DeskLoadSettings) -> dict[str, Any]:
    """Have everybody ask at once, each in a thread; return times and what went wrong."""
    with ThreadPoolExecutor(len(clients)) as pool:
        jobs = [
            pool.submit(_one_person, client, place, settings)
            for place, client in enumerate(clients)
        ]
        seen = [each for job in jobs for each in job.result()]
    errors = [f"{name}: {reply.status}" for name, reply, fits in seen if not fits]
    by_page: dict[str, list[float]] = {}
    for name, reply, _ in seen:
        by_page.setdefault(name, []).append(1000 * reply.seconds)
    return {
        "people": len(clients),
        "pages": len(seen),
        "statuses": dict(Counter(str(reply.status) for _, reply, _ in seen)),
        "taken up": sum(name == "take up" and fits for name, _, fits in seen),
        "errors": errors,
        "ms": {name: _times(times) for name, times in sorted(by_page.items())},
    }


def _one_person(
    client: DeskClient, place: int, settings: DeskLoadSettings
) -> list[tuple[str, Reply, bool]]:
    """Ask for pages one after the other; return each with whether it was what was asked for."""
    draw, seen = random.Random(f"{settings.seed} {place}"), []
    for turn in range(settings.pages):
        number = draw.randrange(1, settings.requests + 1)
        if turn % 20 == 10:
            form = {"kind": "people", "ids": f"N{place}-{turn}", "reference": f"N{place}-{turn}"}
            reply = client.ask(
                *("POST", "/requests"), received=f"{_today()}", language="en", **form
            )
            seen.append(("take up", reply, reply.status == 303))
            continue
        name = draw.choice([*PAGES])
        reply = client.ask("GET", PAGES[name].format(number=number))
        seen.append((name, reply, reply.status == 200 and _shows(name, number, reply)))
    return seen


def _shows(name: str, number: int, reply: Reply) -> bool:
    """Return whether a page is the one that was asked for."""
    if name in ("by reference", "by id"):
        return f'<tr data-number="{number}"' in reply.text and reply.text.count("<tr data-") == 1
    if name == "one request":
        return f'data-number="{number}"' in reply.text
    return "</html>" in reply.text


def _today() -> date:
    return datetime.now(UTC).date()


def _times(milliseconds: list[float]) -> dict[str, float]:
    p95 = quantiles(milliseconds, n=20)[18] if len(milliseconds) > 1 else milliseconds[0]
    figures = {"median_ms": median(milliseconds), "p95_ms": p95, "longest_ms": max(milliseconds)}
    return {name: round(value, 2) for name, value in figures.items()}


def table(result: Result) -> list[list[str]]:
    """Return the times as rows for people."""
    rows = [["page", "median", "95 of 100 within", "longest"]]
    times = {"the first page, one person": result["first_page"], **result["together"]["ms"]}
    for name, each in times.items():
        rows.append([name, *(f"{each[f'{w}_ms']:.1f} ms" for w in ("median", "p95", "longest"))])
    people, errors = result["together"]["people"], len(result["together"]["errors"])
    return [*rows, [f"errors of {people} people at once", str(errors), "", ""]]


BENCHES.add(
    "desk-load",
    Bench(
        about="the desk with a long history: its first page, and many people at once",
        settings=DeskLoadSettings,
        measure=measure,
        table=table,
    ),
)
