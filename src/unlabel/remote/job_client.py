"""The active party's way to the others over the engine: one job a session.

What the engine says of a job's state is not relied on: after a killed server it says "running" for
good. What counts is that the job's process has connected to the command's socket, with every party.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from unlabel.errors import WireError
from unlabel.link import ACTIVE_SOCKET, Door, close, unpack
from unlabel.remote.client import Away, PartyClient
from unlabel.remote.job import write_job
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import LEAD
from unlabel.remote.sealed_link import SealedLink

log = logging.getLogger("unlabel.job_client")

#: Seconds to wait for a job's process, before another job is tried with twice the time.
JOB_STARTS = 40.0
#: Seconds within which a party that is there is heard of.
HEARD = 20.0
#: Seconds of silence after which a party is down, whatever the engine says.
SILENT = 35.0
#: The newest jobs among which those are looked for that an earlier command left unfinished.
NEWEST = 10


class JobClient(PartyClient):
    """Starts jobs.

    jobs   that were started
    link   the connection to the newest
    job    writes the job for so many parties into a folder
    links  folder of this party's sockets
    """

    way = "the engine"
    remedy = (
        "The engine did not start a job with all parties; look whether `unlabel party start` runs "
        "at every party, of the same version of unlabel."
    )

    def __init__(
        self,
        kit: Kit,
        *,
        job: Callable[[Path, int], Path] = write_job,
        links: Path | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(kit, **settings)
        self.jobs: list[str] = []
        self.link: SealedLink | None = None
        self._session: Any = None
        self._door = Door(links or kit.links, ACTIVE_SOCKET)
        self._lost: dict[str, float] = {}
        self._write_job = job
        self._swept = False
        self._starts = JOB_STARTS

    def _prepare(self, lost: Sequence[str]) -> None:
        """End an earlier job; who was lost in it must have been heard of since."""
        self._lost = dict.fromkeys(lost, time.time())
        self._starts = JOB_STARTS
        self._abort()

    def _missing(self) -> list[str]:
        try:
            self._sweep()
            return self._away()
        except Away:
            self._leave()
            raise

    def _begin(self, least: int) -> bool:
        try:
            job = self._start(least, self._starts)
            if job is not None:
                link = SealedLink(self.kit, job, [p for p in self._parties if p not in self.absent])
                with _dropping(link):
                    link.shake()
                    self.link = link
                    self.transport.connect(link)
                    return True
        except Away:
            self._leave()
            raise
        self._abort()
        self._starts *= 2  # perhaps the machine is slow, and only needs more time
        return False

    @property
    def _parties(self) -> Sequence[str]:
        return self.transport.parties

    def close(self) -> None:
        """End the job and leave the engine."""
        super().close()
        self._leave()
        close(self._door)

    def _start(self, least: int, wait: float) -> Connection[bytes, bytes] | None:
        """Submit a job; return its process's connection, None where none comes within `wait` s."""
        folder = self._write_job(self.kit.admin / "transfer", least)
        with _engine():
            job = str(self._engine_session().submit_job(str(folder)))
        self.jobs.append(job)
        self.notify("Waiting for the parties to join a job ...")
        deadline = time.monotonic() + wait
        while (left := deadline - time.monotonic()) > 0:
            connection = self._door.accept(min(left, 1.0))
            if connection is None:
                if self._has_ended(job):
                    return None
                continue
            with contextlib.suppress(EOFError, OSError, WireError):
                if connection.poll(5.0):
                    hello, _ = unpack(connection.recv_bytes())
                    joined = hello.get("parties", ())
                    if hello.get("job") == job and len(joined) >= least:
                        self.absent = tuple(p for p in self.transport.parties if p not in joined)
                        return connection
            close(connection)  # of a job that this command has given up, or not of all parties
        return None

    def _away(self) -> list[str]:
        """Return the parties that the engine does not know of."""
        with _engine():
            clients = self._engine_session().get_connected_client_list()
        # The engine lists a party for minutes after it died. One that was lost counts as there
        # once it was heard of since, which happens every few seconds.
        heard = {client.name: float(client.last_connect_time or 0.0) for client in clients}
        now = time.time()
        return [
            party
            for party in self.transport.parties
            if party not in heard
            or heard[party] < now - SILENT
            or heard[party] < (since := self._lost.get(party, 0.0)) < now < since + HEARD
        ]

    def _has_ended(self, job: str) -> bool:
        """Return whether the engine has given a job up; that it runs means nothing."""
        with _engine():
            status = str(self._engine_session().get_job_status(job))
        return status.startswith("FINISHED")

    def _abort(self) -> None:
        """End the last job, whatever has become of it."""
        self.transport.connect(None)
        if self.jobs and self._session is not None:
            with contextlib.suppress(Away), _engine():
                self._session.abort_job(self.jobs[-1])

    def _sweep(self) -> None:
        """End jobs of earlier commands that never end by themselves, since a party died in them.

        The engine runs only so many at a time. No other command runs now: this one holds the kit.
        """
        if self._swept:
            return
        with _engine():
            known = self._engine_session().list_jobs(limit=NEWEST, reverse=True)
        for job in known:
            if not str(job.get("status", "")).startswith("FINISHED"):
                # After a killed server some count as running that nobody can stop any more.
                with contextlib.suppress(Away), _engine():
                    self._engine_session().abort_job(job["job_id"])
        self._swept = True

    def _engine_session(self) -> Any:
        if self._session is None:
            from nvflare.fuel.flare_api.flare_api import new_secure_session

            self._session = new_secure_session(
                LEAD,
                str(self.kit.admin),
                timeout=10.0,
                command_timeout=10.0,
                auto_login_max_tries=1,
            )
        return self._session

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Away), _engine():
                session.close()


@contextlib.contextmanager
def _dropping(link: SealedLink) -> Iterator[None]:
    """Close a connection over which the parties' own processes were not reached."""
    try:
        yield
    except (OSError, EOFError, WireError) as error:
        link.close()
        log.warning("the parties were not reached through the engine: %s", error)


@contextlib.contextmanager
def _engine() -> Iterator[None]:
    """Keep the engine's output off standard output, and raise its errors as one kind."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except Exception as error:  # it raises what it likes, from timeouts to KeyError
        raise Away(str(error).splitlines()[0] if str(error) else repr(error)) from error
