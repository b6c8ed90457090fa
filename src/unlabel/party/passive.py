"""A passive party: features, a bottom model, and a policy about what leaves the house."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from unlabel.data import ACTIVE
from unlabel.errors import PartyRefused, Refusal, WireError, refusal_of
from unlabel.party.bottom import Bottom
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.lateness import Backlog, Pending
from unlabel.party.ledger import Ledger
from unlabel.party.policy import Guard, Policy
from unlabel.party.protocols import Filter, Filters, handler_of
from unlabel.wire import Limits, Message, Refused, Transcript, decode, encode, kind_of
from unlabel.wire.codec import DEFAULT_LIMITS, check
from unlabel.wire.messages import MAX_TEXT

log = logging.getLogger("unlabel.party")

#: What a party answers while it does not know yet which of its rows the others have too.
UNALIGNED = ("Describe", "Match", "Offer", "Common", "Status", "Attest")
FAILED = "it failed to answer, and its own log says why."


@dataclass(frozen=True)
class Open:
    """A request to forget under way, and the state to return to if nothing comes of it."""

    request: str
    before: dict[str, Tensor]


class Aligning(Protocol):
    """Whoever knows which of a party's rows all parties share (see `align.people`)."""

    @property
    def digest(self) -> str:
        """The digest of the common ids, empty as long as the rows are not aligned."""


class PassiveParty:
    """Answers messages: `handle` as objects, `serve` as bytes.

    The party owns its bottom (features, model, optimiser), its policy and its folder of versions;
    nobody else touches them. What it may be asked is decided by its policy, what an answer looks
    like by the handler registered for the kind of message, and what finally goes out by its
    filters. A party that is given `people` serves no rows before they are aligned, and one that may
    be `late` keeps so many more batches that await their gradients.
    """

    def __init__(
        self,
        name: str,
        bottom: Bottom,
        *,
        width: int,
        policy: Policy | None = None,
        store: CheckpointStore | None = None,
        filters: Sequence[Filter] = (),
        filter_seed: int | None = None,
        transcript: Transcript | None = None,
        limits: Limits = DEFAULT_LIMITS,
        people: Aligning | None = None,
        agreed: str = "",
        late: int = 0,
    ) -> None:
        self.name = name
        self.bottom = bottom
        self.width = width
        self.guard = Guard(policy or Policy())
        self.store = store
        self.filters = Filters(name, tuple(filters), filter_seed)
        self.transcript = transcript
        self.limits = limits
        self.people = people
        self.agreed = agreed
        self.ledger = Ledger(store.home) if store is not None else None
        self.backlog = Backlog(late)
        self.open: Open | None = None

    def handle(self, message: Message) -> Message:
        """Answer one message; what the policy forbids is refused with a reason and logged.

        Whatever goes wrong inside is a refusal too: the log says what, the answer does not.
        """
        try:
            check(message)
            return self._answer(message)
        except (WireError, PartyRefused) as error:
            return self._refuse(message, str(error), refusal_of(error))
        except Exception:
            log.exception("%s failed to answer", self.name)
            return self._refuse(message, FAILED, "failed")

    def _answer(self, message: Message) -> Message:
        if self.transcript is not None:
            self.transcript.log("received", message)
        try:
            self.guard.check_kind(message)
            self._expect_aligned(message)
            handler = handler_of(type(message))
            if handler is None:
                raise PartyRefused(f"'{kind_of(message)}' is not a request.", "unknown-message")
            answer = handler(self, message)
        except PartyRefused as error:
            answer = self._refuse(message, str(error), error.code)
        answer = self.filters(answer, ACTIVE)
        if self.transcript is not None:
            self.transcript.log("sent", answer)
        return answer

    @property
    def pending(self) -> Pending | None:
        """The embeddings sent last that await their gradients; None lets all go."""
        return self.backlog.newest

    @pending.setter
    def pending(self, pending: Pending | None) -> None:
        if pending is None:
            self.backlog.clear()
        else:
            self.backlog.add(pending)

    @property
    def waits(self) -> bool:
        """Whether it is not known yet which of the party's rows all parties share."""
        return self.people is not None and not self.people.digest

    def _expect_aligned(self, message: Message) -> None:
        """Refuse what needs rows as long as it is not known which rows the parties share."""
        if self.waits and kind_of(message) not in UNALIGNED:
            raise PartyRefused(
                "its rows are not aligned with the others' yet; align them first.", "not-aligned"
            )

    def serve(self, data: bytes) -> bytes:
        """Answer one message over a network: encode(handle(decode(data)))."""
        try:
            message = decode(data, self.limits)
        except WireError as error:
            log.warning("%s refused %d bytes: %s", self.name, len(data), error)
            return encode(Refused(0, str(error), refusal_of(error)))
        return encode(self.handle(message))

    def _refuse(self, message: Message, reason: str, code: Refusal) -> Refused:
        log.warning("%s refused %s: %s", self.name, kind_of(message), reason)
        step = getattr(message, "step", 0)
        return Refused(step if type(step) is int and step >= 0 else 0, reason[:MAX_TEXT], code)
