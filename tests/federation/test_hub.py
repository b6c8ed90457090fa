"""The hub and the parties' connections: who is let in, what a broken or hostile end does."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from federation.met_parties import Echo, hub_of, joined, line_of
from small_parties import make_kits

from unlabel.errors import PartyLost, WireError
from unlabel.link import ACTIVE_SOCKET, listen
from unlabel.remote import frames, hub_client, party_line, registration, revocation
from unlabel.remote import hub as hub_module
from unlabel.remote.authority_folder import AuthorityFolder
from unlabel.remote.client import Away
from unlabel.remote.frames import GREETING, Frame, Kind, Line, Sealed
from unlabel.remote.hub import Hub
from unlabel.remote.hub_client import HubClient
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import free_port
from unlabel.remote.revocation import take
from unlabel.remote.tls import client_context
from unlabel.wire import Describe, Done

TEXT = """\
active: {label: y}
passive: [{name: shop}, {name: bank}]
server: {port: PORT}
timeout: 4
"""
#: A test puts another one in its place.
CONNECT = socket.create_connection


class Busy(Echo):
    """A party that takes its time over some steps."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.begun = threading.Event()

    def serve(self, data: bytes) -> bytes:
        self.begun.set()
        time.sleep(self.seconds)
        return super().serve(data)


@pytest.fixture
def kits(made: Path) -> dict[str, Kit]:
    return {name: Kit.open(made / name) for name in ("active", "shop", "bank")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    make_kits(folder, TEXT.replace("PORT", str(free_port())))
    return folder


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_line, "FIRST", 0.05)
    monkeypatch.setattr(party_line, "LONGEST", 0.2)


@pytest.fixture
def said() -> list[str]:
    """What the hub's operator is told."""
    return []


@pytest.fixture
def hub(kits: dict[str, Kit], said: list[str]) -> Iterator[Hub]:
    with hub_of(kits["active"], said) as hub:
        yield hub


@pytest.fixture
def client(hub: Hub) -> Iterator[HubClient]:
    client = HubClient(hub.kit, patience=8.0)
    yield client
    client.close()


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def plain(hub: Hub) -> socket.socket:
    return socket.create_connection(("localhost", hub.kit.port), timeout=5)


