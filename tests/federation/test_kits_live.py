"""An active party that has given up its own rules meets a partner's kit, on a real connection."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from operate.hand_kits import settings_of

from unlabel.operate.engine import Engine
from unlabel.operate.job import JOB, recipe, write_job
from unlabel.operate.kit import LEAD, Kit
from unlabel.operate.provision import provision

# Of a library that the engine calls in an old way; as an error it would cut the engine's line.
pytestmark = pytest.mark.filterwarnings("ignore:ssl_context is deprecated:DeprecationWarning")

TEXT = """\
server: {port: PORT}
active: {label: y}
passive: [{name: shop}, {name: bank}]
"""
#: Seconds for the engine to do something.
SOON = 45.0


@dataclass(frozen=True)
class Meeting:
    """Engines that run, and the session of the user who starts jobs."""

    kits: Path
    port: int
    session: Any

    def log(self, party: str) -> str:
        """Return all that a party's engine and its jobs have written."""
        files = (self.kits / party / "engine").rglob("log.txt")
        return "\n".join(path.read_text(errors="replace") for path in files)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def wait_for(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + SOON
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.25)
    return True


@contextlib.contextmanager
def engine_of(kit: Kit, name: str) -> Iterator[None]:
    kit.prepare()
    role = "server" if kit.is_active else "client"
    found = Engine(kit.engine, role, name, links=kit.links, log_file=kit.logs / "engine.log")
    found.start()
    try:
        yield
    finally:
        found.stop()


@pytest.fixture(scope="module")
def meeting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meeting]:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    folder, port = tmp_path_factory.mktemp("live"), free_port()
    settings_of(folder, TEXT.replace("PORT", str(port)))
    provision(folder / "federation.yaml", folder / "kits")
    active, shop = Kit.open(folder / "kits" / "active"), Kit.open(folder / "kits" / "shop")
    loosen(active.engine / "local")
    with engine_of(active, "active"), engine_of(shop, "shop"):
        session: list[Any] = []
        failures: list[Exception] = []

        def joined() -> bool:
            try:
                if not session:
                    session.append(new_secure_session(LEAD, str(active.admin), timeout=3.0))
                return "shop" in names(session[0])
            except Exception as error:  # the engine is not there yet
                failures.append(error)
                return False

        assert wait_for(joined), failures[-1:]
        yield Meeting(folder / "kits", port, session[0])
        with contextlib.suppress(Exception):
            session[0].close()


def loosen(local: Path) -> None:
    """Let the active party's own engine do anything."""
    granted = json.loads((local / "authorization.json").read_bytes())
    granted["permissions"] = {"lead": "any"}
    (local / "authorization.json").write_text(json.dumps(granted))
    found = json.loads((local / "resources.json").read_bytes())
    (local / "resources.json").write_text(json.dumps({**found, "class_allow_list": ["*"]}))


def names(session: Any) -> set[str]:
    return {client.name for client in session.get_connected_client_list()}


def submit(meeting: Meeting, job: Path) -> dict[str, Any]:
    """Submit a job, wait for its end and return what the engine knows of it."""
    number = meeting.session.submit_job(str(job))

    def ended() -> bool:
        return str(meeting.session.get_job_meta(number)["status"]).startswith("FINISHED")

    assert wait_for(ended)
    found = meeting.session.get_job_meta(number)
    assert isinstance(found, dict)
    return found


def test_a_job_that_brings_code_is_refused_by_the_partner(meeting: Meeting, tmp_path: Path) -> None:
    recipe(1).export(str(tmp_path))
    assert list((tmp_path / JOB).rglob("*.py"))
    found = submit(meeting, tmp_path / JOB)
    assert found["job_deploy_detail"][0] == "server: OK"  # the active party's own engine took it
    assert "BYOC not permitted" in found["job_deploy_detail"][1]
    assert found["job_deploy_detail"][1].startswith("shop: ")
    assert not list((meeting.kits / "shop" / "engine").rglob("*.py"))


@pytest.mark.long
def test_a_job_that_names_another_class_does_not_run_at_the_partner(
    meeting: Meeting, tmp_path: Path
) -> None:
    job = write_job(tmp_path, 1)
    other = "nvflare.app_common.np.np_trainer.NPTrainer"
    for config in job.rglob("config_fed_client.json"):
        text = config.read_text()
        assert "unlabel.operate.bridge.PassiveBridge" in text
        config.write_text(text.replace("unlabel.operate.bridge.PassiveBridge", other))
    assert submit(meeting, job)["status"] != "FINISHED:COMPLETED"
    assert f"Component '{other}'" in meeting.log("shop")
    assert "is not in allow_list" in meeting.log("shop")


def test_a_partners_site_is_not_ended_from_afar(meeting: Meeting) -> None:
    said = meeting.session.api.do_command("shutdown client shop")
    # The active party's own engine passed it on; the partner's refused.
    assert ["shop", f"user '{LEAD}' is not authorized for 'shutdown'"] in said["data"][0]["rows"]
    assert "shop" in names(meeting.session)


@pytest.mark.parametrize("shows", ["nothing", "another authority's"])
def test_who_has_no_certificate_of_ours_gets_no_word_in(
    meeting: Meeting, tmp_path: Path, shows: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(meeting.kits / "shop/engine/startup/rootCA.pem")
    if shows != "nothing":
        settings_of(tmp_path, TEXT.replace("PORT", str(meeting.port)))
        provision(tmp_path / "federation.yaml", tmp_path / "kits")
        startup = tmp_path / "kits/shop/engine/startup"
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    # The server ends the line, with a word of the protocol about certificates or with none.
    heard = b""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        heard = greet(context, meeting.port)
    assert heard == b""
    good = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    startup = meeting.kits / "shop/engine/startup"
    good.load_verify_locations(startup / "rootCA.pem")
    good.load_cert_chain(startup / "client.crt", startup / "client.key")
    assert greet(good, meeting.port).startswith(b"HTTP/")


def greet(context: ssl.SSLContext, port: int) -> bytes:
    with (
        socket.create_connection(("localhost", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return line.recv(100)


def test_a_party_cannot_come_in_under_anothers_name(meeting: Meeting, tmp_path: Path) -> None:
    posing = Path(shutil.copytree(meeting.kits / "shop" / "engine", tmp_path / "kit" / "engine"))
    for name in ("agreement.yaml", "party.yaml"):
        shutil.copy(meeting.kits / "bank" / name, tmp_path / "kit" / name)
    config = posing / "startup" / "fed_client.json"
    config.write_text(config.read_text().replace('"shop"', '"bank"'))
    with engine_of(Kit.read(tmp_path / "kit"), "bank"):
        refused = "authenticated as 'shop' but claimed endpoint 'bank'"
        assert wait_for(lambda: refused in meeting.log("active"))
        assert names(meeting.session) == {"shop"}
