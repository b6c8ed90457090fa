"""The desk and the server of predictions are killed at random moments: is anything lost or stale?

    killer      kills one of the two processes (SIGKILL) a random time after it began to answer
    keepers     start what was killed once more, on a socket that stays, as a supervisor would
    caseworker  takes demands of one person up and brings each to its certificate; where no answer
                comes, looks at the page as a person would, and asks again only if nothing was done
    client      asks for predictions on and on, and notes which version was decided before it asked

Afterwards everything is held against the ledgers of the run, the trail and the certificates.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from unlabel.config import expect
from unlabel.data import ACTIVE
from unlabel.errors import TrainingError, UnlabelError
from unlabel.federation import Federation
from unlabel.party import Ledger, LedgerEntry
from unlabel.party.answering import decided_in
from unlabel_bench.desk_client import PASSWORD, DeskClient, Reply, train
from unlabel_bench.registry import BENCHES, Bench, Result, Say

VICTIMS = ("desk", "serve")
#: States of a request in their order; what was seen once is not lost again.
WAY = ("received", "planned", "running", "staged", "audited", "committed", "purged", "certified")
#: What a caseworker asks for in a state, and the form.
NEXT: dict[str, tuple[str, dict[str, str]]] = {
    "received": ("plan", {}),
    "planned": ("start", {"choice": "refit"}),
    "staged": ("audit", {"retrained": "0"}),
    "audited": ("decide", {"decision": "commit"}),
    "committed": ("purge", {"sure": "on"}),
    "purged": ("certify", {}),
}
#: Seconds between two looks of the caseworker, and two questions of the client.
LOOK, PACE = 0.15, 0.01
#: Seconds after which a request that does not come to its end is a fault.
PATIENCE = 900.0


@dataclass(frozen=True)
class DeskKillsSettings:
    """Settings of the bench.

    kills  in all, of desk and server together
    gap    longest time from when one answers to when it is killed, in seconds
    rows   of the run's tables
    seed   that draws victims and times
    """

    kills: int = 200
    gap: float = 1.5
    rows: int = 240
    seed: int = 0

    def __post_init__(self) -> None:
        expect("kills", self.kills, self.kills >= 1, "at least 1")
        expect("gap", self.gap, self.gap > 0, "more than 0 seconds")
        expect("rows", self.rows, 120 <= self.rows <= 1797, "from 120 to 1797")


def measure(settings: DeskKillsSettings, say: Say) -> Result:
    """Kill, and hold what is left against what was said."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a process that has threads cannot be forked well
    try:
        with tempfile.TemporaryDirectory(prefix="unlabel-desk-kills-") as folder:
            return _measured(settings, Path(folder), say)
    finally:
        torch.set_num_threads(threads)


def _measured(settings: DeskKillsSettings, place: Path, say: Say) -> Result:
    # Imported before any process is forked, so that each begins at once.
    import unlabel.desk.app
    import unlabel.serve.listening  # noqa: F401
    from unlabel.desk.office import Desk

    say("training a run")
    run = train(place / "run", settings.rows, settings.seed).folder
    desk = Desk.open(run)
    desk.accounts.add("ada", "caseworker", PASSWORD)
    desk.close()
    log, stop, started = place / "predictions", place / "stop", time.monotonic()
    with contextlib.ExitStack() as stack:
        ports = {}
        for name, serve in (("desk", _desk), ("serve", _serve)):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
            ports[name] = listener.getsockname()[1]
            act = _keeper(serve, run, listener, place / name)
            stack.enter_context(_child(act, place / name))
        stack.enter_context(_child(lambda: _predict(run, ports["serve"], log)))
        caseworker = _Caseworker(DeskClient(ports["desk"]), run)
        caseworker.begin()
        killer = stack.enter_context(_child(lambda: _kill(settings, place, desk.store.path, ports)))
        while not _has_ended(killer):
            caseworker.one_request()
            say(f"{caseworker.count} requests, {_lines(place / 'kills')} kills")
        caseworker.one_request()  # with nobody killed any more, to see that all works
        caseworker.answers_again(ports["serve"])
        stop.touch()
    kills = [json.loads(line) for line in (place / "kills").read_text().splitlines()]
    given_up = _given_up(run)
    faults = [*caseworker.faults, *_of_the_run(run, caseworker), *_of_predictions(log)]
    statuses = Counter(str(line["status"]) for line in _read(log))
    return {
        "kills": len(kills),
        "of": dict(Counter(each["victim"] for each in kills)),
        "while the desk was at": dict(
            Counter(each["task"] for each in kills if each["victim"] == "desk")
        ),
        "requests": caseworker.count,
        "tasks given up after three kills": given_up,
        "answers of the desk": dict(Counter(str(status) for status in caseworker.statuses)),
        "predictions": {
            "answered": statuses["200"],
            "paused": statuses["503"],
            "cut off": statuses["0"],
        },
        "versions answered": len({line["version"] for line in _read(log) if line["status"] == 200}),
        "seconds": round(time.monotonic() - started, 1),
        "faults": faults,
    }


