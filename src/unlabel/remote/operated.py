"""A running party, as whoever runs it sees and stops it: its facts, control socket and metrics."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from unlabel.party.ledger import Ledger
from unlabel.remote.certificates import read_certificate
from unlabel.remote.control import Control
from unlabel.remote.health import Contact, PartyFacts
from unlabel.remote.kit import Kit
from unlabel.remote.metrics import Address, serving_metrics
from unlabel.remote.request_stats import RequestStats

log = logging.getLogger("unlabel.operated")

#: Seconds that an answer under way may take once the party is to stop: it is left undone then, as
#: it would be by a crash.
FINISH = 30.0


class Operated:
    """What is known of a running party.

    kit      of the party
    contact  tells how it stands with the others
    stats    what it was asked
    rows     tells how many rows all parties share
    ended    set once it is to stop
    """

    def __init__(
        self,
        kit: Kit,
        ended: threading.Event,
        contact: Callable[[], Contact],
        stats: RequestStats | None = None,
        rows: Callable[[], int] = lambda: 0,
    ) -> None:
        self.kit = kit
        self.ended = ended
        self.stats = stats or RequestStats()
        self._contact = contact
        self._rows = rows
        self._started = self._turned = time.time()

    def turn(self) -> None:
        """Note that the party's loop has come round."""
        self._turned = time.time()

    def facts(self) -> PartyFacts:
        """Return what the party's process knows of itself."""
        kit = self.kit
        ledger = Ledger(kit.home).path
        return PartyFacts(
            party=kit.name,
            is_active=kit.is_active,
            process=os.getpid(),
            started=self._started,
            turned=self._turned,
            contact=self._contact(),
            expected=tuple(kit.agreement.passive) if kit.is_active else (),
            certificate_ends=_certificate_ends(kit),
            disk_free=shutil.disk_usage(kit.state).free,
            versions=len(list((kit.home / "versions").glob("*.json"))),
            ledger_lines=ledger.read_bytes().count(b"\n") if ledger.exists() else 0,
            rows=self._rows(),
        )

    def stop(self) -> dict[str, int]:
        """Have the party stop after the answer under way."""
        self.ended.set()
        return {"process": os.getpid()}


@contextlib.contextmanager
def operating(operated: Operated, metrics: Address | None = None) -> Iterator[None]:
    """Answer on the control socket, and serve metrics where they are wanted, inside the block."""
    answers = {"facts": lambda: asdict(operated.facts()), "stop": operated.stop}
    with Control(operated.kit.links, answers), serving_metrics(operated, metrics):
        yield


def _certificate_ends(kit: Kit) -> float:
    """Return when the first of a party's certificates ends, by the files as they are now."""
    paths = (each.certificate for each in kit.credentials())
    return min(
        read_certificate(path).not_valid_after_utc.timestamp() for path in paths if path.exists()
    )


@contextlib.contextmanager
def stopping(ended: threading.Event) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM set an event inside the block, which then ends within `FINISH`."""
    done = threading.Event()

    def watch() -> None:
        ended.wait()
        if not done.wait(FINISH):
            log.warning("stopped in the middle of an answer, which took too long to finish")
            logging.shutdown()
            os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    threading.Thread(target=watch, name="stopping", daemon=True).start()
    try:
        yield
    finally:
        done.set()
