"""One provisioned federation, started once, with a wire tap before its server's port."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from federation.recording_proxy import RecordingProxy
from federation.simulated import SimulatedCourier
from federation.small_houses import (
    PARTIES,
    PASSIVE,
    Course,
    homes_of,
    local_config,
    make_kits,
    run_course,
    write_tables,
)

from unlabel import Federation
from unlabel.align.psi import watch_nothing
from unlabel.data import ACTIVE
from unlabel.link import links_folder
from unlabel.operate import rules
from unlabel.operate.connect import _opened, keep_table
from unlabel.operate.house import open_house
from unlabel.operate.kit import Kit
from unlabel.operate.neighbours import Neighbours, free_port
from unlabel.operate.office import Office


@dataclass(frozen=True)
class Running:
    """A provisioned federation whose parties run.

    port  on which the engine's server really listens; the kits name the tap's
    """

    kits: dict[str, Path]
    tables: dict[str, Path]
    neighbours: Neighbours
    tap: RecordingProxy
    port: int


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Path]) -> Iterator[Running]:
    port = free_port()
    with RecordingProxy(port) as tap:
        kits = make_kits(tmp_path_factory.mktemp("provisioned"), tap.port)
        # All parties go by the kits, and so through the tap; the server alone is behind it.
        move_server(kits[ACTIVE], port)
        lift_rules(kits[ACTIVE])
        with Neighbours(kits, tables) as neighbours:
            yield Running(kits, tables, neighbours, tap, port)


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
    kits = make_kits(folder, free_port())
    links = links_folder(folder, "passive-1")
    active = Kit.open(kits[ACTIVE])
    keep_table(active, tables[ACTIVE])
    with contextlib.ExitStack() as ending:
        for name in PASSIVE:
            kit = Kit.open(kits[name])
            kit.prepare()
            office = Office(open_house(kit, tables[name]).party, links, name)
            ending.callback(office.close)
            threading.Thread(target=office.serve, daemon=True).start()
        courier = SimulatedCourier(folder, links, PASSIVE)
        ending.callback(courier.close)
        config = active.run_config(tables[ACTIVE])
        federation = _opened(active, config, courier, print, watch_nothing)
        return run_course(federation, homes_of(kits))