class _Caseworker:
    """Somebody who takes demands up one after the other and sees each through."""

    def __init__(self, client: DeskClient, run: Path) -> None:
        self._client, self._run = client, run
        self.count, self.faults = 0, list[str]()
        self.statuses: list[int] = []
        self.acknowledged: dict[int, str] = {}
        train_rows = Federation.open(run).holdings
        self._ids = [str(train_rows.ids[row]) for row in train_rows.rows.train.tolist()]

    def begin(self) -> None:
        """Sign in; the session outlives every kill."""
        deadline = time.monotonic() + PATIENCE
        while self._client.sign_in("ada").status != 303:
            _expect(time.monotonic() < deadline, "Nobody could sign in.")
            time.sleep(LOOK)

    def ask(self, verb: str, path: str, **fields: str) -> Reply:
        """Ask, and note what kind of answer came."""
        reply = self._client.ask(verb, path, **fields)
        self.statuses.append(reply.status)
        if reply.status >= 500 or reply.status in (401, 403, 422):
            self.faults.append(f"{verb} {path} was answered with {reply.status}")
        if reply.location == "/sign-in":
            self.faults.append("the session was lost")
        return reply

    def one_request(self) -> None:
        """Take a demand of one person up and see it through."""
        who, reference = self._ids[self.count], f"R-{self.count:04}"
        number = self._receive(who, reference)
        self.acknowledged[number] = who
        self.count += 1
        furthest, deadline = 0, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            page = self.ask("GET", f"/requests/{number}")
            if page.status != 200:
                self.faults += [f"request {number} is gone"] if page.status == 404 else []
                time.sleep(LOOK)
                continue
            state = page.find(r'id="request"[^>]*data-state="([\w-]+)"')
            if state == "certified" and "Ended: the letter was sent" in page.text:
                return
            if WAY.index(state) < furthest and state not in ("planned",):
                self.faults.append(f"request {number} went from {WAY[furthest]} to {state}")
            furthest = max(furthest, WAY.index(state)) if state != "planned" else 1
            if 'id="progress"' not in page.text and state in NEXT:
                action, form = NEXT[state]
                self.ask("POST", f"/requests/{number}/{action}", **form)
            elif state == "certified":
                self._answer(number, page.find(r'name="letter" value="(\w+)"'))
            time.sleep(LOOK)
        self.faults.append(f"request {number} did not come to its end")

    def _answer(self, number: int, letter: str) -> None:
        """Keep a letter to the person, and note that it was sent once the page shows its digest."""
        if letter:
            self.ask("POST", f"/requests/{number}/sent", letter=letter)
        else:
            form = {"language": "en", "text": "Dear Sir or Madam,", "action": "save"}
            self.ask("POST", f"/requests/{number}/letter", **form)

    def _receive(self, who: str, reference: str) -> int:
        """Have a demand taken up once: where no answer came, look whether it was."""
        deadline = time.monotonic() + PATIENCE
        today = f"{datetime.now(UTC).date()}"
        while time.monotonic() < deadline:
            listed = self.ask("GET", f"/requests?q={reference}")
            if listed.status == 200:
                number = listed.find(r'<tr data-number="(\d+)"')
                if number:
                    return int(number)
                form = {"kind": "people", "ids": who, "received": today, "reference": reference}
                reply = self.ask("POST", "/requests", **form, language="en")
                if reply.status == 303:
                    return int(reply.location.rpartition("/")[2])
            time.sleep(LOOK)
        raise TrainingError("No demand could be taken up.")

    def answers_again(self, port: int) -> None:
        """Wait until predictions of the last version are answered."""
        decided, deadline = decided_in(self._run / ACTIVE), time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if decided is not None and _question(port).get("version") == decided.number:
                return
            time.sleep(LOOK)
        self.faults.append("nothing is predicted by the last version")


