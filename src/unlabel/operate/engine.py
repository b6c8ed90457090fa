"""The engine's process at one party: started, watched, started again when it dies, ended.

NVIDIA FLARE runs a parent process at every site, which starts another one for each job. Their own
scripts would do the watching too, but wait five seconds before anything and know nothing of the
processes that a killed parent leaves behind; those hold ports, and answer for the dead.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from unlabel.errors import RunError
from unlabel.link import LINKS
from unlabel.operate.port import expect_free, port_of
from unlabel.operate.tidy import tidy

log = logging.getLogger("unlabel.engine")

#: Seconds to wait before a dead engine is started again; longer each time it dies young.
WAITS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: An engine that lived so many seconds was well, and is started again at once.
WELL = 60.0
#: Deaths in a row, each within `WELL` seconds, after which something is wrong for good.
TRIES = 20
#: Bytes at which the log is put aside when the engine is started.
FULL = 5 * 2**20
#: Seconds between two looks at what past jobs left behind.
TIDY = 600.0
#: Lines at the end of the engine's log in which a reason is looked for.
LAST_LINES = 60

#: Seconds after which a port of processes that were ended is free again.
ENDING = 5.0
NO_ENGINE = (
    "Taking part in a federation needs NVIDIA FLARE, which is not installed here; install it with "
    "`pip install unlabel[federation]`."
)

#: What the engine writes where it cannot start, and what that means.
REASONS = {
    "address already in use": "its port is in use by another program",
    "certificate has expired": "a certificate has expired; see `unlabel federation renew`",
    "certificate verify failed": "a certificate is not of this federation's authority",
    "not yet valid": "a certificate is not valid yet; compare the clocks",
}


class Engine:
    """Keeps the engine of one party running.

    folder   the site's own folder, with what it needs to start
    role     "server" at the active party, "client" at the others
    site     the name of the party
    links    folder of the lines to the party's own process
    log_file where the engine's words go
    tidied   folders in which every job leaves one of its own
    """

    def __init__(
        self,
        folder: Path,
        role: str,
        site: str,
        *,
        links: Path,
        log_file: Path,
        tidied: Sequence[Path] = (),
        told: Callable[[str], None] = log.warning,
    ) -> None:
        self.folder = folder.resolve()
        self.role = role
        self.site = site
        self.links = links
        self.log_file = log_file
        self.tidied = tuple(tidied)
        self.told = told
        self.restarts = 0
        self.failed: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        """Start the engine, and a thread that starts it again when it dies."""
        if importlib.util.find_spec("nvflare") is None:
            raise RunError(NO_ENGINE)
        leftovers = list(self.processes())
        if leftovers:
            self.told(f"Ending {len(leftovers)} processes that an earlier start left behind.")
            end(leftovers)
        if self.role == "server":
            expect_free(port_of(self.folder), patience=ENDING if leftovers else 0.0)
        self._spawn()
        self._watcher = threading.Thread(target=self._watch, name="engine", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End the engine and all it started."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
        end(list(self.processes()))
        if self._watcher is not None:
            self._watcher.join(timeout=10)

    def is_alive(self) -> bool:
        """Return whether the engine's parent process runs."""
        return self._process is not None and self._process.poll() is None

    def processes(self) -> Iterator[int]:
        """Yield the ids of this engine's processes, the parent's and those of jobs."""
        for numbers in processes_of(self.folder).values():
            yield from numbers

    def _spawn(self) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.stat().st_size > FULL:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        said = self.log_file.open("ab")
        environment = {
            **os.environ,
            LINKS: str(self.links),
            # The engine's processes compute nothing; threads of theirs would only be in the way.
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "4",
        }
        # Code is taken from where this program was installed, never from the folder it runs in.
        environment["PYTHONSAFEPATH"] = "1"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", *self._module()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=lambda: end_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            raise RunError(f"The engine cannot be started ({error.strerror}).") from error
        finally:
            said.close()

    def _module(self) -> list[str]:
        place = "nvflare.private.fed.app"
        own = [f"uid={self.site}"] if self.role == "client" else []
        return [
            f"{place}.{self.role}.{self.role}_train",
            *("-m", str(self.folder), "-s", f"fed_{self.role}.json"),
            *("--set", "secure_train=true", *own, f"org={self.site}", "config_folder=config"),
        ]

    def _watch(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            assert self._process is not None
            code = self._wait(self._process)
            if self._stopping.is_set():
                return
            deaths = 1 if time.monotonic() - began > WELL else deaths + 1
            reason = self.reason()
            detail = f": {reason}" if reason else ""
            if deaths > TRIES:
                self.failed = f"The engine ended {TRIES} times in a row{detail}."
                self.told(self.failed)
                return
            self.told(f"The engine ended (code {code}){detail}; starting it again.")
            end(list(self.processes()))
            if self._stopping.wait(WAITS[min(deaths, len(WAITS)) - 1]):
                return
            self._spawn()
            self.restarts += 1

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until the engine ends, tidying up behind it now and then."""
        while True:
            for folder in self.tidied:
                tidy(folder)
            try:
                return process.wait(timeout=TIDY)
            except subprocess.TimeoutExpired:
                continue

    def reason(self) -> str | None:
        """Return in words what the end of the engine's log complains of, if it is known."""
        with contextlib.suppress(OSError):
            data = self.log_file.read_bytes()[-20_000:]
            last = data.decode(errors="replace").lower().splitlines()[-LAST_LINES:]
            for mark, meaning in REASONS.items():
                if any(mark in line for line in last):
                    return meaning
        return None


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
#: Linux' prctl option by which a process is told to end when the one that started it does.
_PARENT_DEATH_SIGNAL = 1


def end_with_parent(number: int) -> None:
    """Have this process get a signal when the one that started it ends, where the system can.

    An engine without its party has nobody left to answer.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, number)


def processes_of(folder: Path) -> dict[str, list[int]]:
    """Return the ids of the engine's processes for a folder: the `parent`, and those of a `job`.

    They are known by their command line, which names the folder: also where whoever started them
    is gone.
    """
    import psutil

    found: dict[str, list[int]] = {"parent": [], "job": []}
    place, own = str(folder.resolve()), os.getuid()
    for process in psutil.process_iter(["pid", "uids", "cmdline"]):
        line, uids = process.info["cmdline"] or [], process.info["uids"]
        module = next((part for part in line if part.startswith("nvflare.")), "")
        if place in line and module and uids is not None and uids.real == own:
            found["parent" if module.endswith("_train") else "job"].append(int(process.info["pid"]))
    return found


def end(processes: list[int]) -> None:
    """End processes by their ids, at once."""
    for number in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
