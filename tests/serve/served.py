"""Small trained runs, a server for one of them, and what asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blind_runs import blind_run, cells, tables

from unlabel import Federation
from unlabel.serve import Limits, ServedModel, ServedTop, app
from unlabel.serve.listening import Address, server_of

KINDS = ("supervised", "blind", "tuned")
LABEL = "cedar"
#: Of the label holder's table, which new rows do not bring.
TRUTH = "grown"
MANY = [f"P{number:03d}" for number in range(30)]


def trained(kind: str, folder: Path) -> None:
    """Train a run of three parties in a folder."""
    if kind != "supervised":
        blind_run(cells(), folder, kind=kind)
        return
    run = Federation.from_frames(
        tables(cells()), label=TRUTH, folder=folder, missing="flag", epochs=3, batch=16
    )
    run.train()


def new_rows(count: int) -> dict[str, list[dict[str, Any]]]:
    """Return rows of every party's table as JSON has them."""
    return {
        party: [
            {name: plain(values[row]) for name, values in table.items() if name != TRUTH}
            for row in range(count)
        ]
        for party, table in tables(cells()).items()
    }


def plain(value: Any) -> Any:
    """Return a cell as JSON has it."""
    value = value.item() if hasattr(value, "item") else value
    return None if value != value else value


@dataclass
class Reply:
    """What came back for a question."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The code of an error."""
        assert set(self.body) == {"error"}, self.body
        assert set(self.body["error"]) == {"code", "message"}
        assert self.body["error"]["message"].endswith((".", "?"))
        return str(self.body["error"]["code"])


@dataclass
class Client:
    """Asks a server."""

    port: int
    token: str = ""

    def ask(self, question: object, **headers: str) -> Reply:
        """Ask for predictions."""
        return self.send("POST", "/predict", json.dumps(question).encode(), **headers)

    def send(self, verb: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """Send a request of any kind."""
        given = {"content-type": "application/json"} if body is not None else {}
        given |= {"authorization": f"Bearer {self.token}"} if self.token else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(verb, path, body, given)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        is_json = answer.headers["content-type"] == "application/json"
        found = json.loads(text) if is_json else {"text": text.decode()}
        return Reply(answer.status, found, dict(answer.headers))


@contextlib.contextmanager
def serving(
    run: Federation | ServedModel | ServedTop | Path,
    *,
    token: str | None = None,
    limits: Limits | None = None,
) -> Iterator[Client]:
    """Serve a run from a thread of this process."""
    federation = Federation.open(run, recovering=True) if isinstance(run, Path) else run
    address = Address(port=0)
    server = server_of(app(federation, token=token, hosts=address.hosts, limits=limits), address)
    with address.listen() as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Client(listener.getsockname()[1], token or "")
        finally:
            server.should_exit = True
            thread.join()
