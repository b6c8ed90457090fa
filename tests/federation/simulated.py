"""The engine's simulator in place of a provisioned federation: same job, same bridges, same lines.

    python simulated.py WORKSPACE PARTY ...

runs the one job there is in NVIDIA FLARE's `SimEnv`; `UNLABEL_LINKS` says where the lines are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import psutil

from unlabel.link import LINKS
from unlabel.remote.engine import end
from unlabel.remote.job_client import JobClient
from unlabel.remote.kit import Kit

#: What the simulator calls every job.
SIMULATED = "simulate_job"


class SimulatedSession:
    """What a job_client asks of the engine, with a simulation behind it."""

    def __init__(self, folder: Path, links: Path, parties: Sequence[str]) -> None:
        self._folder = folder
        self._links = links
        self._parties = list(parties)
        self._process: subprocess.Popen[bytes] | None = None

    def get_connected_client_list(self) -> list[Any]:
        """Return the parties, who are there as soon as there is a job."""
        now = time.time()
        return [SimpleNamespace(name=party, last_connect_time=now) for party in self._parties]

    def list_jobs(self, **_: object) -> list[dict[str, str]]:
        """Return the jobs of earlier commands: none."""
        return []

    def get_job_status(self, job: str) -> str:
        """Return whether the simulation runs."""
        ended = self._process is None or self._process.poll() is not None
        return "FINISHED" if ended else "RUNNING"

    def submit_job(self, path: str) -> str:
        """Run the job, in a process of its own."""
        with (self._folder / "simulator.log").open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(self._folder / "workspace"), *self._parties],
                env={**os.environ, LINKS: str(self._links)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        return SIMULATED

    def abort_job(self, job: str) -> None:
        """End the simulation and all it started."""
        self.close()

    def close(self) -> None:
        """Wait for the simulation to see that its line is closed; end it where it does not."""
        if self._process is not None:
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                # The simulator starts sessions of its own, which no signal to a group reaches.
                started = psutil.Process(self._process.pid).children(recursive=True)
                end([process.pid for process in started] + [self._process.pid])
                self._process.wait()


class SimulatedJobClient(JobClient):
    """A job_client whose jobs are simulations."""

    def __init__(self, kit: Kit, folder: Path, links: Path) -> None:
        super().__init__(kit, links=links)
        self._simulated = SimulatedSession(folder, links, kit.agreement.passive)

    def _engine_session(self) -> Any:
        self._session = self._simulated
        return self._session


def simulate(workspace: str, parties: list[str], said: IO[str] = sys.stderr) -> None:
    """Run the job to its end."""
    from nvflare.recipe import SimEnv

    from unlabel.remote.job import recipe

    recipe(len(parties)).execute(SimEnv(clients=parties, workspace_root=workspace))
    print("The simulation has ended.", file=said)


if __name__ == "__main__":
    simulate(sys.argv[1], sys.argv[2:])
