"""What a provisioned federation refuses, tried on one that runs.

The active party's operator is hostile here: at home all rules of the engine are lifted. Those of
the passive parties hold all the same, since they stand in their own kits.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federation.conftest import Running
from federation.course import Course
from small_parties import LABELS, PASSIVE, ROWS, person

from unlabel.config import ServerSettings
from unlabel.config.loader import dump, read_party
from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.remote.certificates import Authority, certificate_bytes, key_bytes, make_key
from unlabel.remote.engine import Engine
from unlabel.remote.frames import PROTOCOL
from unlabel.remote.health import health_of
from unlabel.remote.job import write_job
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import LEAD, PARTY, identities

#: What a client of the engine's HTTP transport says first.
HELLO = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
#: What a party says first at the hub: kind 1, and a greeting as JSON.
HELLO_FACTS = json.dumps({"protocol": PROTOCOL, "instance": "another"}).encode()
GREETING = struct.pack(">IBQQ", len(HELLO_FACTS), 1, 0, 0) + HELLO_FACTS
EVIL = """
from pathlib import Path
from nvflare.collab import collab

Path({marker!r}).touch()


class Evil:
    @collab.publish
    def serve(self, request):
        return b""
"""


@pytest.fixture(scope="module")
def session(over_flare: Running) -> Iterator[Any]:
    """The engine, entered with the credentials of the user who may start jobs."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    admin = str(over_flare.kits[ACTIVE] / "state" / "admin")
    found = new_secure_session(LEAD, admin, timeout=20.0)
    yield found
    found.close()


