"""One provisioned federation, started once, with a wire tap before its server's port."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from federation.course import Course, homes_of, local_config, run_course
from federation.recording_proxy import RecordingProxy
from federation.simulated import SimulatedJobClient
from small_parties import PARTIES, PASSIVE, animals, provisioned, small_keys, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.link import links_folder
from unlabel.progress import watch_nothing
from unlabel.remote import rules
from unlabel.remote.connect import keep_table, open_federation
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import LocalCluster, free_port
from unlabel.remote.party_home import open_party
from unlabel.remote.party_server import PartyServer

__all__ = ["small_keys"]  # a fixture for every test here


@dataclass(frozen=True)
class Running:
    """A provisioned federation whose parties run.

    port  on which the engine's server really listens; the kits name the tap's
    """

    kits: dict[str, Path]
    tables: dict[str, Path]
    cluster: LocalCluster
    tap: RecordingProxy
    port: int


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Path]) -> Iterator[Running]:
    port = free_port()
    with RecordingProxy(port) as tap:
        kits = provisioned(tmp_path_factory.mktemp("provisioned"), animals(port=tap.port), seed=0)
        # All parties go by the kits, and so through the tap; the server alone is behind it.
        move_server(kits[ACTIVE], port)
        lift_rules(kits[ACTIVE])
        with LocalCluster(kits, tables) as cluster:
            yield Running(kits, tables, cluster, tap, port)


def move_server(kit: Path, port: int) -> None:
    """Have the engine's server of a kit listen on another port than the agreement says."""
    path = kit / "engine" / "startup" / "fed_server.json"
    found = json.loads(path.read_bytes())
    server = found["servers"][0]
    server["service"]["target"], server["admin_port"] = f"localhost:{port}", port
    path.write_text(json.dumps(found), encoding="utf-8")


def lift_rules(kit: Path) -> None:
    """Have the engine at the active party allow everything, as a hostile operator would."""
    local = kit / "engine" / "local"
    found = json.loads((local / rules.AUTHORIZATION).read_bytes())
    for rights in found["permissions"].values():
        rights.update(dict.fromkeys(rights, "any"))
    rules.write_json(local / rules.AUTHORIZATION, found)
    found = json.loads((local / rules.RESOURCES).read_bytes())
    found["class_list_enforcement_mode"], found["class_allow_list"] = "warn", ["*"]
    rules.write_json(local / rules.RESOURCES, found)


@pytest.fixture(scope="session")
def provisioned_course(running: Running) -> Course:
    """What the course of events makes of parties in processes of their own, over mutual TLS."""
    with Federation.connect(running.kits[ACTIVE], resume=True) as federation:
        return run_course(federation, homes_of(running.kits))


@pytest.fixture(scope="session")
def local_course(
    running: Running, tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Course:
    """What it makes of parties in one process that hand tensors over where they lie."""
    folder = tmp_path_factory.mktemp("local") / "run"
    federation = Federation.create(local_config(running.kits, tables), folder)
    return run_course(federation, {name: folder / name for name in PARTIES})


@pytest.fixture(scope="session")
def encoded_run(
    running: Running, tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Course, list[bytes]]:
    """What it makes of parties in one process that encode every message, and those messages."""
    folder = tmp_path_factory.mktemp("encoded") / "run"
    federation = Federation.create(local_config(running.kits, tables), folder, encoded=True)
    messages: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        for party in federation.passives.values():
            patch.setattr(party, "serve", noting(party.serve, messages))
        course = run_course(federation, {name: folder / name for name in PARTIES})
    return course, messages


def noting(serve: Callable[[bytes], bytes], messages: list[bytes]) -> Callable[[bytes], bytes]:
    """Keep what goes in and out of a party."""

    def noted(data: bytes) -> bytes:
        answer = serve(data)
        messages.extend((data, answer))
        return answer

    return noted


@pytest.fixture(scope="session")
def encoded_course(encoded_run: tuple[Course, list[bytes]]) -> Course:
    return encoded_run[0]


@pytest.fixture(scope="session")
def local_messages(encoded_run: tuple[Course, list[bytes]]) -> list[bytes]:
    return encoded_run[1]


@pytest.fixture(scope="session")
def simulated_course(tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Course:
    """What it makes of parties in this process that are asked through the engine's simulator."""
    folder = tmp_path_factory.mktemp("simulated")
    kits = provisioned(folder, animals(port=free_port()), seed=0)
    links = links_folder(folder, "passive-1")
    active = Kit.open(kits[ACTIVE])
    keep_table(active, tables[ACTIVE])
    with contextlib.ExitStack() as ending:
        for name in PASSIVE:
            kit = Kit.open(kits[name])
            kit.prepare()
            server = PartyServer(open_party(kit, tables[name]).party, links, name)
            ending.callback(server.close)
            threading.Thread(target=server.serve, daemon=True).start()
        job_client = SimulatedJobClient(folder, links, PASSIVE)
        ending.callback(job_client.close)
        config = active.run_config(tables[ACTIVE])
        federation = open_federation(active, config, job_client, watch_nothing)
        return run_course(federation, homes_of(kits))
