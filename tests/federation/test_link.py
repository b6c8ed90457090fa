"""Connections between the processes of one party: who may call, and what a broken one does."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from federation.met_parties import Echo, Holder
from small_parties import make_kits

from unlabel.errors import PartyLost, RunError, WireError
from unlabel.link import KEY, LINKS, Door, call, join, links_folder, make_key, pack, unpack
from unlabel.remote import bridge
from unlabel.remote import engine as engine_module
from unlabel.remote.bridge import SERVER, ActiveBridge, PassiveBridge
from unlabel.remote.engine import Engine
from unlabel.remote.kit import Kit
from unlabel.remote.party_server import PartyServer
from unlabel.wire import Describe, Description, encode
from unlabel.wire.linked import LinkedTransport

NAME = "shop"


@pytest.fixture
def links() -> Iterator[Path]:
    # pytest's own folders can be too deep for a socket.
    with tempfile.TemporaryDirectory(prefix="unlabel-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    make_kits(folder)
    return folder


@pytest.fixture
def hub(kits: Path) -> Kit:
    return Kit.open(kits / "active")


@pytest.fixture
def server(kits: Path, links: Path) -> Iterator[PartyServer]:
    server = PartyServer(Echo(), Kit.open(kits / NAME), links)
    serving = threading.Thread(target=server.serve, daemon=True)
    serving.start()
    yield server
    server.close()
    serving.join(timeout=10)
    assert not serving.is_alive()


@pytest.fixture
def caller(links: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Say to the bridge who calls it, as the engine does."""
    monkeypatch.setenv(LINKS, str(links))

    def set_caller(name: str) -> None:
        monkeypatch.setattr(bridge, "collab", SimpleNamespace(caller=name, site_name=NAME))

    set_caller(SERVER)
    return set_caller


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nobody_else_may_enter_the_folder_of_sockets(tmp_path: Path) -> None:
    folder = links_folder(tmp_path, "shop")
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.stat().st_uid == os.getuid()
    assert links_folder(tmp_path, "shop") == folder
    make_key(folder)
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600
    folder.chmod(0o755)
    with pytest.raises(RunError):
        links_folder(tmp_path, "shop")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_sockets_that_another_user_has_made_is_not_used(tmp_path: Path) -> None:
    theirs = tmp_path / "links"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(RunError, match="open to other users"):
        links_folder(tmp_path, "shop")


def test_parties_have_sockets_of_their_own(tmp_path: Path) -> None:
    assert links_folder(tmp_path / "a", "shop") != links_folder(tmp_path / "b", "shop")


