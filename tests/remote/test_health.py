"""A party tells whoever runs it how it is, and stops when it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import unlabel
from remote.operated_party import Child, operate

from unlabel.cli import party
from unlabel.errors import UsageError, WireError
from unlabel.link import call, links_folder, listen
from unlabel.remote import metrics
from unlabel.remote.control import CALLERS, CONTROL, LONGEST, Control, ask
from unlabel.remote.health import STATUSES, Contact
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import await_serving, free_port
from unlabel.remote.metrics import Address
from unlabel.remote.operated import Operated
from unlabel.remote.request_stats import Count, RequestStats


class Party:
    """A party in a process of its own.

    told  the file that says how it stands with the others
    """

    def __init__(self, kit: Path, told: Path, address: str | None = None) -> None:
        self.kit, self.told = kit, told
        self.tell()
        printed = told.with_suffix(".log")
        printed.touch()
        self.process = Child(lambda: operate(kit, told, address), printed)
        await_serving(self.process, kit, printed, seconds=60)

    def tell(self, **contact: Any) -> None:
        """Have the party stand so with the others."""
        draft = self.told.with_suffix(".part")
        draft.write_text(json.dumps({"registered": True, "last": time.time(), **contact}))
        draft.replace(self.told)

    def health(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Return exit status and facts of `unlabel party health`."""
        outcome = unlabel("party", "health", self.kit, "--free", "0", "--json", *words)
        return outcome.code, json.loads(outcome.out)


@pytest.fixture
def shop(kits: Path, tmp_path: Path) -> Iterator[Party]:
    party = Party(kits / "shop", tmp_path / "shop.json")
    yield party
    party.process.kill()
    party.process.wait()


def test_each_state_of_a_party_has_an_exit_status_and_one_sentence(shop: Party) -> None:
    status, facts = shop.health()
    assert (status, facts["health"]) == (0, "healthy")
    assert facts["process"] == shop.process.pid
    shop.tell(registered=False)
    assert shop.health()[0] == STATUSES["not-registered"]
    shop.tell(alarm="Another process came as party shop from 10.0.0.7.")
    status, facts = shop.health()
    assert (status, facts["sentence"]) == (13, "Another process came as party shop from 10.0.0.7.")
    assert shop.health("--serving")[0] == 0
    shop.tell()
    assert shop.health("--days", "31")[0] == STATUSES["certificate"]
    room = unlabel("party", "health", shop.kit, "--free", "1e12")
    assert room.code == STATUSES["disk"]
    assert "make room" in room.err
    shop.tell(hangs=True)
    time.sleep(0.5)
    assert shop.health("--within", "0.3")[0] == STATUSES["silent"]
    assert shop.health("--within", "0.3", "--serving")[0] == STATUSES["silent"]