def _of_the_run(run: Path, caseworker: _Caseworker) -> list[str]:
    """Return what the run, its ledgers and the desk's store say against what was acknowledged."""
    from unlabel.desk.office import Desk
    from unlabel.verification import verify

    desk, faults = Desk.open(run), list[str]()
    entries = Ledger(run / ACTIVE).entries()
    listed = desk.requests.list(count=10_000).requests
    if {request.number for request in listed} != caseworker.acknowledged.keys():
        faults.append("the desk has other requests than were taken up")
    commits = Counter(entry.request for entry in entries if entry.event == "commit")
    if len(commits) != len(listed) or set(commits.values()) != {1}:
        faults.append(f"{len(listed)} requests made {sum(commits.values())} commits")
    for request in listed:
        id, number = str(request.fact("request", "")), request.number
        if desk.requests.people(number) != [caseworker.acknowledged.get(number, "")]:
            faults.append(f"request {number} is about somebody else")
        events = Counter(map(_done, desk.trail.of(number)))
        for event in ("received", "committed", "purged", "certified", "letter sent"):
            if events[event] != 1:
                faults.append(f"request {number} was {event} {events[event]} times")
        if commits[id] != 1:
            faults.append(f"request {number} was committed {commits[id]} times in the ledger")
        paper = desk.place.files(number) / "certificate.json"
        if not paper.exists():
            faults.append(f"request {number} has no certificate: it is {request.state}")
            continue
        checks = verify(paper)
        faults += [f"the certificate of request {number}: {each}" for each in checks.faults]
    faults += [desk.trail.check().trouble] if desk.trail.check().trouble else []
    desk.close()
    federation = Federation.open(run)
    if len(federation.forgotten.rows) != len(listed):
        faults.append(f"{len(federation.forgotten.rows)} people are forgotten")
    if federation.status().staged:
        faults.append("something is staged still")
    return faults


def _given_up(run: Path) -> int:
    """Return how many tasks were killed so often that the desk gave them up."""
    from unlabel.desk.office import Desk

    desk = Desk.open(run)
    rows = desk.store.rows("SELECT count(*) FROM tasks WHERE state = 'failed'")
    desk.close()
    return int(rows[0][0])


def _done(entry: LedgerEntry) -> str:
    """Return what a line of the trail says was done.

    A task that was killed three times is given up. Where it had been decided by then, the desk
    notices that in the ledger, as it does of a decision that was made elsewhere.
    """
    return str(entry.note["state"]) if entry.event == "noticed" else entry.event


def _of_predictions(log: Path) -> list[str]:
    """Return what is wrong with the predictions: stale, or two of one version."""
    faults, bodies, newest = [], dict[int, Any](), 0
    for line in _read(log):
        if line["status"] not in (0, 200, 503):
            faults.append(f"a prediction was answered with {line['status']}")
        if line["status"] != 200:
            continue
        version = line["version"]
        if version < max(line["decided"], newest):
            faults.append(f"version {version} after {max(line['decided'], newest)}")
        newest = max(newest, version)
        if bodies.setdefault(version, line["body"]) != line["body"]:
            faults.append(f"two answers of version {version}")
    return faults if bodies else ["nothing was predicted"]


# Processes


def _desk(run: Path, listener: socket.socket) -> None:
    from unlabel.desk.app import app
    from unlabel.desk.office import Desk
    from unlabel.serve.listening import Address, server_of

    server_of(app(Desk.open(run)), Address(port=0)).run(sockets=[listener])


def _serve(run: Path, listener: socket.socket) -> None:
    from unlabel.serve import ServedModel, app
    from unlabel.serve.listening import Address, server_of

    model = None
    while model is None:
        try:
            model = ServedModel(Federation.open(run, recovering=True))
        except UnlabelError:  # opened in the moment of a commit: whoever looks after it tries again
            time.sleep(PACE)
    server_of(app(model), Address(port=0)).run(sockets=[listener])


