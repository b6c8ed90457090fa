"""A passive party: features, a bottom model, and a policy about what it sends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from unlabel.config import Policy
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, PartyRefused, Refusal, RunError, WireError, refusal_of
from unlabel.events import note
from unlabel.party.bottom import Bottom
from unlabel.party.budget import Budget
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger
from unlabel.party.policy import Guard
from unlabel.party.protocols import Filter, Filters, handler_of
from unlabel.wire import Limits, Message, Mode, Refused, Transcript, decode, encode, kind_of
from unlabel.wire.codec import DEFAULT_LIMITS, check
from unlabel.wire.messages import MAX_TEXT

if TYPE_CHECKING:
    from unlabel.party.label_free import LabelFreePart

log = logging.getLogger("unlabel.party")

#: What a party answers while it does not know yet which of its rows the others have too.
UNALIGNED = ("Describe", "Match", "Offer", "Common", "Status", "Attest")
#: What is noted with a version of a bottom that is being made without labels, and with no other.
RECEIVED = "gradients"
#: What changes a party's state beyond a step of training: each leaves a line in the log.
NOTED = (
    *("Prepare", "Save", "Restore", "RetainVersions", "BeginLabelFree", "Freeze"),
    *("BeginRequest", "TransformWeights", "Stage", "Commit", "Rollback", "Purge"),
    *("Match", "Common", "Attest", "AttestBase"),
)
FAILED = "it failed to answer, and its own log says why."


@dataclass(frozen=True)
class OpenRequest:
    """A request to forget under way, and the state to return to if nothing comes of it."""

    request: str
    before: dict[str, Tensor]


class Aligning(Protocol):
    """Which of a party's rows all parties share (see `align.people`)."""

    @property
    def digest(self) -> str:
        """The digest of the common ids, empty as long as the rows are not aligned."""


@dataclass(frozen=True)
class SentEmbeddings:
    """Embeddings that were sent in training and await their gradients."""

    step: int
    embeddings: Tensor
    mode: Mode = "train"


class PassiveParty:
    """Answers messages: `handle` as objects, `serve` as bytes.

    The party owns its bottom (features, model, optimiser), its policy and its folder of versions.
    The policy decides which requests it answers, the handler registered for a kind of message how,
    and its filters what finally goes out. With `people` it serves no rows before they are aligned.
    With `label_free` its bottom is made without labels first.

    agreed_steps   most steps of a training over so many rows, where that was agreed
    steps_left     of the training that was announced, None where nothing bounds them
    first_version  number of the first version; above 0 only where another run is replaced
    base           the version that its weights stem from, -1 before one was saved or returned to
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
        agreement: str = "",
        label_free: LabelFreePart | None = None,
        agreed_steps: Callable[[int], int] | None = None,
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
        self.agreement = agreement
        self.label_free = label_free
        self.agreed_steps = agreed_steps
        # Where an agreement bounds them, none is taken before a training was announced.
        self.steps_left = None if agreed_steps is None else 0
        home = store.home if store is not None else None
        self.budget = Budget(self.guard.policy, home)
        self.ledger = Ledger(store.home) if store is not None else None
        self.first_version = 0
        self.base = -1
        self.sent_embeddings: SentEmbeddings | None = None
        self.open_request: OpenRequest | None = None

    @property
    def is_unaligned(self) -> bool:
        """Whether it is not known yet which of the party's rows all parties share."""
        return self.people is not None and not self.people.digest

    def required_store(self) -> CheckpointStore:
        """Return the party's store of versions, or refuse what needs one."""
        if self.store is None:
            raise PartyRefused("it has no folder to keep versions in.", "wrong-request")
        return self.store

    def newest_version(self) -> int:
        """Return the number of the newest version, one below the first where there is none.

        Those of the making of a bottom that is kept for good since do not count: training with
        labels begins anew.
        """
        store = self.required_store()
        for version in reversed(store.versions()):
            if not self.bottom.is_frozen or RECEIVED not in store.facts(version):
                return version
        return self.lowest_version - 1

    @property
    def lowest_version(self) -> int:
        """The first version's number; those of bottoms made without labels begin with 1."""
        is_made_now = self.label_free is not None and not self.bottom.is_frozen
        return 1 if is_made_now else self.first_version

    def flush_transcript(self) -> None:
        """Write the transcript to its file: a request may be far smaller than a block of it."""
        if self.transcript is not None:
            self.transcript.flush()

    def serve(self, data: bytes) -> bytes:
        """Answer one message over a network: encode(handle(decode(data)))."""
        try:
            message = decode(data, self.limits)
        except WireError as error:
            log.warning("%s refused %d bytes: %s", self.name, len(data), error)
            note("refused", self.name, code=refusal_of(error), bytes=len(data))
            return encode(Refused(0, str(error), refusal_of(error)))
        return encode(self.handle(message))

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
            self.guard.check_kind(kind_of(message))
            if self.is_unaligned and kind_of(message) not in UNALIGNED:
                raise PartyRefused(
                    "its rows are not aligned with the others' yet; align them first.",
                    "not-aligned",
                )
            handler = handler_of(type(message))
            if handler is None:
                raise PartyRefused(f"'{kind_of(message)}' is not a request.", "unknown-message")
            answer = handler(self, message)
            if kind_of(message) in NOTED:
                version = getattr(message, "version", None)
                details = {} if version is None else {"version": version}
                note("served", self.name, kind=kind_of(message), **details)
        except (PartyRefused, CheckpointError, RunError) as error:
            answer = self._refuse(message, _reason(error), refusal_of(error))
        answer = self.filters(answer, ACTIVE)
        if self.transcript is not None:
            self.transcript.log("sent", answer)
        return answer

    def _refuse(self, message: Message, reason: str, code: Refusal) -> Refused:
        log.warning("%s refused %s: %s", self.name, kind_of(message), reason)
        note("refused", self.name, kind=kind_of(message), code=code)
        step = getattr(message, "step", 0)
        return Refused(step if type(step) is int and step >= 0 else 0, reason[:MAX_TEXT], code)


def _reason(error: Exception) -> str:
    """Return why a party refuses, without saying where on its disk it keeps things."""
    cause = error.__cause__
    if not isinstance(error, RunError) or not isinstance(cause, OSError):
        return str(error)
    log.error("%s", error)
    return f"it cannot write to its own folder ({cause.strerror}); free some room there."