def change_client(job: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a job says that clients are to run."""
    path = job / "app" / "config" / "config_fed_client.json"
    found = json.loads(path.read_bytes())
    change(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def with_code(job: Path, marker: Path) -> None:
    """Bring a module along that leaves a mark as soon as it is imported."""
    custom = job / "app" / "custom"
    custom.mkdir()
    code = EVIL.format(marker=str(marker))
    (custom / "evil.py").write_text(code, encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert marker.exists(), "the code does nothing, so that it would prove nothing"
    marker.unlink()

    def change(found: dict[str, Any]) -> None:
        (client,) = (part for part in found["components"] if part["id"] == "_client")
        client["path"] = "evil.Evil"

    change_client(job, change)


def with_a_class_of_python(job: Path, marker: Path) -> None:
    """Name a class that every Python has, which starts a program."""

    def change(found: dict[str, Any]) -> None:
        found["components"].append(
            {"id": "evil", "path": "subprocess.Popen", "args": {"args": ["touch", str(marker)]}}
        )

    change_client(job, change)


@pytest.mark.parametrize(
    ("bring", "log", "words"),
    [
        (with_code, "state/engine/log.txt", "{party}: NVFLARE_ERROR: BYOC not permitted"),
        (with_a_class_of_python, "state/logs/engine.log", "'subprocess.Popen'"),
    ],
)
def test_a_job_that_brings_code_runs_at_no_passive_party(
    over_flare: Running,
    session: Any,
    tmp_path: Path,
    bring: Callable[[Path, Path], None],
    log: str,
    words: str,
) -> None:
    job, marker = write_job(tmp_path, len(PASSIVE)), tmp_path / "was-here"
    bring(job, marker)
    number = session.submit_job(str(job))
    wait_for(lambda: str(session.get_job_status(number)).startswith("FINISHED"), 60)
    assert session.get_job_status(number) != "FINISHED:COMPLETED"
    assert not marker.exists()
    # It came as far as the parties, and it is they who refused.
    for party in PASSIVE:
        kit = over_flare.kits[ACTIVE if bring is with_code else party]
        assert words.format(party=party) in (kit / log).read_text(encoding="utf-8")


def test_the_hub_answers_a_party_with_its_certificate(running: Running) -> None:
    """Else the refusals below would prove nothing."""
    held = running.kits["shop"] / "certificates"
    context = trusting(held / "root.pem")
    context.load_cert_chain(held / "party.crt", held / "party.key")
    await_healthy(running.kits["shop"])  # a party serves before the hub has it
    assert b"another process of 'shop' is connected" in answer(running.port, context)


def test_a_connection_without_a_certificate_is_refused(running: Running) -> None:
    root = running.kits["shop"] / "certificates" / "root.pem"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answer(running.port, trusting(root))


def test_every_port_of_the_server_asks_for_a_certificate(
    over_flare: Running, flare_course: Course
) -> None:
    """Also the one on which its own processes find each other, and all that is carried passes."""
    held = over_flare.kits["shop"] / "certificates"
    known = trusting(held / "root.pem")
    known.check_hostname = False
    known.load_cert_chain(held / "party.crt", held / "party.key")
    unknown = trusting(held / "root.pem")
    unknown.check_hostname = False
    ports = set(listening(over_flare.kits[ACTIVE]))
    assert over_flare.port in ports
    assert len(ports) > 1
    for port in ports:
        assert enters(port, known)
        assert not enters(port, unknown)
        assert not enters(port, None)


def listening(kit: Path) -> list[int]:
    """Return the ports on which the engine of a kit listens."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if str(kit / "state" / "engine") in (process.info["cmdline"] or []):
            with contextlib.suppress(psutil.NoSuchProcess):
                lines = process.net_connections(kind="tcp")
                found += [line.laddr.port for line in lines if line.status == psutil.CONN_LISTEN]
    return found


def enters(port: int, context: ssl.SSLContext | None) -> bool:
    """Return whether a port lets a client stay that says nothing: not where it wants another."""
    with socket.create_connection(("localhost", port), timeout=10) as plain:
        try:
            if context is None:
                plain.sendall(HELLO)
                plain.settimeout(3)
                return bool(plain.recv(64).startswith(b"HTTP"))
            with context.wrap_socket(plain, server_hostname="localhost") as line:
                line.settimeout(3)
                return bool(line.recv(64))
        except TimeoutError:
            return True  # it waits for what the client has to say
        except (ssl.SSLError, ConnectionError):
            return False


def test_a_certificate_of_another_authority_is_refused(running: Running, tmp_path: Path) -> None:
    other, key = Authority.make("small"), make_key()
    made = other.certify(identities("shop", ServerSettings())[0], key.public_key(), 30)
    (tmp_path / "client.crt").write_bytes(certificate_bytes(made))
    (tmp_path / "client.key").write_bytes(key_bytes(key))
    (tmp_path / "root.pem").write_bytes(certificate_bytes(other.certificate))
    root = running.kits["shop"] / "certificates" / "root.pem"
    context = trusting(root)
    context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answer(running.port, context)
    # And a party of that authority does not take this server for its own.
    with pytest.raises(ssl.SSLCertVerificationError):
        answer(running.port, trusting(tmp_path / "root.pem"))


def test_a_party_cannot_take_the_name_of_another(over_flare: Running, tmp_path: Path) -> None:
    """The certificate of shop, under the name of loan."""
    without_state = shutil.ignore_patterns("state")
    kit = Path(shutil.copytree(over_flare.kits["shop"], tmp_path / "kit", ignore=without_state))
    party = kit / PARTY
    party.write_text(dump(replace(read_party(party), name="loan")), encoding="utf-8")
    with pytest.raises(RunError, match="shop"):
        Kit.open(kit)
    # Nor does the engine take it in where somebody starts it without asking the kit.
    server = over_flare.kits[ACTIVE] / "state" / "engine" / "log.txt"
    before = server.stat().st_size
    engine = Engine(Kit.read(kit))
    engine.start()
    try:
        words = "authenticated as 'shop' but claimed endpoint 'loan'"
        wait_for(lambda: words in server.read_bytes()[before:].decode(), 60)
    finally:
        engine.stop()
    said = server.read_bytes()[before:].decode()
    assert "New client" not in said


def test_what_passes_the_port_can_be_read_by_nobody(
    running: Running, provisioned_course: Course, local_messages: list[bytes]
) -> None:
    streams = running.tap.captured()
    assert sum(map(len, streams)) > sum(map(len, local_messages)) / 2 > 0
    marks = telltales(local_messages)
    for stream in streams:
        assert not [mark for mark in marks if mark in stream]
        assert outside_tls(stream) == 0


def test_the_marks_are_seen_where_nothing_is_hidden(
    provisioned_course: Course, local_messages: list[bytes]
) -> None:
    """Of the same messages in one process, where they are not enciphered."""
    marks = telltales(local_messages)
    assert len(marks) > ROWS
    seen = [mark for mark in marks if any(mark in message for message in local_messages)]
    assert b"UNLB" in seen
    assert len([mark for mark in seen if len(mark) == RUN]) > 10
    assert all(outside_tls(message) == len(message) for message in local_messages)


#: Bytes of a tensor that are looked for in one piece.
RUN = 64


def telltales(messages: list[bytes]) -> list[bytes]:
    """Return what must not be seen: ids, names of labels, our format, and pieces of tensors."""
    texts = [*(person(number) for number in range(ROWS)), *LABELS, "safetensors", "unlabel"]
    runs = {m[-RUN:] for m in messages if len(m) > 8 * RUN and len(set(m[-RUN:])) > 16}
    return [text.encode() for text in texts] + [b"UNLB"] + sorted(runs)


def outside_tls(stream: bytes) -> int:
    """Return how many bytes of a stream stand in no record of TLS.

    A record is its kind (20 to 23), the version 3.x, a length of at most 2^14 + 256, and so many
    bytes. The last record may still be under way.
    """
    at = 0
    while at + 5 <= len(stream):
        kind, major = stream[at], stream[at + 1]
        length = int.from_bytes(stream[at + 3 : at + 5], "big")
        if kind not in range(20, 24) or major != 3 or length > 2**14 + 256:
            return len(stream) - at
        at += 5 + length
    return 0


def trusting(root: Path) -> ssl.SSLContext:
    """Return a TLS client that takes a server of one authority, and shows no certificate."""
    return ssl.create_default_context(cafile=str(root))


def answer(port: int, context: ssl.SSLContext) -> bytes:
    """Return the first words of the hub to a client; raise where it refuses to speak."""
    with (
        socket.create_connection(("localhost", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        line.sendall(GREETING)
        said = line.recv(4096)
        if not said:
            raise ConnectionResetError("closed without a word")
        return said


def wait_for(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def await_healthy(kit: Path) -> None:
    deadline = time.monotonic() + 30
    while (found := health_of(kit, seconds=10, days=1, free=1)).code != "healthy":
        assert time.monotonic() < deadline, found.sentence
        time.sleep(0.2)


def test_who_is_connected_over_the_engine_is_healthy(over_flare: Running) -> None:
    for kit in over_flare.kits.values():
        await_healthy(kit)
