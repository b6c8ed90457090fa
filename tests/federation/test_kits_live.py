"""An active party that has given up its own rules meets a partner's kit, on a real connection."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from small_parties import provisioned

from unlabel.remote import rules
from unlabel.remote.engine import Engine
from unlabel.remote.job import JOB, recipe, write_job
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import LEAD
from unlabel.remote.local_cluster import free_port

# Of a library that the engine calls in an old way; as an error it would cut the engine's line.
pytestmark = pytest.mark.filterwarnings("ignore:ssl_context is deprecated:DeprecationWarning")

TEXT = """\
server: {port: PORT, carrier: flare}
active: {label: y}
passive: [{name: shop}, {name: bank}]
"""
#: Seconds for the engine to do something.
SOON = 45.0


@dataclass(frozen=True)
class Engines:
    """Engines that run, and the session of the user who starts jobs."""

    kits: Path
    port: int
    session: Any

    def log(self, party: str) -> str:
        """Return all that a party's engine and its jobs have written."""
        files = (self.kits / party / "state" / "engine").rglob("log.txt")
        return "\n".join(path.read_text(errors="replace") for path in files)


def wait_for(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + SOON
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.25)
    return True


@contextlib.contextmanager
def engine_of(kit: Kit) -> Iterator[None]:
    kit.prepare()
    engine = Engine(kit)
    engine.start()
    try:
        yield
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    folder, port = tmp_path_factory.mktemp("live"), free_port()
    provisioned(folder, TEXT.replace("PORT", str(port)))
    active, shop = Kit.open(folder / "kits" / "active"), Kit.open(folder / "kits" / "shop")
    with contextlib.ExitStack() as running:
        with pytest.MonkeyPatch.context() as patch:
            loosened(patch)
            running.enter_context(engine_of(active))
        running.enter_context(engine_of(shop))
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
        yield Engines(folder / "kits", port, session[0])
        with contextlib.suppress(Exception):
            session[0].close()


def loosened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine that is started next do anything."""
    granted, found = rules.permissions("server"), rules.resources
    monkeypatch.setattr(rules, "permissions", lambda _: {**granted, "permissions": {"lead": "any"}})
    monkeypatch.setattr(rules, "resources", lambda *a: {**found(*a), "class_allow_list": ["*"]})


def names(session: Any) -> set[str]:
    return {client.name for client in session.get_connected_client_list()}


def submit(engines: Engines, job: Path) -> dict[str, Any]:
    """Submit a job, wait for its end and return what the engine knows of it."""
    number = engines.session.submit_job(str(job))

    def ended() -> bool:
        return str(engines.session.get_job_meta(number)["status"]).startswith("FINISHED")

    assert wait_for(ended)
    found = engines.session.get_job_meta(number)
    assert isinstance(found, dict)
    return found


def test_a_job_that_brings_code_is_refused_by_the_partner(engines: Engines, tmp_path: Path) -> None:
    recipe(1).export(str(tmp_path))
    assert list((tmp_path / JOB).rglob("*.py"))
    found = submit(engines, tmp_path / JOB)
    assert found["job_deploy_detail"][0] == "server: OK"  # the active party's own engine took it
    assert "BYOC not permitted" in found["job_deploy_detail"][1]
    assert found["job_deploy_detail"][1].startswith("shop: ")
    assert not list((engines.kits / "shop" / "state" / "engine").rglob("*.py"))


@pytest.mark.long
def test_a_job_that_names_another_class_does_not_run_at_the_partner(
    engines: Engines, tmp_path: Path
) -> None:
    job = write_job(tmp_path, 1)
    other = "nvflare.app_common.np.np_trainer.NPTrainer"
    for config in job.rglob("config_fed_client.json"):
        text = config.read_text()
        assert "unlabel.remote.bridge.PassiveBridge" in text
        config.write_text(text.replace("unlabel.remote.bridge.PassiveBridge", other))
    assert submit(engines, job)["status"] != "FINISHED:COMPLETED"
    assert f"Component '{other}'" in engines.log("shop")
    assert "is not in allow_list" in engines.log("shop")


def test_a_partners_site_is_not_ended_from_afar(engines: Engines) -> None:
    said = engines.session.api.do_command("shutdown client shop")
    # The active party's own engine passed it on; the partner's refused.
    assert ["shop", f"user '{LEAD}' is not authorized for 'shutdown'"] in said["data"][0]["rows"]
    assert "shop" in names(engines.session)


@pytest.mark.parametrize("shows", ["nothing", "another authority's"])
def test_who_has_no_certificate_of_ours_gets_no_word_in(
    engines: Engines, tmp_path: Path, shows: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(engines.kits / "shop/certificates/root.pem")
    if shows != "nothing":
        provisioned(tmp_path, TEXT.replace("PORT", str(engines.port)))
        held = tmp_path / "kits/shop/certificates"
        context.load_cert_chain(held / "party.crt", held / "party.key")
    # The server ends the line, with a word of the protocol about certificates or with none.
    heard = b""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        heard = greet(context, engines.port)
    assert heard == b""
    good = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    held = engines.kits / "shop/certificates"
    good.load_verify_locations(held / "root.pem")
    good.load_cert_chain(held / "party.crt", held / "party.key")
    assert greet(good, engines.port).startswith(b"HTTP/")


def greet(context: ssl.SSLContext, port: int) -> bytes:
    with (
        socket.create_connection(("localhost", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(100)


def test_a_party_cannot_come_in_under_anothers_name(engines: Engines, tmp_path: Path) -> None:
    shutil.copytree(engines.kits / "bank", tmp_path / "kit")
    for name in ("party.crt", "party.key"):
        shutil.copy(engines.kits / "shop/certificates" / name, tmp_path / "kit/certificates" / name)
    with engine_of(Kit.read(tmp_path / "kit")):
        refused = "authenticated as 'shop' but claimed endpoint 'bank'"
        assert wait_for(lambda: refused in engines.log("active"))
        assert names(engines.session) == {"shop"}
