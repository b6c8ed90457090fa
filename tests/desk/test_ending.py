"""A desk that is asked to end does so soon, whoever is watching, and goes on the next time."""

from __future__ import annotations

import http.client
import signal
import threading
import time
from typing import Any

import pytest
from cli.command_line import one_thread

from desk.browsers import PASSWORD
from desk.conftest import MakeDesk
from unlabel.desk import verbs
from unlabel.desk.accounts import Account
from unlabel.desk.app import app
from unlabel.desk.demands import Demand
from unlabel.serve.listening import ENDING, Address, server_of

__all__ = ["one_thread"]  # a fixture for every test here


def test_a_desk_ends_soon_while_somebody_watches_a_task(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk()
    account = desk.accounts.sign_in("ada", PASSWORD, "here")
    token = desk.sessions.begin(account)
    desk.receive(Demand(ids=("P005",), received=desk.today()), Account("ada", "caseworker"))

    def lasts(doing: Any) -> None:
        while True:
            doing.watch(1, 2, "for ever")
            time.sleep(0.02)

    monkeypatch.setitem(verbs.ACTS, "plan", lasts)
    address, web = Address(port=0), app(desk)
    server = server_of(web, address)
    server.ending = web.state.worker.end
    with address.listen() as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        watching = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
        watching.request("GET", "/requests/1/events", headers={"cookie": f"desk={token}"})
        stream = watching.getresponse()
        while b"for ever" not in (line := stream.readline()):
            assert line, "the stream ended"
        began = time.monotonic()
        server.handle_exit(signal.SIGTERM, None)
        thread.join(60)
        assert time.monotonic() - began < ENDING / 2
        assert b"event: ended" in stream.read()
        watching.close()
    task = desk.tasks.live(1)
    assert task is not None
    assert (task.state, task.tries) == ("waiting", 0)
