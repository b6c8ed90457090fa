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

from unlabel.link import pack, unpack
from unlabel.wire.linked import LinkedTransport

if TYPE_CHECKING:
    from unlabel.remote.engine import Engine
    from unlabel.remote.sealed_link import SealedLink

#: Seconds that a party may take until it serves, and until it has ended.
STARTS, ENDS = 60.0, 20.0
#: Seconds that one call may take.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Rig:
    """A running federation and its one job.

    transport  the way to the parties
    link       the connection to the engine's job, over which they are reached
    parties    their names
    engines    of all sites, the active party's first
    processes  ids of the parties' own processes
    """

    transport: LinkedTransport
    link: SealedLink
    parties: Sequence[str]
    engines: Sequence[Engine]
    processes: Sequence[int]

    def bare(self, parties: Sequence[str], request: bytes, times: int) -> list[float]:
        """Return the seconds that so many calls of the engine's own took."""
        parts = dict.fromkeys(parties, request)
        self.link.job.send_bytes(pack(parts, timeout=TIMEOUT * times, call=0, bare=times))
        header, _ = unpack(self.link.job.recv_bytes())
        return [float(seconds) for seconds in header["seconds"]]

    def processor_seconds(self) -> float:
        """Return the processor time of all processes of the federation so far."""
        from unlabel_bench.speed.engine.bare import processor_seconds

        of_engines = [number for engine in self.engines for number in engine.processes()]
        return processor_seconds([os.getpid(), *self.processes, *of_engines])


@contextlib.contextmanager
def rig(folder: Path, parties: int) -> Iterator[Rig]:
    """Provision a federation, start all its processes and one job; end them all at the end."""
    from unlabel.remote.engine import Engine
    from unlabel.remote.job_client import JobClient
    from unlabel.remote.kit import Kit
    from unlabel_bench.speed.engine.bare import allow_measuring, write_measuring_job

    folders = _provision(folder, parties)
    names = [name for name in folders if name != "active"]
    kits = {name: Kit.open(path) for name, path in folders.items()}
    allow_measuring()
    active = kits["active"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(active.lock())
        processes = [stack.enter_context(_process(folders[name])) for name in names]
        engine = Engine(active)
        stack.callback(engine.stop)
        engine.start()
        for process in processes:
            _wait(process)
        client = JobClient(active, job=write_measuring_job)
        stack.callback(client.close)
        client.connect()
        engines = [engine, *(Engine(kits[name]) for name in names)]
        assert client.link is not None
        numbers = [process.pid for process in processes]
        yield Rig(client.transport, client.link, names, engines, numbers)


def _provision(folder: Path, parties: int) -> dict[str, Path]:
    from unlabel.remote.local_cluster import free_port
    from unlabel.remote.provision import provision

    passive = ", ".join(f"{{name: party-{number}}}" for number in range(1, parties + 1))
    file = folder / "federation.yaml"
    file.write_text(
        f"name: wire\n"
        f"server: {{host: localhost, port: {free_port()}, carrier: flare}}\n"
        f"active: {{label: y}}\n"
        f"passive: [{passive}]\n"
        f"model: {{bottom: mlp}}\n",
        encoding="utf-8",
    )
    kits = provision(file, folder / "kits")
    return {name: path for name, path in kits.items() if name != "authority"}


@contextlib.contextmanager
def _process(kit: Path) -> Iterator[subprocess.Popen[bytes]]:
    with kit.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "unlabel_bench.speed.wire_party", str(kit)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
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
    """Wait until a party serves; raise with its log where it does not."""
    from unlabel.remote.local_cluster import await_serving

    kit = Path(str(process.args[-1]))  # type: ignore[index]
    await_serving(process, kit, kit.with_suffix(".log"), seconds=STARTS)
