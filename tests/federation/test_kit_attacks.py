"""A kit cannot run a command where it is started: what worked up to 0.10, tried once more.

Up to 0.10 the engine's settings travelled in the kit. Both attacks below were run against that
version first: an entry in `resources.json` and a factory in `log_config.json` each ran their
command at `party start`, while `unlabel federation show` said of commands "none".
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.places import put
from small_parties import provisioned

from unlabel.config import ServerSettings
from unlabel.remote.carriers import EngineCarrier
from unlabel.remote.engine import Engine
from unlabel.remote.engine_files import write_engine_files
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import CERTIFICATES
from unlabel.remote.local_cluster import free_port

TEXT = """\
server: {port: PORT, carrier: flare}
active: {label: y}
passive: [{name: shop}]
"""


def with_a_component(marker: Path, resources: dict[str, Any], logs: dict[str, Any]) -> None:
    """Have the engine build a component of Python's own that starts a program."""
    command = {"args": ["touch", str(marker)]}
    resources["components"].append({"id": "evil", "path": "subprocess.Popen", "args": command})


def with_a_factory(marker: Path, resources: dict[str, Any], logs: dict[str, Any]) -> None:
    """Have Python's logging call any function for a formatter."""
    logs["formatters"]["evil"] = {"()": "subprocess.getoutput", "cmd": f"touch {marker}"}
    logs["handlers"]["output"]["formatter"] = "evil"


ATTACKS = [with_a_component, with_a_factory]
Attack = Callable[[Path, dict[str, Any], dict[str, Any]], None]


def plant(attack: Attack, local: Path, marker: Path, source: Path) -> None:
    """Write the attack's files into a folder, made of those that the engine starts with."""
    found = [json.loads((source / name).read_bytes()) for name in NAMES]
    attack(marker, *found)
    local.mkdir(parents=True, exist_ok=True)
    for name, content in zip(NAMES, found, strict=True):
        (local / name).write_text(json.dumps(content), encoding="utf-8")


NAMES = ("resources.json", "log_config.json")


def seconds_until(marker: Path, patience: float) -> float | None:
    began = time.monotonic()
    while time.monotonic() < began + patience:
        if marker.exists():
            return time.monotonic() - began
        time.sleep(0.1)
    return None


def start(kit: Kit, patience: float, marker: Path, *, raw: bool = False) -> float | None:
    """Start the engine of a kit for some seconds; return when the command ran, if it did.

    raw  start it on the files as they lie in state/, as if nothing had written them anew
    """
    with pytest.MonkeyPatch.context() as patch:
        if raw:
            patch.setattr("unlabel.remote.engine.write_engine_files", lambda _: None)
        engine = Engine(kit, notify=lambda _: None)
        with kit.lock():
            engine.start()
            try:
                return seconds_until(marker, patience)
            finally:
                engine.stop()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    return provisioned(folder, TEXT.replace("PORT", str(free_port())))["shop"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_same_files_in_state_do_not_outlive_a_start(
    shop: Path, tmp_path: Path, attack: Attack
) -> None:
    kit, marker = Kit.read(shutil.copytree(shop, tmp_path / "shop")), tmp_path / "was-here"
    write_engine_files(kit)
    local = kit.engine / "local"
    plant(attack, local, marker, local)
    (local / "custom").mkdir()
    (local / "custom" / "evil.py").write_text("")
    # The attack works where nothing writes the files anew; else the rest would prove nothing.
    took = start(kit, 30.0, marker, raw=True)
    assert took is not None
    marker.unlink()
    assert start(kit, 2 * took + 1, marker) is None
    assert "evil" not in "".join(path.read_text() for path in local.iterdir())
    assert {path.name for path in local.iterdir()} == {"authorization.json", *NAMES}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_kit_runs_no_command_through_the_engines_files(
    shop: Path, tmp_path: Path, attack: Attack
) -> None:
    """In the places that kits up to 0.10 have, which still start."""
    kit = Kit.read(shutil.copytree(shop, tmp_path / "shop"))
    write_engine_files(kit)
    source = Path(shutil.copytree(kit.engine / "local", tmp_path / "source"))
    shutil.rmtree(kit.state)
    old = put("kits", tmp_path / "old") / "shop"
    marker = tmp_path / "was-here"
    plant(attack, old / "engine" / "local", marker, source)
    write_engine_files(Kit.read(old))
    written = "".join(path.read_text() for path in (old / "state/engine").rglob("*.json"))
    assert str(marker) not in written
    assert "evil" not in written
    assert ServerSettings().host in written


def test_a_link_in_state_is_removed_and_not_followed(shop: Path, tmp_path: Path) -> None:
    kit = Kit.read(shutil.copytree(shop, tmp_path / "shop"))
    kit.prepare()
    (tmp_path / "elsewhere" / "local").mkdir(parents=True)
    (tmp_path / "elsewhere" / "local" / "mine.txt").write_text("mine")
    kit.engine.symlink_to(tmp_path / "elsewhere")
    write_engine_files(kit)
    assert (tmp_path / "elsewhere" / "local" / "mine.txt").read_text() == "mine"
    assert not kit.engine.is_symlink()
    assert (kit.engine / "startup" / "client.key").resolve() == kit.folder / CERTIFICATES / (
        "party.key"
    )


def test_an_engine_that_reaches_nobody_is_not_called_registered(shop: Path, tmp_path: Path) -> None:
    kit = Kit.read(shutil.copytree(shop, tmp_path / "shop"))
    engine = Engine(kit, notify=lambda _: None)
    with kit.lock():
        engine.start()
        try:
            assert engine.is_alive()
            assert not EngineCarrier(engine, None).contact().registered
        finally:
            engine.stop()
