"""Slow links, for `late-parties`: a party that is behind, and the time that waiting takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from unlabel.party import PassiveParty
from unlabel.wire import Done, Embed, Gradients, Message, Refused


@dataclass
class Behind:
    """An endpoint in front of a passive party, whose link brings gradients `steps` steps late.

    What it is asked for in between is answered with the weights it has, though the active party
    takes every answer for a new one. Whatever else is asked waits until all gradients are there.
    """

    party: PassiveParty
    steps: int
    _waiting: deque[Gradients] = field(default_factory=deque)

    def handle(self, message: Message) -> Message:
        """Answer a message."""
        if isinstance(message, Gradients):
            self._waiting.append(message)
            return self._catch_up(self.steps) or Done(message.step)
        if not isinstance(message, Embed):
            return self._catch_up(0) or self.party.handle(message)
        return self.party.handle(message)

    def _catch_up(self, left: int) -> Message | None:
        """Hand over all gradients but the last `left`; return a refusal, if one is refused."""
        while len(self._waiting) > left:
            answer = self.party.handle(self._waiting.popleft())
            if isinstance(answer, Refused):
                self._waiting.clear()
                return answer
        return None

    def serve(self, data: bytes) -> bytes:
        """Answer bytes; a bench hands messages over as they are."""
        return self.party.serve(data)


def draw_delays(parties: int, steps: int, *, spread: float, seed: int) -> np.ndarray:
    """Return the time of each answer, [steps, parties, 2], log-normal with mean 1.

    spread  standard deviation of the logarithm; 0 is a party that always takes as long
    """
    random = np.random.default_rng(seed)
    normal = random.standard_normal((steps, parties, 2))
    return np.asarray(np.exp(spread * normal - spread**2 / 2))


def time_of(delays: np.ndarray, late: int, own: float) -> float:
    """Return the time a training takes whose parties answer after these delays.

    Party k works through its messages in their order: batch t + s, gradients of t, batch t + s + 1.
    With A(t) when the active party is done with step t, which costs it `own`, E_k(t) when party k
    has embedded batch t and G_k(t) when it has learned from it:

        E_k(t + s) = max(A(t - 1), G_k(t - 1)) + delay       A(t) = max(A(t - 1), E_k(t)) + own
        G_k(t)     = max(A(t), E_k(t + s)) + delay

    where the first s + 1 batches are asked for at once. In step, s = 0, everybody waits for all:
    E_k(t) begins when every G_k(t - 1) is done.

    >>> delays = np.ones((3, 1, 2))
    >>> time_of(delays, 0, 1.0)  # three steps of asking, computing and learning
    9.0
    >>> time_of(delays, 1, 1.0)
    6.0
    """
    steps, parties, _ = delays.shape
    embedded = np.zeros((steps, parties))
    free = np.zeros(parties)  # when each party has worked off what it was sent so far
    done, asked = 0.0, 0
    for step in range(steps):
        if late == 0:
            free[:] = free.max()
        while asked < min(step + late + 1, steps):
            free = np.maximum(free, done) + delays[asked, :, 0]
            embedded[asked] = free
            asked += 1
        done = max(done, float(embedded[step].max())) + own
        free = np.maximum(free, done) + delays[step, :, 1]
    return float(free.max())
