"""A command's way to the parties: a session with all of them, and another one where it breaks."""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from unlabel.errors import PartyLost
from unlabel.progress import Watch, watch_nothing
from unlabel.remote.kit import Kit
from unlabel.wire import Pipelined
from unlabel.wire.linked import LinkedTransport

log = logging.getLogger("unlabel.client")

#: Seconds for which what carries the messages may be away, or a party, before it counts as down.
PATIENCE = 90.0
#: The same where a command can do without some of the parties.
SHORT_PATIENCE = 20.0
#: Seconds after which the user is told who is waited for.
NOTICE = 15.0
#: A call about ids may take so many times as long as any other.
ALIGNING = 10

Notify = Callable[[str], None]


class Away(Exception):
    """What carries the messages does not answer, or not as it should."""


class PartyClient(ABC):
    """Begins sessions and hands their connections to a transport.

    kit        of the active party
    notify     is given what is waited for
    fewer      whether a session may begin without some of the parties, who are then `absent`
    sessions   how many were begun
    transport  the way to the parties, while there is a session
    pipelined  the same for who trains: gradients travel with the next request
    """

    #: What carries the messages, for people, and what they can do where it is away.
    way: str
    remedy: str
    #: Seconds between two looks at who is there.
    look = 0.5

    def __init__(
        self,
        kit: Kit,
        *,
        patience: float = PATIENCE,
        notify: Notify = log.info,
        fewer: bool = False,
    ) -> None:
        agreed = kit.agreement
        self.kit = kit
        self.transport = LinkedTransport(
            agreed.passive, timeout=agreed.timeout, largest=agreed.server.largest, way=self.way
        )
        self.pipelined = Pipelined(self.transport)
        self.notify = notify
        self.absent: tuple[str, ...] = ()
        self.busy: tuple[str, ...] = ()
        self.sessions = 0
        #: Told at every look who is waited for; what it raises ends the waiting.
        self.watch: Watch = watch_nothing
        self._patience = patience
        self._fewer = fewer

    def connect(self, lost: Sequence[str] = ()) -> None:
        """Begin a session with every party, or raise `PartyLost`; an earlier one is ended.

        Where fewer will do and some do not come soon, it begins without them.

        lost  who did not answer in the earlier session
        """
        self.absent = ()
        self.pipelined.drop()
        self.transport.connect(None)
        self._prepare(lost)
        if not self._fewer:
            self._connect(len(self.transport.parties), self._patience)
            return
        try:
            self._connect(len(self.transport.parties), min(SHORT_PATIENCE, self._patience))
        except PartyLost as error:
            self.notify(f"{error} Going on without.")
            self._connect(1, self._patience)

    def _connect(self, least: int, patience: float) -> None:
        """Begin a session with at least so many parties."""
        deadline = time.monotonic() + patience
        notice: float | None = deadline - patience + NOTICE
        missing: Sequence[str] = self.transport.parties
        while True:
            try:
                missing = self._missing()
                if len(self.transport.parties) - len(missing) >= least and self._begin(least):
                    self.sessions += 1
                    return
            except Away as away:
                log.info("away: %s", away)
                missing = ()
            if time.monotonic() > deadline:
                with contextlib.suppress(Away):
                    missing = missing or self._missing()
                raise PartyLost(self._who(missing), missing)
            if notice is not None and time.monotonic() > notice:
                notice = None
                left = deadline - time.monotonic()
                self.notify(f"{self._who(missing)} Waiting for up to {left:.0f} seconds more ...")
            self.watch(0, 1, self._who(missing))
            time.sleep(self.look)

    def _prepare(self, lost: Sequence[str]) -> None:  # noqa: B027 - not all have anything to do
        """Do what is to be done before a session."""

    @abstractmethod
    def _missing(self) -> list[str]:
        """Return the parties that are not there, or raise `Away`."""

    @abstractmethod
    def _begin(self, least: int) -> bool:
        """Try to begin a session with at least so many parties; return whether there is one."""

    def close(self) -> None:
        """End the session."""
        self.transport.connect(None)

    def _who(self, missing: Sequence[str]) -> str:
        if not missing:
            return self.remedy
        names = " and ".join(f"'{party}'" for party in missing)
        one = len(missing) == 1
        subject = f"Party {names} is" if one else f"Parties {names} are"
        if set(missing) <= set(self.busy):
            return f"{subject} still busy with an earlier request."
        return f"{subject} not connected; ask for `unlabel party start` to be run there."


@contextlib.contextmanager
def longer_calls(transport: LinkedTransport) -> Iterator[None]:
    """Give calls about ids more time: much is to be computed."""
    timeout = transport.timeout
    transport.timeout = timeout * ALIGNING
    try:
        yield
    finally:
        transport.timeout = timeout


def client_of(
    kit: Kit, notify: Notify, watch: Watch, *, fewer: bool = False, waits: bool = True
) -> PartyClient:
    """Return the way to the parties that the agreement names.

    watch  is told who is waited for
    waits  as long for parties that are away as a command does
    """
    from unlabel.remote.hub_client import HubClient
    from unlabel.remote.job_client import JobClient

    kind = HubClient if kit.agreement.server.carrier == "direct" else JobClient
    client = kind(kit, notify=notify, fewer=fewer, patience=PATIENCE if waits else SHORT_PATIENCE)
    client.watch = watch
    return client