def test_a_hub_that_hangs_is_away_after_some_seconds(
    kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that waited for it would hold the kit."""
    monkeypatch.setattr(hub_client, "SOON", 0.2)
    with contextlib.closing(listen(kits["active"].links, ACTIVE_SOCKET)) as hangs:  # lets nobody in
        giving_up = threading.Timer(3, hangs.close)
        giving_up.start()
        with pytest.raises(Away):
            HubClient(kits["active"]).presence()
        assert giving_up.is_alive()
        giving_up.cancel()
        giving_up.join()


def test_requests_go_to_every_party_and_answers_come_back(
    client: HubClient, kits: dict[str, Kit]
) -> None:
    shop, bank = Echo(), Echo()
    with joined(shop, kits["shop"]), joined(bank, kits["bank"]):
        client.connect()
        answers = client.transport.exchange({"shop": Describe(3), "bank": Describe(4)})
        assert {name: answer.step for name, answer in answers.items()} == {"shop": 3, "bank": 4}
        turns = client.transport.exchange_in_turn({"shop": [Describe(5), Describe(6)]})
        assert [type(each) for each in turns["shop"]] == [Done, Done]
        assert (shop.steps, bank.steps) == ([3, 5, 6], [4])
        assert client.presence()["shop"]["busy"] is False


def test_a_party_that_is_killed_is_lost_at_once_and_returns_in_the_next_session(
    client: HubClient, kits: dict[str, Kit]
) -> None:
    with joined(Echo(), kits["bank"]):
        with joined(Echo(), kits["shop"]) as line:
            client.connect()
            assert line._line is not None
            line._line.close()
        began = time.monotonic()
        with pytest.raises(PartyLost) as error:
            client.transport.ask(Describe(0))
        assert error.value.parties == ("shop",)
        assert time.monotonic() - began < 2
        returned = Echo()
        with joined(returned, kits["shop"]):
            until(lambda: "shop" in client_presence(client))
            with pytest.raises(PartyLost):  # it came back, but not into this session
                client.transport.ask(Describe(1))
            assert returned.steps == []
            client.connect(error.value.parties)
            client.transport.ask(Describe(2))
            assert returned.steps == [2]


def client_presence(client: HubClient) -> dict[str, Any]:
    other = HubClient(client.kit)
    try:
        return other.presence()
    finally:
        other.close()


def test_a_party_that_takes_too_long_is_named_and_what_it_still_does_moves_nobody(
    client: HubClient, kits: dict[str, Kit]
) -> None:
    slow = Busy()
    with joined(slow, kits["shop"]), joined(Echo(), kits["bank"]):
        client.connect()
        slow.seconds, client.transport.timeout = 2.0, 0.5
        with pytest.raises(PartyLost, match="'shop' did not answer within") as error:
            client.transport.ask(Describe(1))
        slow.seconds, client.transport.timeout = 0.0, 4.0
        client.connect(error.value.parties)  # once it is free again
        client.transport.ask(Describe(2))
        assert slow.steps == [1, 2]


def test_a_second_process_of_a_party_is_refused_and_told_of_at_both_ends(
    hub: Hub, client: HubClient, kits: dict[str, Kit], said: list[str]
) -> None:
    first, second = Echo(), Echo()
    told: list[str] = []
    refused: list[str] = []
    with joined(first, kits["shop"], told), joined(Echo(), kits["bank"]):
        client.connect()
        with joined(second, kits["shop"], refused):
            until(lambda: refused)
            until(lambda: any("ALARM" in words for words in told))
            client.transport.ask(Describe(7))
    assert "another process of 'shop' is connected" in refused[0]
    assert any("ALARM" in words and "shop" in words for words in said)
    assert (first.steps, second.steps) == ([7], [])
    assert hub.alarm


def test_a_party_that_registers_hears_its_welcome_before_any_alarm(
    hub: Hub, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take anything else for a hub that is none, and come again."""
    refused = threading.Event()

    def slow() -> Frame:
        refused.wait(10)
        return registration.welcome()

    monkeypatch.setattr(hub_module, "welcome", slow)
    first = line_of(kits["shop"], instance="first")
    until(lambda: "shop" in hub.members)
    second = line_of(kits["shop"], instance="second")
    assert second.receive().kind is Kind.REFUSED
    refused.set()
    assert first.receive().kind is Kind.WELCOME
    assert hub.alarm
    for line in (first, second):
        line.close()


def test_the_same_process_replaces_its_own_broken_connection(
    hub: Hub, kits: dict[str, Kit]
) -> None:
    lines = []
    for _ in range(2):
        lines.append(line_of(kits["shop"]))
        assert lines[-1].receive().kind is Kind.WELCOME
    until(lambda: "shop" in hub.members and not hub.alarm)
    with pytest.raises((EOFError, OSError)):
        lines[0].receive()
    for line in lines:
        line.close()


@pytest.mark.parametrize(
    "hello",
    [
        *({"protocol": 99}, {"instance": None}, {"instance": 7}, {"protocol": None}),
        {"more": "x" * 5000},  # nobody has so much to say before it is registered
    ],
)
def test_a_greeting_that_says_something_else_is_refused(
    hub: Hub, kits: dict[str, Kit], hello: dict[str, Any]
) -> None:
    line = line_of(kits["shop"], **hello)
    with contextlib.suppress(EOFError, OSError):
        assert line.receive().kind is Kind.REFUSED
    line.close()
    assert hub.members == {}


def test_silent_connections_block_nobody(
    hub: Hub, client: HubClient, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "MOST_SHAKING", 8)
    silent = [plain(hub) for _ in range(30)]
    local = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for each in local:
        each.connect(str(hub.kit.links / f"{ACTIVE_SOCKET}.sock"))
    began = time.monotonic()
    with joined(Echo(), kits["shop"]), joined(Echo(), kits["bank"]):
        client.connect()
        client.transport.ask(Describe(0))
        assert time.monotonic() - began < 6
        assert len(hub._shaking) <= 8
    for end in (*silent, *local):
        end.close()


def test_somebody_without_a_certificate_is_parted_with_in_time(
    hub: Hub,
    kits: dict[str, Kit],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "unlabel.events")
    monkeypatch.setattr(hub_module, "SHAKE", 0.5)
    began = time.monotonic()
    with plain(hub) as silent:
        silent.settimeout(5)
        assert silent.recv(10) == b""
    assert time.monotonic() - began < 4
    until(lambda: hub.refused == 1)  # its line is written after it was parted with
    with plain(hub) as shouting:
        shouting.settimeout(5)
        with contextlib.suppress(OSError):
            shouting.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)
            while shouting.recv(4096):
                pass
    until(lambda: hub.refused >= 2)
    assert hub.members == {}
    # Each leaves a line: who, and why in a word.
    lines = [vars(each) for each in caplog.records if each.name == "unlabel.events"]
    assert [(line["event"], line["code"]) for line in lines] == [
        ("rejected", "broken"),
        ("rejected", "tls"),
    ]
    assert all(line["who"].startswith("127.0.0.1:") for line in lines)


