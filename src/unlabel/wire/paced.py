"""Messages that leave at fixed times, whatever was computed between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from unlabel.wire.messages import Message
from unlabel.wire.transport import Transport

#: Sleeps until a time has passed; returns True where it was interrupted.
Sleep = Callable[[float], bool | None]
#: Seconds before a moment at which to stop sleeping; sleeps end later, but hardly by as much.
AWAKE = 0.002


def wait_until(
    moment: float, *, clock: Callable[[], float] = time.monotonic, sleep: Sleep = time.sleep
) -> bool:
    """Return at a moment of the clock, however long that takes, or at once where it has passed.

    A sleep ends the later the longer it was, so what is left of a wait would show in microseconds
    how much was done before it. Therefore the clock is watched at the end. Returns True, and at
    once, where the sleep was interrupted.
    """
    if sleep(max(0.0, moment - AWAKE - clock())):
        return True
    while clock() < moment:
        pass
    return False


class Paced(Transport):
    """Wraps any transport: messages leave at multiples of a pace since it was made.

    A message is due at the first multiple that is at least half a pace after the last answers came.
    So work that takes less than that shows in no time, whenever the partners choose to answer. A
    message that is not ready then leaves at the next multiple at which it is, and is counted.

    pace  in seconds; 0 has every message leave at once
    late  how many messages were not ready when they were due
    """

    def __init__(
        self,
        inner: Transport,
        pace: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        super().__init__(inner.parties)
        self.late = 0
        self._inner = inner
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._answered: float | None = self._began

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Pass the requests on when they are due."""
        self.wait()
        # Where a party gets lost nothing is due: that it is waited for is no work of ours.
        self._answered = None
        answers = self._inner.exchange(requests)
        self._answered = self._clock()
        return answers

    def flush(self) -> None:
        """Have sent what is held back, when it is due."""
        self.wait()
        self._inner.flush()

    def wait(self) -> None:
        """Wait until the next message is due, as if there were one."""
        if not self._pace:
            return
        ready = math.ceil((self._clock() - self._began) / self._pace)
        leaves = ready
        if self._answered is not None:
            due = math.ceil((self._answered - self._began) / self._pace + 0.5)
            self.late += ready > due
            leaves = max(ready, due)
        wait_until(self._began + leaves * self._pace, clock=self._clock, sleep=self._sleep)
