"""The engine's process at one party: started, restarted when it dies, ended, cleaned up after.

NVIDIA FLARE runs a parent process at every site, which starts another one for each job. Its own
scripts would restart it too, but wait five seconds before anything and know nothing of the
processes that a killed parent leaves behind; those hold ports, and answer for the dead.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from unlabel.errors import RunError
from unlabel.link import LINKS
from unlabel.remote.engine_files import write_engine_files
from unlabel.remote.kit import Kit

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
CLEAN_EVERY = 600.0

#: What the engine writes where it cannot start, and what that means.
REASONS = {
    "address already in use": "its port is in use by another program",
    "certificate has expired": "a certificate has expired; see `unlabel federation renew`",
    "certificate verify failed": "a certificate is not of this federation's authority",
    "not yet valid": "a certificate is not valid yet; compare the clocks",
}


class Engine:
    """Keeps the engine of one party running.

    kit       of the party
    notify    is given what the party's operator should know
    log_file  of the engine's output
    restarts  how often it was started again
    failed    why it is not started again
    """

    def __init__(self, kit: Kit, notify: Callable[[str], None] = log.warning) -> None:
        self.kit = kit
        self.notify = notify
        self.log_file = kit.logs / "engine.log"
        self.restarts = 0
        self.failed: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        """Start the engine, and a thread that starts it again when it dies."""
        leftovers = list(self.processes())
        if leftovers:
            self.notify(f"Ending {len(leftovers)} processes that an earlier start left behind.")
            end(leftovers)
        if self.kit.is_active:
            # The port of processes that were ended is free again after some seconds.
            expect_free(self.kit.port, patience=5.0 if leftovers else 0.0)
        write_engine_files(self.kit)
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

    def is_connected(self) -> bool:
        """Return whether the parent process listens for the others, or is connected to who does."""
        import psutil

        with contextlib.suppress(psutil.Error):
            process = None if self._process is None else psutil.Process(self._process.pid)
            for each in process.net_connections(kind="tcp") if process is not None else ():
                if self.kit.is_active:
                    if each.status == psutil.CONN_LISTEN and each.laddr.port == self.kit.port:
                        return True
                elif each.status == psutil.CONN_ESTABLISHED and each.raddr.port == self.kit.port:
                    return True
        return False

    def processes(self) -> Iterator[int]:
        """Yield the ids of this engine's processes, the parent's and those of jobs."""
        for numbers in processes_of(self.kit.engine).values():
            yield from numbers

    def _spawn(self) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.stat().st_size > FULL:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        environment = {
            **os.environ,
            LINKS: str(self.kit.links),
            # The engine's processes compute nothing; threads of theirs would only be in the way.
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "4",
            # Code is taken from where this program was installed, never from the folder it runs in.
            "PYTHONSAFEPATH": "1",
        }
        with self.log_file.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-u", "-m", *self._module()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    cwd=self.kit.engine,
                    start_new_session=True,
                    preexec_fn=lambda: end_with_parent(signal.SIGKILL),
                )
            except OSError as error:
                raise RunError(f"The engine cannot be started ({error.strerror}).") from error

    def _module(self) -> list[str]:
        site, role = self.kit.name, "server" if self.kit.is_active else "client"
        client = [] if self.kit.is_active else [f"uid={site}"]
        return [
            f"nvflare.private.fed.app.{role}.{role}_train",
            *("-m", str(self.kit.engine), "-s", f"fed_{role}.json"),
            *("--set", "secure_train=true", *client, f"org={site}", "config_folder=config"),
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
                self.notify(self.failed)
                return
            self.notify(f"The engine ended (code {code}){detail}; starting it again.")
            end(list(self.processes()))
            if self._stopping.wait(WAITS[min(deaths, len(WAITS)) - 1]):
                return
            try:
                self._spawn()
                self.restarts += 1
            except (OSError, RunError) as error:  # the one that ended is met again: one more try
                self.notify(str(error))

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until the engine ends, removing what past jobs left now and then."""
        while True:
            for folder in (self.kit.engine, self.kit.engine / "jobs"):
                remove_old_jobs(folder)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=CLEAN_EVERY)

    def reason(self) -> str | None:
        """Return what the end of the engine's log complains of, where that is known."""
        with contextlib.suppress(OSError):
            data = self.log_file.read_bytes()[-20_000:]
            last = "\n".join(data.decode(errors="replace").lower().splitlines()[-60:])
            return next((meaning for mark, meaning in REASONS.items() if mark in last), None)
        return None


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
#: Linux' prctl option: the signal that a process gets when the one that started it ends.
_PARENT_DEATH_SIGNAL = 1


def end_with_parent(number: int) -> None:
    """Have this process get a signal when the one that started it ends, where the system can.

    An engine without its party has nobody left to answer.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, number)


def processes_of(folder: Path) -> dict[str, list[int]]:
    """Return the ids of the engine's processes for a folder: the `parent`, and those of a `job`.

    They are known by their command line, which names the folder, also where whoever started them
    has ended.
    """
    import psutil

    numbers: dict[str, list[int]] = {"parent": [], "job": []}
    for process in psutil.process_iter(["pid", "uids", "cmdline"]):
        command, uids = process.info["cmdline"] or [], process.info["uids"]
        module = next((part for part in command if part.startswith("nvflare.")), "")
        is_ours = uids is not None and uids.real == os.getuid()
        if is_ours and module and str(folder.resolve()) in command:
            kind = "parent" if module.endswith("_train") else "job"
            numbers[kind].append(int(process.info["pid"]))
    return numbers


def end(processes: list[int]) -> None:
    """End processes by their ids, at once."""
    for number in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def expect_free(port: int, *, patience: float = 0.0) -> None:
    """Raise where another program listens on a port.

    The engine itself would not notice: it shares its port with whoever is willing to share, and
    then either of the two gets a part of the calls.
    """
    deadline = time.monotonic() + patience
    while True:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("", port))
                tried.listen(1)
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"Port {port} cannot be listened on ({error.strerror}); end the program "
                        f"that uses it, or set the federation up with another `server.port`.",
                        code="in-use",
                    ) from error
        time.sleep(0.1)


def remove_old_jobs(folder: Path, keep: int = 5) -> None:
    """Remove the folders of all jobs but the newest: a party serves for months.

    keep  how many stay, for whoever looks into what went wrong
    """
    with contextlib.suppress(OSError):  # one that is in use is removed the next time
        jobs = [path for path in folder.glob("*-*-*-*-*") if path.is_dir() and _is_job(path.name)]
        jobs.sort(key=lambda path: path.stat().st_mtime)
        for path in jobs[: max(0, len(jobs) - keep)]:
            shutil.rmtree(path)


def _is_job(name: str) -> bool:
    """Return whether a folder is named as the engine names jobs: by a UUID.

    >>> _is_job("175c3057-1537-4d69-be71-b9286f5adae8"), _is_job("a-b-c-d-e")
    (True, False)
    """
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