def test_all_who_come_at_once_get_one_key(links: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: make_key(links), range(8)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    assert [path.name for path in links.iterdir()] == [KEY]


def over(connection: Any) -> Callable[[bytes], bytes]:
    """Return what carries bytes to a party's process and its answer back, as a job does."""

    def carry(data: bytes) -> bytes:
        connection.send_bytes(data)
        answer: bytes = connection.recv_bytes()
        return answer

    return carry


def asked(server: PartyServer) -> list[int]:
    assert isinstance(server.responder.party, Echo)
    return server.responder.party.steps


def test_a_wrong_key_is_refused_and_does_no_harm(
    server: PartyServer, links: Path, hub: Kit
) -> None:
    with pytest.raises(AuthenticationError):
        Client(str(links / f"{NAME}.sock"), family="AF_UNIX", authkey=b"guessed")
    assert server.responder.jobs == 0
    with contextlib.closing(call(links, NAME)) as connection:
        Holder(hub, over(connection)).ask(7)
    assert asked(server) == [7]


def test_who_answers_the_challenge_wrongly_is_not_let_in(links: Path) -> None:
    """A caller that checks nothing itself, unlike `Client` with a key."""
    door = Door(links, "door")
    with contextlib.closing(Client(str(links / "door.sock"), family="AF_UNIX")) as caller:
        assert b"#CHALLENGE#" in caller.recv_bytes()
        caller.send_bytes(bytes(32))
        assert door.accept(0.5) is None
        with contextlib.suppress(EOFError, OSError):
            assert caller.recv_bytes() == b"#FAILURE#"
    door.close()
    assert not [each.name for each in threading.enumerate() if each.name == "door"]


def test_a_process_with_the_key_but_no_certificate_is_not_answered(
    server: PartyServer, links: Path, kits: Path
) -> None:
    """As where somebody gives the engine's processes bytes of his own."""
    with contextlib.closing(call(links, NAME)) as connection:
        connection.send_bytes(b"")
        assert connection.recv_bytes()[:1] == b"\x16"  # a greeting of TLS, and nothing else
        connection.send_bytes(encode(Describe(0)))
        with pytest.raises((EOFError, OSError)):
            connection.recv_bytes()
    with contextlib.closing(call(links, NAME)) as connection, pytest.raises((EOFError, OSError)):
        Holder(Kit.open(kits / "bank"), over(connection))  # another party's certificate
    assert asked(server) == []


def test_a_connection_that_says_nothing_holds_up_nobody(
    server: PartyServer, links: Path, hub: Kit
) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for each in silent:
        each.connect(str(links / f"{NAME}.sock"))
    began = time.monotonic()
    with contextlib.closing(call(links, NAME)) as connection:
        Holder(hub, over(connection)).ask(1)
    assert time.monotonic() - began < 3
    for each in silent:
        each.close()


def test_the_newest_connection_wins(server: PartyServer, links: Path, hub: Kit) -> None:
    old = call(links, NAME)
    first = Holder(hub, over(old))
    first.ask(1)
    new = call(links, NAME)
    second = Holder(hub, over(new))
    second.ask(2)
    # What a job that was given up hands in late must not reach the party.
    with pytest.raises((EOFError, OSError)):
        first.ask(3)
    second.ask(4)
    assert (asked(server), server.responder.jobs) == ([1, 2, 4], 2)
    old.close()
    new.close()


def test_a_party_s_loop_comes_round_while_it_answers_and_another_job_comes(
    kits: Path, links: Path, hub: Kit
) -> None:
    """Else it would count as hung, and be started anew."""
    begun, ended, turned = threading.Event(), threading.Event(), threading.Event()

    class Slow(Echo):
        def serve(self, data: bytes) -> bytes:
            begun.set()
            ended.wait(10)
            return super().serve(data)

    server = PartyServer(Slow(), Kit.open(kits / NAME), links)
    serving = threading.Thread(target=server.serve, args=(turned.set,))
    serving.start()
    with contextlib.closing(call(links, NAME)) as first:
        holder = Holder(hub, over(first))
        first.send_bytes(holder.sealed_request(1))
        assert begun.wait(5)
        with contextlib.closing(call(links, NAME)) as second:
            time.sleep(0.4)  # until the loop has it
            turned.clear()
            comes_round = turned.wait(1)
            ended.set()
            Holder(hub, over(second)).ask(2)
    server.close()
    serving.join()
    assert (comes_round, asked(server)) == (True, [1, 2])


def test_the_active_party_is_answered(
    server: PartyServer, caller: Callable[[str], None], hub: Kit
) -> None:
    Holder(hub, PassiveBridge().serve).ask(5)
    assert asked(server) == [5]


@pytest.mark.parametrize("change", ["repeated", "cut", "changed", "left out"])
def test_what_the_engine_changes_on_its_way_ends_the_job_and_nothing_else(
    server: PartyServer, links: Path, hub: Kit, change: str
) -> None:
    connection = call(links, NAME)
    holder = Holder(hub, over(connection))
    holder.ask(1)
    frame = holder.sealed_request(2)
    if change == "repeated":
        over(connection)(frame)
    elif change == "cut":
        frame = frame[:-1] + b"\x00" * 8
    elif change == "changed":
        frame = frame[:40] + bytes([frame[40] ^ 1]) + frame[41:]
    else:
        frame = holder.sealed_request(3)
    connection.send_bytes(frame)
    with pytest.raises((EOFError, OSError)):
        connection.recv_bytes()
    connection.close()
    assert asked(server) == ([1, 2] if change == "repeated" else [1])
    with contextlib.closing(call(links, NAME)) as other:
        Holder(hub, over(other)).ask(9)
    assert asked(server)[-1] == 9


@pytest.mark.parametrize("other", ["loan", "shop", "", "Server", "server.1"])
def test_other_parties_are_not_answered(
    server: PartyServer, caller: Callable[[str], None], other: str
) -> None:
    bridge = PassiveBridge()
    caller(other)
    with pytest.raises(WireError, match="only the active party"):
        bridge.serve(b"hello")
    assert asked(server) == []


def test_only_bytes_are_passed_on(server: PartyServer, caller: Callable[[str], None]) -> None:
    with pytest.raises(WireError, match="bytes"):
        PassiveBridge().serve({"a": 1})
    assert asked(server) == []


def test_a_job_ends_with_the_process_it_began_with(
    kits: Path, links: Path, hub: Kit, caller: Callable[[str], None]
) -> None:
    """A party that was started anew has other weights; the old job must not reach it."""
    first = PartyServer(Echo(), Kit.open(kits / NAME), links)
    threading.Thread(target=first.serve, daemon=True).start()
    bridge = PassiveBridge()
    Holder(hub, bridge.serve).ask(1)
    first.close()
    second = PartyServer(Echo(), Kit.open(kits / NAME), links)
    threading.Thread(target=second.serve, daemon=True).start()
    try:
        for _ in range(2):
            with pytest.raises(WireError, match="has ended"):
                bridge.serve(b"b")
        assert asked(second) == []
        Holder(hub, PassiveBridge().serve).ask(3)
        assert asked(second) == [3]
    finally:
        second.close()


def test_a_party_that_does_not_run_is_said_to(links: Path, caller: Callable[[str], None]) -> None:
    with pytest.raises(WireError, match="not running"):
        PassiveBridge().serve(b"a")


def test_an_engine_that_cannot_be_started_again_is_given_up_after_some_tries(
    kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "WAITS", (0.01,))
    monkeypatch.setattr(engine_module, "TRIES", 3)
    told: list[str] = []
    engine = Engine(Kit.open(shutil.copytree(kits / NAME, tmp_path / NAME)), told.append)
    monkeypatch.setattr(engine, "_module", lambda: ["json.nothing"])  # which ends at once
    engine.kit.engine.mkdir(parents=True)
    engine._spawn()
    engine.kit.engine.rmdir()
    engine._watch()
    assert engine.failed in told
    assert sum("cannot be started" in words for words in told) == 3


class Proxy:
    """A party as the engine's server sees it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self, timeout: float) -> Proxy:
        return self

    def serve(self, request: bytes) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_whoever_does_not_answer_is_named_with_the_reason() -> None:
    proxies = {
        "a": Proxy(b"fine"),
        "b": Proxy(TimeoutError("too slow\nand more")),
        "c": Proxy({"not": "bytes"}),
        "d": Proxy(KeyError()),
    }
    with ThreadPoolExecutor(4) as pool:
        frame = ActiveBridge().answer(pool, proxies, {"timeout": 1}, dict.fromkeys("abcde", b"?"))
    header, answers = unpack(frame)
    assert answers == {"a": b"fine"}
    assert header["lost"] == {
        "b": "too slow",
        "c": "it answered with dict in place of bytes",
        "d": "KeyError",
        "e": "it has not joined this job",
    }


def job(links: Path, answer: Callable[[dict[str, bytes]], bytes | None]) -> threading.Thread:
    """Play the job's process: answer each request, or hang up where there is no answer."""

    def run() -> None:
        with contextlib.closing(call(links, "active")) as connection:
            while True:
                try:
                    _, requests = unpack(connection.recv_bytes())
                except (EOFError, OSError):
                    return
                frame = answer(requests)
                if frame is None:
                    return
                connection.send_bytes(frame)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("answer", "words", "lost"),
    [
        (lambda _: None, "ended while parties were asked", []),
        (lambda r: pack({"a": r["a"]}, call=1), "'b' did not answer within 5 seconds", ["b"]),
        (
            lambda _: pack({}, lost={"a": "gone fishing"}, call=1),
            "'a' and 'b' did not answer within 5 seconds (gone fishing)",
            ["a", "b"],
        ),
    ],
)
def test_answers_are_counted(
    links: Path,
    answer: Callable[[dict[str, bytes]], bytes | None],
    words: str,
    lost: list[str],
) -> None:
    door = Door(links, "active")
    thread = job(links, answer)
    transport = LinkedTransport(["a", "b"], timeout=5.0)
    transport.connect(door.accept(10))
    with pytest.raises(PartyLost) as caught:
        transport.exchange({"a": Describe(0), "b": Describe(0)})
    assert words in str(caught.value)
    assert list(caught.value.parties) == lost
    # The job is of no use any more, whoever was lost.
    with pytest.raises(PartyLost, match=re.escape(words)):
        transport.exchange({"a": Describe(0)})
    thread.join(timeout=10)
    door.close()


def test_an_answer_that_is_no_message_is_named(links: Path) -> None:
    door = Door(links, "active")
    answer = join([encode(Description(0, 3, 4, (), 5))])
    thread = job(links, lambda _: pack({"a": answer, "b": b"rubbish"}, call=1))
    transport = LinkedTransport(["a", "b"], timeout=5.0)
    transport.connect(door.accept(10))
    with pytest.raises(WireError):
        transport.exchange({"a": Describe(0), "b": Describe(0)})
    transport.connect(None)
    thread.join(timeout=10)
    door.close()


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_a_frame_that_broke_off_is_refused(cut: int) -> None:
    frame = pack({"a": b"12345"}, timeout=1.0)
    with pytest.raises(WireError):
        unpack(frame[:cut])


def test_a_party_whose_folder_lies_deep_has_its_socket_elsewhere(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short:
        state = Path(short) / "state"
        assert links_folder(state, "shop") == (state / "links").resolve()
    deep = tmp_path / ("d" * 90)
    assert links_folder(deep, "shop").parent.name.startswith("unlabel-")
    with contextlib.closing(Door(links_folder(deep, "shop"), "shop")):
        pass  # its path is short enough to listen on
