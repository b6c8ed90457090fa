"""Gradients that travel together with the next request: a training step costs one round trip.

    plain       Embed t -> embeddings    Gradients t -> done    Embed t+1 -> embeddings
    pipelined   Embed t -> embeddings    Gradients t, Embed t+1 -> done, embeddings

The answer to gradients says nothing but that they were taken, so nobody needs to wait for it. Each
party gets the same messages in the same order, and all weights are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unlabel.errors import PartyRefused, WireError
from unlabel.wire.codec import check
from unlabel.wire.messages import (
    AccumulateFisher,
    AccumulateUpdates,
    Done,
    Embed,
    Gradients,
    Message,
    Refused,
)
from unlabel.wire.transport import MOST_IN_TURN, Transport, refused

#: What is held back: requests of every step, to which `Done` is the only answer but a refusal.
HELD = (Gradients, AccumulateFisher, AccumulateUpdates)


class Pipelined(Transport):
    """Wraps any transport: gradients are held back and sent in one frame with the next `Embed`.

    Until then `Done` is answered in the parties' place. Every other request may keep something, so
    what is held goes out in a frame of its own before it. A refusal of what was held is raised by
    the call that sends it, under the party's name, and that call keeps nothing anywhere: with
    embeddings at most the other parties have answered in vain. Where a party gets lost, what was
    held is dropped: all return to a version then.

    What a partner sees does not depend on a label any more than without this: gradients come when
    the request after them is sent, which it sees anyway.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self._held: dict[str, list[Message]] = {}

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Hold gradients back; send anything else, what is held before it."""
        if requests and all(isinstance(message, HELD) for message in requests.values()):
            return self._hold(requests)
        if not self._held:
            return self._inner.exchange(requests)
        if not all(isinstance(message, Embed) for message in requests.values()):
            self.flush()
            return self._inner.exchange(requests)
        return self._send(requests)

    def exchange_in_turn(
        self, requests: Mapping[str, Sequence[Message]]
    ) -> dict[str, list[Message]]:
        """Deliver several requests to each named party, after what is held."""
        self.flush()
        return self._inner.exchange_in_turn(requests)

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            self._send({})
        self._inner.flush()

    def drop(self) -> None:
        """Forget what is held back: all parties return to a version."""
        self._held.clear()

    def _hold(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        for message in requests.values():
            check(message)  # what is wrong with it is said here, and not at the next request
        if any(len(messages) >= MOST_IN_TURN - 1 for messages in self._held.values()):
            self.flush()
        for party, message in requests.items():
            self._held.setdefault(party, []).append(message)
        return {party: Done(message.step) for party, message in requests.items()}

    def _send(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send what is held, and each party's request in one frame with it."""
        held, self._held = self._held, {}
        frames = {p: [*held.get(p, ()), *_own(requests, p)] for p in {**held, **requests}}
        answers = self._inner.exchange_in_turn(frames)
        refusals: list[PartyRefused] = []
        for party, messages in held.items():
            for answer in answers.get(party, [])[: len(messages)]:
                if isinstance(answer, Refused):
                    refusals.append(refused(party, answer))
                elif not isinstance(answer, Done):
                    raise WireError(f"Party '{party}' answered gradients with more than 'done'.")
        if refusals:
            raise refusals[0]
        for party, frame in frames.items():
            count = len(answers.get(party, ()))
            if count != len(frame):
                raise WireError(f"Party '{party}' sent {count} answers to {len(frame)} messages.")
        return {party: answers[party][-1] for party in requests}


def _own(requests: Mapping[str, Message], party: str) -> tuple[Message, ...]:
    return (requests[party],) if party in requests else ()
