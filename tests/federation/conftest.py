"""One provisioned federation, started once, with a wire tap before its server's port."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from federation.course import Course, homes_of, local_config, run_course
from federation.met_parties import connected
from federation.recording_proxy import RecordingProxy
from federation.simulated import SimulatedJobClient
from small_parties import PARTIES, PASSIVE, animals, provisioned, small_keys, write_tables

from unlabel import Federation
from unlabel.config.loader import dump, read_party
from unlabel.data import ACTIVE
from unlabel.link import links_folder
from unlabel.progress import watch_nothing
from unlabel.remote.connect import keep_table, open_federation
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import PARTY
from unlabel.remote.local_cluster import LocalCluster, free_port
from unlabel.remote.party_home import open_party
from unlabel.remote.party_server import PartyServer
from unlabel.wire import Pipelined

__all__ = ["small_keys"]  # a fixture for every test here


@dataclass(frozen=True)
class Running:
    """A provisioned federation whose parties run.

    port  on which the active party really listens; the kits name the tap's
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
        listen_behind(kits[ACTIVE], port)
        with LocalCluster(kits, tables) as cluster:
            yield Running(kits, tables, cluster, tap, port)


@pytest.fixture(scope="session")
def over_flare(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Path]
) -> Iterator[Running]:
    """The same where the engine carries the messages."""
    port = free_port()
    with RecordingProxy(port) as tap:
        text = animals(port=tap.port, carrier="flare")
        kits = provisioned(tmp_path_factory.mktemp("flare"), text, seed=0)
        listen_behind(kits[ACTIVE], port)
        with HostileCluster(kits, tables) as cluster:
            yield Running(kits, tables, cluster, tap, port)


def listen_behind(kit: Path, port: int) -> None:
    """Have the active party alone be behind the tap, through which all others go by the kits."""
    own = kit / PARTY
    own.write_text(dump(replace(read_party(own), port=port)), encoding="utf-8")


class HostileCluster(LocalCluster):
    """The active party runs a program of its own, in which all rules of the engine are lifted."""

    def command(self, party: str) -> list[str]:
        words = super().command(party)
        if party == ACTIVE:
            at = words.index("-m")
            words[at : at + 2] = [str(Path(__file__).with_name("lifted_rules.py"))]
        return words


@pytest.fixture(scope="session")
def provisioned_course(running: Running) -> Course:
    """What the course of events makes of parties in processes of their own, over mutual TLS."""
    with Federation.connect(running.kits[ACTIVE], resume=True) as federation:
        return run_course(federation, homes_of(running.kits))


@pytest.fixture(scope="session")
def flare_course(over_flare: Running) -> Course:
    with Federation.connect(over_flare.kits[ACTIVE], resume=True) as federation:
        return run_course(federation, homes_of(over_flare.kits))


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
def unpipelined_course(tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Course:
    """What it makes of parties that are connected to a hub, where gradients travel alone."""
    kits = provisioned(tmp_path_factory.mktemp("met"), animals(port=free_port()), seed=0)
    with connected(kits, tables), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipelined, "_hold", lambda self, requests: self._inner.exchange(requests))
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            return run_course(federation, homes_of(kits))


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
            server = PartyServer(open_party(kit, tables[name]).party, kit, links)
            ending.callback(server.close)
            threading.Thread(target=server.serve, daemon=True).start()
        client = SimulatedJobClient(active, folder, links)
        ending.callback(client.close)
        config = active.run_config(tables[ACTIVE])
        federation = open_federation(active, config, client, watch_nothing)
        return run_course(federation, homes_of(kits))