def test_a_process_that_stands_still_or_was_killed_is_not_healthy(shop: Party) -> None:
    os.kill(shop.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert shop.health("--within", "0.5")[0] == STATUSES["silent"]
    assert time.monotonic() - began < 5
    os.kill(shop.process.pid, signal.SIGCONT)
    assert shop.health()[0] == 0
    shop.process.kill()
    shop.process.wait()
    outcome = unlabel("party", "health", shop.kit)
    assert outcome.code == STATUSES["not-running"]
    assert "unlabel party start" in outcome.err


def test_a_party_stops_by_command_and_by_signal_with_status_0(shop: Party, tmp_path: Path) -> None:
    outcome = unlabel("party", "stop", shop.kit, "--json")
    assert json.loads(outcome.out) == {"party": "shop", "stopped": True}
    assert shop.process.wait(timeout=10) == 0
    transcript = (shop.kit / "state" / "shop" / "transcript.jsonl").read_text()
    assert transcript.count("\n") == 2  # what was not written yet was
    assert unlabel("party", "stop", shop.kit).code == 0  # nothing is left to do
    restarted = Party(shop.kit, shop.told)
    restarted.process.kill(signal.SIGTERM)
    assert restarted.process.wait(timeout=10) == 0


def test_health_of_a_kit_that_was_never_started_changes_nothing(kits: Path) -> None:
    before = sorted(kits.rglob("*"))
    assert unlabel("party", "health", kits / "loan").code == 1  # there is no such kit
    assert unlabel("party", "health", kits / "bank").code == STATUSES["not-running"]
    assert sorted(kits.rglob("*")) == before


# --- the control socket ------------------------------------------------------------------------


@pytest.fixture
def links(tmp_path: Path) -> Path:
    return links_folder(tmp_path / "state", "shop")


def test_callers_who_say_nothing_hold_nobody_up(links: Path) -> None:
    with Control(links, {"facts": lambda: {"rows": 7}}):
        silent = [socket.socket(socket.AF_UNIX) for _ in range(CALLERS - 1)]
        for each in silent:
            each.connect(str(links / f"{CONTROL}.sock"))
        began = time.monotonic()
        assert ask(links, "facts", 5) == {"rows": 7}
        assert time.monotonic() - began < 1.5
        for each in silent:  # let go soon, so that their places are free restarted
            each.settimeout(5)
            while each.recv(4096):
                pass
            each.close()
        assert ask(links, "facts", 5) == {"rows": 7}


def test_a_process_that_hangs_is_given_up_in_time_however_often_it_was_asked(links: Path) -> None:
    """What is given up stays in the queue of those who want to be let in, until that is full."""
    with contextlib.closing(listen(links, CONTROL)):  # and lets nobody in
        for _ in range(12):
            began = time.monotonic()
            with pytest.raises(WireError):
                ask(links, "facts", 0.05)
            assert time.monotonic() - began < 2


def test_odd_requests_are_answered_and_the_socket_lives_on(links: Path) -> None:
    def fail() -> dict[str, Any]:
        raise KeyError("a disk that is gone")

    with Control(links, {"facts": dict, "fails": fail}):
        for odd in (b"", b"[]", b"null", b'{"do": []}', b"[" * 4000, b"\xff"):
            with call(links, CONTROL, 5) as connection:
                connection.send_bytes(odd)
                assert "error" in json.loads(connection.recv_bytes())
        with pytest.raises(WireError):
            ask(links, "fails", 5)
        with call(links, CONTROL, 5) as connection:
            connection.send_bytes(b"x" * (LONGEST + 1))
            with pytest.raises((EOFError, OSError)):
                connection.recv_bytes()
        assert ask(links, "facts", 5) == {}
    assert not [each.name for each in threading.enumerate() if each.name == CONTROL]
    with pytest.raises(WireError):
        ask(links, "facts", 1)


# --- what is shown -----------------------------------------------------------------------------


def test_what_is_shown_without_a_terminal_can_grow_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(party, "EVERY", 0.0)
    stats, interval = RequestStats(), sys.getswitchinterval()
    kinds = [str(number) for number in range(30_000)]
    asked = threading.Thread(
        target=lambda: [stats.counts.setdefault(kind, Count()) for kind in kinds]
    )
    sys.setswitchinterval(1e-6)
    try:
        asked.start()
        lines = party._Lines(stats)
        while asked.is_alive():
            lines.refresh()
    finally:
        sys.setswitchinterval(interval)
        asked.join()


# --- metrics -----------------------------------------------------------------------------------


def test_metrics_are_read_by_prometheus_s_parser_and_name_nobody(
    kits: Path, tmp_path: Path
) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    port = free_port()
    party = Party(kits / "shop", tmp_path / "told.json", f"127.0.0.1:{port}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        party.process.kill(signal.SIGTERM)
        assert party.process.wait(timeout=10) == 0
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    values = {name: family.samples[0].value for name, family in families.items() if family.samples}
    assert (values["unlabel_registered"], values["unlabel_common_rows"]) == (1, 399)
    assert values["unlabel_disk_free_bytes"] > 0
    assert 29 * 86400 < values["unlabel_certificate_end_time_seconds"] - time.time() < 31 * 86400
    messages = families["unlabel_messages"].samples
    assert [(each.labels, each.value) for each in messages] == [({"kind": "Status"}, 1)]
    refusals = families["unlabel_refusals"].samples
    assert [(each.labels, each.value) for each in refusals] == [({"code": "policy"}, 1)]
    # Nothing else is told apart by words that a message could have brought.
    labels = {name for family in families.values() for s in family.samples for name in s.labels}
    assert labels == {"kind", "code"}


def test_who_asks_for_metrics_and_says_nothing_is_parted_with(
    kits: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(metrics, "SILENT", 0.3)
    kit = Kit.open(kits / "shop")
    kit.prepare()
    operated = Operated(kit, threading.Event(), lambda: Contact(registered=True))
    address = Address("127.0.0.1", free_port())
    with metrics.serving_metrics(operated, address):
        silent = [socket.create_connection((address.host, address.port)) for _ in range(5)]
        for each in silent:
            each.settimeout(10)
            assert each.recv(1) == b""
            each.close()
        url = f"http://{address.host}:{address.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"unlabel_registered 1.0" in answer.read()
    assert capfd.readouterr().err == ""


def test_metrics_leave_this_machine_only_where_that_is_meant() -> None:
    for here in ("127.0.0.1:9100", "localhost:9100", "[::1]:9100"):
        assert Address.of(here).port == 9100
    for odd in ("0.0.0.0:9100", "shop.example:9100", "9100", "127.0.0.1:", "127.0.0.1:99999"):
        with pytest.raises(UsageError):
            Address.of(odd)
    assert Address.of("0.0.0.0:9100", anywhere=True).host == "0.0.0.0"