@pytest.mark.parametrize("when", ["greeting", "registered"])
def test_a_frame_that_is_too_long_is_refused_before_memory_is_taken(
    hub: Hub, kits: dict[str, Kit], when: str
) -> None:
    """A party of the federation says it sends 1,000 MiB, and sends what it can."""
    line = line_of(kits["shop"])
    if when == "registered":
        assert line.receive().kind is Kind.WELCOME
    else:
        line.close()
        line = Line(plain(hub), Sealed(client_context(kits["shop"]), host="localhost"))
        line.shake()
    before = psutil.Process().memory_info().rss
    head = struct.pack(">IBQQ", 1000 * 2**20, Kind.ANSWER, 1, 1)
    piece = bytes(2**20)
    sent = 0
    with contextlib.suppress(OSError):
        line.sealed._tls.write(head)
        for _ in range(300):
            line.sealed._tls.write(piece)
            line._flush()
            sent += len(piece)
    assert sent < 64 * 2**20
    assert psutil.Process().memory_info().rss - before < 64 * 2**20
    until(lambda: "shop" not in hub.members)
    line.close()


def test_a_session_that_begins_while_a_party_registers_waits_for_its_welcome(
    hub: Hub, client: HubClient, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that overtook the welcome would end the connection."""
    welcome = registration.welcome

    def slow() -> Frame:
        time.sleep(0.5)
        return welcome()

    monkeypatch.setattr(hub_module, "welcome", slow)
    said: list[str] = []
    with joined(Echo(), kits["shop"], said), joined(Echo(), kits["bank"], said):
        client.connect()
        client.transport.ask(Describe(1))
        assert [words for words in said if words.startswith("Not")] == []
    assert client.sessions == 1


def test_a_party_whose_greeting_has_a_strange_time_is_let_in(
    hub: Hub, kits: dict[str, Kit], said: list[str]
) -> None:
    for strange in (10**400, -(10**400), 1e308, True, None, "now"):
        line = line_of(kits["shop"], time=strange)
        assert line.receive().kind is Kind.WELCOME
        until(lambda: said and said[-1].startswith("Party shop has joined"))
        line.close()
        until(lambda: "shop" not in hub.members and "is gone" in said[-1])
    assert hub.refused == 0


def test_a_long_list_of_revoked_certificates_arrives_also_together_with_the_welcome(
    made: Path, hub: Hub, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is longer than what a party takes before it knows who answers."""

    class Late(Line):
        def _read(self) -> bytes:
            time.sleep(0.3)  # as on a machine with much to do
            return super()._read()

    authority = AuthorityFolder.open(made / "authority")
    numbers = authority.authority.revoke(range(10**30, 10**30 + 150), 1)
    data = numbers.public_bytes(Encoding.PEM)
    assert len(data) > GREETING
    monkeypatch.setattr(party_line, "Line", Late)
    try:
        take(kits["active"], data, "a test")
        with joined(Echo(), kits["shop"]) as line:
            until(lambda: revocation.numbers(kits["shop"]) == [1])
            assert line.connections == 1
    finally:
        for name in ("active", "shop"):
            kits[name].revoked.unlink(missing_ok=True)


def test_a_list_of_revoked_certificates_that_comes_while_another_is_handed_out_is_not_lost(
    made: Path, hub: Hub, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = AuthorityFolder.open(made / "authority").authority
    lists = [authority.revoke([10**30], n).public_bytes(Encoding.PEM) for n in (1, 2)]
    read = registration.revoked_frame

    def slow(kit: Kit) -> Frame | None:
        frame = read(kit)
        if frame is not None and lists[1:]:
            take(kit, lists.pop(), "a test")  # it is installed before this one is sent
        return frame

    monkeypatch.setattr(hub_module, "revoked_frame", slow)
    try:
        with joined(Echo(), kits["shop"]):
            until(lambda: "shop" in hub.present())
            take(kits["active"], lists[0], "a test")
            until(lambda: revocation.numbers(kits["shop"]) == [2])
    finally:
        for name in ("active", "shop"):
            kits[name].revoked.unlink(missing_ok=True)


def test_a_party_that_says_nothing_any_more_is_parted_with(
    hub: Hub, kits: dict[str, Kit], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "SILENT", 1.0)
    line = line_of(kits["shop"])
    assert line.receive().kind is Kind.WELCOME
    until(lambda: any("nothing was heard" in words for words in said))
    assert hub.members == {}
    line.close()


def test_a_party_that_says_something_while_much_is_sent_to_it_is_not_parted_with(
    hub: Hub, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a question that went out just before, say."""
    monkeypatch.setattr(frames, "STUCK", 0.2)
    line = line_of(kits["shop"])
    assert line.receive().kind is Kind.WELCOME
    line.sealed.most = 2**25
    until(lambda: "shop" in hub.present())
    member = hub.members["shop"]
    epoch, _, _ = hub.begin()
    sending = threading.Thread(target=hub.ask, args=(member, epoch, 1, bytes(2**25), 30.0))
    sending.start()
    until(member.line._sending.locked)
    line.send(Frame(Kind.PONG))
    time.sleep(0.5)  # longer than anybody waits for somebody else's send
    assert line.receive().kind is Kind.REQUEST
    sending.join()
    assert member.lost == ""
    line.close()


def test_a_hub_that_is_stopped_has_ended_every_connection(kits: dict[str, Kit]) -> None:
    with hub_of(kits["active"]) as hub:
        silent = plain(hub)
        line = line_of(kits["shop"])
        assert line.receive().kind is Kind.WELCOME
        until(lambda: len(hub._threads) == 2)
        threads = list(hub._threads)
        assert hub.is_listening()
    assert not any(each.is_alive() for each in threads)
    assert not hub.is_listening()
    silent.close()
    line.close()


def test_a_hub_goes_on_where_there_was_no_room_for_a_thread(
    hub: Hub, kits: dict[str, Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        if "_serve" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", fails)
        with plain(hub) as refused:
            refused.settimeout(5)
            assert refused.recv(1) == b""
    line = line_of(kits["shop"])
    assert line.receive().kind is Kind.WELCOME
    line.close()
    until(lambda: hub._shaking == {})


def test_a_party_refuses_a_frame_that_is_too_long_and_goes_on(
    client: HubClient, hub: Hub, kits: dict[str, Kit]
) -> None:
    shop = Echo()
    with joined(shop, kits["shop"]) as line, joined(Echo(), kits["bank"]):
        client.connect()
        line.responder.most = 8
        assert line._line is not None
        line._line.sealed.most = 64
        with pytest.raises(PartyLost):
            client.transport.exchange_in_turn({"shop": [Describe(1)] * 8})
        assert shop.steps == []
        client.connect(["shop"])
        client.transport.exchange({"bank": Describe(2)})


def test_too_much_for_one_frame_is_said_before_it_is_sent(
    client: HubClient, kits: dict[str, Kit]
) -> None:
    with joined(Echo(), kits["shop"]), joined(Echo(), kits["bank"]):
        client.connect()
        client.transport._largest = 100
        with pytest.raises(WireError, match=r"server\.frame"):
            client.transport.exchange_in_turn({"shop": [Describe(1)] * 4})


class Tamperer:
    """Stands between a party and the hub, and changes what goes to the party."""

    def __init__(self, target: int, change: Callable[[bytes], bytes]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._target, self._change = target, change
        self.records = 0
        self._ends = [self._listener]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                party, _ = self._listener.accept()
                hub = CONNECT(("127.0.0.1", self._target))
                self._ends += [party, hub]
                for pair, changes in (((party, hub), False), ((hub, party), True)):
                    threading.Thread(target=self._pass, args=(*pair, changes), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, changes: bool) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                head = exactly(source, 5)
                record = head + exactly(source, struct.unpack(">H", head[3:])[0])
                if changes:
                    self.records += 1
                    record = self._change(record)
                sink.sendall(record)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


@pytest.mark.parametrize("how", ["untouched", "changed", "repeated", "held back", "cut", "forged"])
def test_who_stands_in_between_can_break_a_connection_and_nothing_else(
    made: Path,
    kits: dict[str, Kit],
    hub: Hub,
    client: HubClient,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    armed, held = threading.Event(), []

    def change(record: bytes) -> bytes:
        if not armed.is_set() or how == "untouched":
            return record
        if how == "changed":
            return record[:-1] + bytes([record[-1] ^ 1])
        if how == "repeated":
            return record + record
        if how == "held back":  # and sent after the next one
            held.append(record)
            return b"" if len(held) == 1 else record + held[0]
        if how == "cut":
            return record[:-3]
        return b"\x17\x03\x03" + struct.pack(">H", 40) + os.urandom(40)

    between = Tamperer(hub.kit.port, change)
    monkeypatch.setattr(
        socket,
        "create_connection",
        lambda _, **more: CONNECT(("127.0.0.1", between.port), **more),
    )
    shop = Echo()
    with joined(shop, kits["shop"]) as line:
        until(lambda: line.since is not None)
        monkeypatch.undo()
        with joined(Echo(), kits["bank"]):
            client.connect()
            client.transport.timeout = 1.5
            client.transport.exchange({"shop": Describe(1)})
            armed.set()
            outcome = 0
            for step in (2, 3):
                try:
                    client.transport.exchange({"shop": Describe(step)})
                    outcome += 1
                except PartyLost:
                    pass
            assert outcome == 2 if how == "untouched" else outcome < 2
    # Whatever was done, no request came through changed or twice.
    served = {"untouched": [[1, 2, 3]], "repeated": [[1], [1, 2]]}.get(how, [[1]])
    assert shop.steps in served
    between.close()


def test_a_request_of_a_session_that_is_over_is_not_served(hub: Hub, kits: dict[str, Kit]) -> None:
    from unlabel.link import join
    from unlabel.remote.responder import Responder
    from unlabel.wire import encode

    shop = Echo()
    responder = Responder(shop, "", 2**20)
    responder.hello()

    def request(step: int, epoch: int, call: int) -> Frame | None:
        return responder.answer(Frame(Kind.REQUEST, join([encode(Describe(step))]), epoch, call))

    assert request(1, 1, 1) is not None
    assert request(2, 2, 1) is not None
    for epoch, call in ((1, 2), (1, 9), (2, 1), (2, 0)):
        assert request(9, epoch, call) is None
    assert request(3, 2, 2) is not None
    assert (shop.steps, responder.jobs) == ([1, 2, 3], 2)
    for kind in (Kind.HELLO, Kind.ANSWER, Kind.ALARM):
        with pytest.raises(WireError):
            responder.answer(Frame(kind))


def test_a_hub_that_was_started_again_finds_all_parties_again(kits: dict[str, Kit]) -> None:
    shop, bank = Echo(), Echo()
    with joined(shop, kits["shop"]), joined(bank, kits["bank"]):
        for step in (1, 2):
            with hub_of(kits["active"]) as hub:
                client = HubClient(hub.kit, patience=8.0)
                client.connect()
                client.transport.ask(Describe(step))
                client.close()
    assert shop.steps == bank.steps == [1, 2]


def test_a_party_says_why_it_is_not_connected(made: Path, kits: dict[str, Kit]) -> None:
    told: list[str] = []
    with joined(Echo(), kits["shop"], told) as line:
        until(lambda: told)
        assert "connection refused" in told[0]
        assert line.contact().registered is False
        time.sleep(0.5)
        assert len(told) == 1  # once for each reason


#: What another user of the machine tries, as a program of its own: it drops its rights first.
STRANGER = """
import encodings.idna, os, socket, ssl, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
port, *paths = sys.argv[1:]
got = []
for path in paths:
    if os.path.isdir(path):
        try:
            os.listdir(path); got.append(path)
        except PermissionError:
            pass
    elif path.endswith(".sock"):
        try:
            socket.socket(socket.AF_UNIX).connect(path); got.append(path)
        except (PermissionError, FileNotFoundError):
            pass
    else:
        try:
            open(path, "rb").read(); got.append(path)
        except PermissionError:
            pass
for hello in (None, b"\\x00" * 64, b"\\x00\\x00\\x00\\x20\\x06" + bytes(48)):
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as line:
        line.settimeout(3)
        try:
            if hello is None:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                line = context.wrap_socket(line)
                line.sendall(b"\\x00" * 64)
            else:
                line.sendall(hello)
            if line.recv(64)[:1] not in (b"", b"\\x15"):  # an alert of TLS says nothing
                got.append(f"an answer to {hello!r}")
        except OSError:
            pass
print(got)
"""


def listened_on() -> set[int]:
    """Return the ports on which this process listens."""
    lines = psutil.Process().net_connections(kind="tcp")
    return {each.laddr.port for each in lines if each.status == psutil.CONN_LISTEN}


@pytest.fixture
def earlier() -> set[int]:
    """Return the ports of what a whole session of tests shares."""
    return listened_on()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_reaches_reads_and_forges_nothing(
    earlier: set[int], hub: Hub, client: HubClient, kits: dict[str, Kit], made: Path
) -> None:
    shop = Echo()
    # pytest keeps its folders closed; those on the way are opened, so that the kits' own count.
    for folder in (made, *list(made.parents)[:3]):
        if folder != Path("/tmp"):
            folder.chmod(0o755)
    with joined(shop, kits["shop"]), joined(Echo(), kits["bank"]):
        client.connect()
        paths = []
        for kit in kits.values():
            kit.prepare()
            paths += [kit.key, kit.links, kit.state, *kit.links.glob("*")]
        port = str(hub.kit.port)
        done = subprocess.run(
            [sys.executable, "-c", STRANGER, port, *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        )
        assert done.stdout.strip() == "[]", done.stdout + done.stderr
        client.transport.ask(Describe(5))
        assert listened_on() - earlier == {hub.kit.port}
    assert shop.steps == [5]