def _keeper(
    serve: Callable[[Path, socket.socket], None], run: Path, listener: socket.socket, pid: Path
) -> Callable[[], None]:
    """Return what starts a server again whenever it is killed, and notes its process."""

    def keep() -> None:
        while True:
            child = _fork(lambda: serve(run, listener))
            pid.write_text(f"{child}")
            os.waitpid(child, 0)

    return keep


def _kill(settings: DeskKillsSettings, place: Path, store: Path, ports: dict[str, int]) -> None:
    """Kill one of the two once it answers, again and again; note who and what the desk was at."""
    draw = random.Random(settings.seed)
    for _ in range(settings.kills):
        victim, before = draw.choice(VICTIMS), ""
        pid = place / victim
        while not _answers(ports[victim]):
            time.sleep(PACE)
        time.sleep(draw.random() * settings.gap)
        task = _task_in(store)
        while True:  # the process that is there now, and not one that was killed before
            before = pid.read_text() if pid.exists() else ""
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(before), signal.SIGKILL)
                break
            time.sleep(PACE)
        with (place / "kills").open("a") as lines:
            lines.write(json.dumps({"victim": victim, "task": task}) + "\n")


def _answers(port: int) -> bool:
    """Return whether something answers, whatever it says."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _task_in(store: Path) -> str:
    """Return what the desk is at, as its store says."""
    with contextlib.closing(sqlite3.connect(store)) as connection:
        rows = connection.execute("SELECT verb FROM tasks WHERE state = 'running'").fetchall()
    return str(rows[0][0]) if rows else "no task"


def _predict(run: Path, port: int, log: Path) -> None:
    """Ask for predictions on and on; write down a line for each question."""
    with log.open("w") as lines:
        while True:
            decided = decided_in(run / ACTIVE)
            note = {"decided": decided.number if decided else 0, **_question(port)}
            lines.write(json.dumps(note) + "\n")
            lines.flush()
            time.sleep(PACE)


def _question(port: int) -> dict[str, Any]:
    """Ask for predictions of a few people; return what came."""
    question = json.dumps({"ids": [f"D{row:04}" for row in range(0, 120, 7)]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/predict", question, {"content-type": "application/json"})
        reply = connection.getresponse()
        answer = json.loads(reply.read())
    except (OSError, http.client.HTTPException, ValueError):
        return {"status": 0}
    finally:
        connection.close()
    if reply.status != 200:
        return {"status": reply.status}
    return {"status": 200, "version": answer["version"], "body": answer["predictions"]}


def _fork(act: Callable[[], None]) -> int:
    """Do something in a copy of this process; return its number."""
    child = os.fork()
    if child:
        return child
    try:
        act()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


@contextlib.contextmanager
def _child(act: Callable[[], None], pid: Path | None = None) -> Iterator[int]:
    """Have a process for as long as the block lasts, and the one that it keeps, if any."""
    child = _fork(act)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if pid is not None and pid.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)


def _has_ended(child: int) -> bool:
    """Return whether a process has ended, as it should."""
    done, status = os.waitpid(child, os.WNOHANG)
    _expect(not done or status == 0, "What kills died itself.")
    return bool(done)


def _read(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines that were written whole."""
    for line in log.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _expect(holds: bool, fault: str) -> None:
    if not holds:
        raise TrainingError(fault)


def table(result: Result) -> list[list[str]]:
    """Return what was seen as rows for people."""
    asked = ", ".join(
        f"{count} x {status}" for status, count in result["answers of the desk"].items()
    )
    seen = result["predictions"]
    return [
        ["what", "seen"],
        [
            "kills",
            f"{result['kills']} ({', '.join(f'{n} of {v}' for v, n in result['of'].items())})",
        ],
        ["requests carried out", str(result["requests"])],
        ["answers of the desk", asked],
        ["predictions", ", ".join(f"{count} {name}" for name, count in seen.items())],
        ["faults", str(len(result["faults"]))],
    ]


BENCHES.add(
    "desk-kills",
    Bench(
        about="the desk and the server of predictions killed at random moments of requests",
        settings=DeskKillsSettings,
        measure=measure,
        table=table,
    ),
)
