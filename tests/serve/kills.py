"""A program that kills the server and who decides, at random times, while clients ask.

    python kills.py STAGED_RUN COUNT SEED OUT.json

Each round begins with a copy of a run with a staged request. A client notes, for every question,
which version was decided on the disk before it asked, and what came back. In the meantime another
process commits and purges. One of the two is killed at a random time, and what it left is finished
as a person would: the server is started other, the run recovered, committed and purged.

All processes are forks of this one, which has no thread: so that a round takes about a second.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

import torch  # noqa: E402

from serve.served import MANY  # noqa: E402
from unlabel import Federation  # noqa: E402
from unlabel.errors import UnlabelError  # noqa: E402
from unlabel.party.answering import decided_in  # noqa: E402
from unlabel.serve import ServedModel, app  # noqa: E402
from unlabel.serve.listening import Address, server_of  # noqa: E402

#: Seconds within which somebody is killed, and for which clients ask once all is done.
SOON, AFTER = 0.4, 0.1
#: Seconds between two questions of a client.
PACE = 0.002
QUESTION = json.dumps({"ids": MANY}).encode()


def fork(act: Callable[[], None]) -> int:
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


def ended(child: int) -> int:
    """Wait for a process; return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def serve(run: Path, listener: socket.socket) -> None:
    """Serve a run, on a socket that outlives this process.

    Where files change under the opening of a run, that ends with a sentence, and is done again, as
    by whoever looks after processes.
    """
    model = None
    while model is None:
        try:
            model = ServedModel(Federation.open(run, recovering=True))
        except UnlabelError as error:
            print(f"not opened: {error}", file=sys.stderr, flush=True)
            time.sleep(0.1)
    server_of(app(model), Address(port=0)).run(sockets=[listener])


def ask(run: Path, port: int, log: Path, stop: Path) -> None:
    """Ask on and on; write down a line for each question."""
    with log.open("w") as lines:
        while not stop.exists():
            decided = decided_in(run / "active")
            note: dict[str, Any] = {"decided": decided.number if decided else 0}
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request(
                    "POST", "/predict", QUESTION, {"content-type": "application/json"}
                )
                reply = connection.getresponse()
                note |= {"status": reply.status, "body": json.loads(reply.read())}
            except (OSError, http.client.HTTPException, ValueError):
                note["status"] = 0  # the server was killed
            finally:
                connection.close()
            lines.write(json.dumps(note) + "\n")
            lines.flush()
            time.sleep(PACE)


def decide(federation: Federation) -> None:
    """Bring a run to its end, from wherever it stands."""
    federation.recover()
    if federation.status().staged:
        federation.commit(force=True)
    federation.purge()


def one_round(staged: Path, place: Path, draw: random.Random) -> dict[str, Any]:
    """Live one round; return what the client saw."""
    run, stop = place / "run", place / "stop"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copytree(staged, run)
    victim = draw.choice(("server", "decider"))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        server = fork(lambda: serve(run, listener))
        clients = [
            fork(lambda n=n: ask(run, listener.getsockname()[1], place / f"log{n}", stop))  # type: ignore[misc]
            for n in range(2)
        ]
        wait_for(place / "log0", '"status": 200')
        federation = Federation.open(run)  # here, so that deaths come while it decides
        decider = fork(lambda: decide(federation))
        time.sleep(draw.random() * SOON)
        os.kill(server if victim == "server" else decider, signal.SIGKILL)
        if victim == "server":
            ended(server)
            server = fork(lambda: serve(run, listener))
            how = ended(decider)
            assert how == 0, how
        else:
            ended(decider)
            other = Federation.open(run, recovering=True)
            assert ended(fork(lambda: decide(other))) == 0
        # Until the last version is answered, or else this round is no witness of anything.
        newest = decided_in(run / "active")
        assert newest is not None
        wait_for(place / "log0", f'"body": {{"version": {newest.number}')
        time.sleep(AFTER)
        stop.touch()
        assert [ended(client) for client in clients] == [0, 0]
        os.kill(server, signal.SIGTERM)
        ended(server)
    lines = [
        json.loads(line) for n in range(2) for line in (place / f"log{n}").read_text().splitlines()
    ]
    return {"victim": victim, "newest": newest.number, "lines": lines}


def wait_for(log: Path, words: str) -> None:
    """Wait until a client has noted something."""
    deadline = time.monotonic() + 60
    while not (log.exists() and words in log.read_text()):
        assert time.monotonic() < deadline, f"'{words}' was never noted"
        time.sleep(0.02)


def faults(round_: dict[str, Any], bodies: dict[int, Any]) -> list[str]:
    """Return what of a round must not be; `bodies` has the one answer of each version."""
    wrong = []
    for line in round_["lines"]:
        if line["status"] == 200:
            body = {k: v for k, v in line["body"].items() if k not in ("ledger", "request")}
            if body["version"] < line["decided"]:
                wrong.append(f"version {body['version']} after {line['decided']} was decided")
            if bodies.setdefault(body["version"], body) != body:
                wrong.append(f"two answers of version {body['version']}")
        elif line["status"] not in (0, 503):
            wrong.append(f"status {line['status']}: {line['body']}")
    return wrong


def main(staged: Path, count: int, seed: int, out: Path) -> None:
    draw, bodies = random.Random(seed), dict[int, Any]()
    place = out.with_suffix(".place")
    total = {"rounds": 0, "server": 0, "decider": 0, "answers": 0, "paused": 0, "cut off": 0}
    wrong: list[str] = []
    for _ in range(count):
        lived = one_round(staged, place, draw)
        wrong += faults(lived, bodies)
        statuses = [line["status"] for line in lived["lines"]]
        total["rounds"] += 1
        total[lived["victim"]] += 1
        total["answers"] += statuses.count(200)
        total["paused"] += statuses.count(503)
        total["cut off"] += statuses.count(0)
    shutil.rmtree(place)
    out.write_text(json.dumps({**total, "faults": wrong, "bodies": bodies}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    os._exit(0)
