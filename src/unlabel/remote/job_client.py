"""The active party's way to the others: one job of the engine a command, another if it breaks.

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

from unlabel.errors import PartyLost, WireError
from unlabel.link import ACTIVE_SOCKET, accept, close, listen, unpack
from unlabel.remote.job import write_job
from unlabel.remote.kit import LEAD
from unlabel.wire.flare import FlareTransport

log = logging.getLogger("unlabel.job_client")

#: Seconds to wait for a job's process, before another job is tried with twice the time.
JOB_STARTS = 40.0
#: Seconds for which the engine may be away, or a party, before it counts as down.
PATIENCE = 90.0
#: The same where a command can do without some of the parties.
SHORT_PATIENCE = 20.0
#: Seconds within which a party that is there is heard of.
HEARD = 20.0
#: Seconds of silence after which a party is down, whatever the engine says.
SILENT = 35.0
#: The newest jobs among which those are looked for that an earlier command left unfinished.
NEWEST = 10
#: Seconds after which the user is told who is waited for.
NOTICE = 15.0
#: A call about ids may take so many times as long as any other.
ALIGNING = 10
#: Seconds between two looks at who is there.
LOOK = 0.5

Notify = Callable[[str], None]


class JobClient:
    """Starts jobs and hands their connections to a transport.

    admin    folder with the certificate of the user who may start jobs
    links    folder of this party's sockets
    parties  names of the passive parties, all of whom are needed
    notify   is given what is waited for
    job      writes the job for so many parties into a folder
    fewer    whether a job may begin without some of them, who are then `absent`
    """

    def __init__(
        self,
        admin: Path,
        links: Path,
        parties: Sequence[str],
        *,
        timeout: float,
        patience: float = PATIENCE,
        notify: Notify = log.info,
        job: Callable[[Path, int], Path] = write_job,
        fewer: bool = False,
    ) -> None:
        self.transport = FlareTransport(parties, timeout=timeout)
        self.jobs: list[str] = []
        self._admin = admin
        self._patience = patience
        self.notify = notify
        self._session: Any = None
        self._listener = listen(links, ACTIVE_SOCKET)
        self.absent: tuple[str, ...] = ()
        self._fewer = fewer
        self._lost: dict[str, float] = {}
        self._write_job = job
        self._swept = False

    def connect(self, lost: Sequence[str] = ()) -> None:
        """Start a job with every party in it, or raise `PartyLost`; an earlier job is ended.

        Where fewer will do and some do not join soon, the job begins without them.

        lost  who did not answer in the earlier job: they must have been heard of since
        """
        self.absent = ()
        self._lost = dict.fromkeys(lost, time.time())
        if not self._fewer:
            self._connect(len(self.transport.parties), self._patience)
            return
        try:
            self._connect(len(self.transport.parties), min(SHORT_PATIENCE, self._patience))
        except PartyLost as error:
            self.notify(f"{error} Going on without.")
            self._connect(1, self._patience)

    def _connect(self, least: int, patience: float) -> None:
        """Start a job with at least so many parties in it."""
        self._job_folder = self._write_job(self._admin / "transfer", least)
        self._abort()
        deadline = time.monotonic() + patience
        notice: float | None = deadline - patience + NOTICE
        missing: Sequence[str] = self.transport.parties
        starts = JOB_STARTS
        while True:
            try:
                self._sweep()
                missing = self._away()
                if len(self.transport.parties) - len(missing) >= least:
                    connection = self._start(least, starts)
                    if connection is not None:
                        self.transport.connect(connection)
                        return
                    self._abort()
                    starts *= 2  # perhaps the machine is slow, and only needs more time
            except _EngineAway as away:
                self._leave()
                log.info("the engine is away: %s", away)
                missing = ()
            if time.monotonic() > deadline:
                with contextlib.suppress(_EngineAway):
                    missing = missing or self._away()
                raise PartyLost(_who(missing), missing)
            if notice is not None and time.monotonic() > notice:
                notice = None
                left = deadline - time.monotonic()
                self.notify(f"{_who(missing)} Waiting for up to {left:.0f} seconds more ...")
            time.sleep(LOOK)

    def close(self) -> None:
        """End the job and leave the engine."""
        self.transport.connect(None)
        self._leave()
        close(self._listener)

    def _start(self, least: int, wait: float) -> Connection[bytes, bytes] | None:
        """Submit a job; return its process's connection, None where none comes within `wait` s."""
        with _engine():
            job = str(self._engine_session().submit_job(str(self._job_folder)))
        self.jobs.append(job)
        self.notify("Waiting for the parties to join a job ...")
        deadline = time.monotonic() + wait
        while (left := deadline - time.monotonic()) > 0:
            connection = accept(self._listener, min(left, 1.0))
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
            with contextlib.suppress(_EngineAway), _engine():
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
                with contextlib.suppress(_EngineAway), _engine():
                    self._engine_session().abort_job(job["job_id"])
        self._swept = True

    def _engine_session(self) -> Any:
        if self._session is None:
            from nvflare.fuel.flare_api.flare_api import new_secure_session

            self._session = new_secure_session(
                LEAD, str(self._admin), timeout=10.0, command_timeout=10.0, auto_login_max_tries=1
            )
        return self._session

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(_EngineAway), _engine():
                session.close()


@contextlib.contextmanager
def longer_calls(transport: FlareTransport) -> Iterator[None]:
    """Give calls about ids more time: much is to be computed."""
    timeout = transport.timeout
    transport.timeout = timeout * ALIGNING
    try:
        yield
    finally:
        transport.timeout = timeout


class _EngineAway(Exception):
    """The engine does not answer, or not as it should."""


@contextlib.contextmanager
def _engine() -> Iterator[None]:
    """Keep the engine's output off standard output, and raise its errors as one kind."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except Exception as error:  # it raises what it likes, from timeouts to KeyError
        raise _EngineAway(str(error).splitlines()[0] if str(error) else repr(error)) from error


def _who(missing: Sequence[str]) -> str:
    if not missing:
        return (
            "The engine did not start a job with all parties; look whether `unlabel party start` "
            "runs at every party, of the same version of unlabel."
        )
    names = " and ".join(f"'{party}'" for party in missing)
    subject = f"Party {names} is" if len(missing) == 1 else f"Parties {names} are"
    return f"{subject} not connected; ask for `unlabel party start` to be run there."
