"""A provisioned federation on this machine for a bench: every party a process, over mutual TLS."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unlabel.wire.flare import FlareTransport

if TYPE_CHECKING:
    from unlabel.operate.engine import Engine

#: Seconds that a party may take until it serves, and until it has ended.
STARTS, ENDS = 60.0, 20.0
#: Seconds that one call may take.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Rig:
    """A running federation and its one job.

    transport  the way to the parties
    parties    their names
    engines    of all sites, the active party's first
    houses     process ids of the parties' own processes
    """

    transport: FlareTransport
    parties: Sequence[str]
    engines: Sequence[Engine]
    houses: Sequence[int]

    def bare(self, parties: Sequence[str], request: bytes, times: int) -> list[float]:
        """Return the seconds that so many calls of the engine's own took."""
        patience = TIMEOUT * times
        header, _ = self.transport.carry(dict.fromkeys(parties, request), patience, bare=times)
        return [float(seconds) for seconds in header["seconds"]]

    def processor_seconds(self) -> float:
        """Return the processor time of all processes of the federation so far."""
        from unlabel.operate.bare import processor_seconds

        of_engines = [number for engine in self.engines for number in engine.processes()]
        return processor_seconds([os.getpid(), *self.houses, *of_engines])


@contextlib.contextmanager
def rig(folder: Path, parties: int) -> Iterator[Rig]:
    """Provision a federation, start all its processes and one job; end them all at the end."""
    from unlabel.operate.bare import allow_measuring, write_measuring_job
    from unlabel.operate.courier import Courier
    from unlabel.operate.house import engine_of
    from unlabel.operate.kit import Kit

    folders = _provision(folder, parties)
    names = [name for name in folders if name != "active"]
    kits = {name: Kit.open(path) for name, path in folders.items()}
    for kit in kits.values():
        allow_measuring(kit)
    active = kits["active"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(active.lock())
        houses = [stack.enter_context(_house(folders[name])) for name in names]
        engine = engine_of(active)
        stack.callback(engine.stop)
        engine.start()
        for house in houses:
            _wait(house)
        courier = Courier(
            active.admin, active.links, names, timeout=TIMEOUT, job=write_measuring_job
        )
        stack.callback(courier.close)
        courier.connect()
        engines = [engine, *(engine_of(kits[name]) for name in names)]
        yield Rig(courier.transport, names, engines, [house.pid for house in houses])


def _provision(folder: Path, parties: int) -> dict[str, Path]:
    from unlabel.operate.neighbours import free_port
    from unlabel.operate.provision import provision

    passive = ", ".join(f"{{name: party-{number}}}" for number in range(1, parties + 1))
    file = folder / "federation.yaml"
    file.write_text(
        f"name: wire\n"
        f"server: {{host: localhost, port: {free_port()}}}\n"
        f"active: {{label: y}}\n"
        f"passive: [{passive}]\n"
        f"model: {{bottom: mlp}}\n",
        encoding="utf-8",
    )
    made = provision(file, folder / "kits")
    return {name: path for name, path in made.items() if name != "authority"}


@contextlib.contextmanager
def _house(kit: Path) -> Iterator[subprocess.Popen[bytes]]:
    with kit.with_suffix(".log").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "unlabel.bench.wire_party", str(kit)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=ENDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait until a party serves; raise with its own words where it does not."""
    from unlabel.operate.readiness import await_serving

    kit = Path(str(process.args[-1]))  # type: ignore[index]
    await_serving(process, kit, kit.with_suffix(".log"), seconds=STARTS)
