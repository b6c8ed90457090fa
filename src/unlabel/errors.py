"""Every error a user can meet, the words in which it is said, and the code that programs read.

    UnlabelError            error            any of these
    ├── SettingsError       settings         a setting has a value that cannot work
    │   └── UsageError      usage            a command line that cannot be meant
    ├── DataError           data             data is missing, malformed or does not fit the request
    │   └── CertificateError  certificate    a certificate does not hold
    ├── ModelError          model            a model cannot be built or has the wrong shape
    ├── WireError           wire             bytes or a message that break the protocol
    │   └── PartySuspected  party-suspected  a party sends what does not fit its own history
    ├── PartyRefused        refused          a party declined a request, with its reason
    ├── PartyLost           party-lost       a party does not answer, or the way to it broke
    ├── CheckpointError     checkpoint       a checkpoint is truncated, changed, or of another model
    ├── TrainingError       training         training cannot go on
    │   └── TrainingDiverged  not-finite     its numbers have left the finite ones
    ├── ForgetError         forget           a request to forget cannot be carried out
    │   ├── ForgetDiverged  not-finite       its numbers have left the finite ones
    │   └── PublicMismatch  public-mismatch  the public set is no better than one labelled at random
    └── RunError            run              a run folder cannot be used or written

The class says where an error arose, its `code` what went wrong. A single error may have a finer
code than its class (docs/operations.md lists them): `RunError` has `not-written` where the disk
took nothing, and `PartyRefused` the code that came with the refusal (`Refusal` below).

Each message is one sentence that says what was expected, what was found, and what to do. It is
for people and may change; classes and codes do not, and no program needs to read the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Literal, get_args

#: Why a party declines, in one word; a refusal over the wire carries it beside the sentence.
Refusal = Literal[
    "refused",  # none of the others
    "policy",  # its policy does not allow it
    "budget",  # what its policy serves in a day is used up
    "gradient-norm",  # gradients are not finite, or larger than its policy allows
    "not-finite",  # its own weights have diverged, or a row holds a number far too large
    "not-written",  # its disk did not take what was to be kept
    "checkpoint",  # a version, the ledger or a key is missing, changed, or does not fit
    "wrong-request",  # no such rows, tables, versions or requests, or values out of range
    "request-open",  # a request waits to be committed or rolled back first
    "not-aligned",  # its rows are not aligned with the others' yet
    "unknown-message",  # bytes that are no message, or a message that is no request
    "failed",  # its own model or program failed; its log says why
]
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)

NOT_FINITE = "not-finite"
GRADIENT_NORM = "gradient-norm"
#: Codes of numbers that have run away: lower rates help.
DIVERGED = frozenset({NOT_FINITE, GRADIENT_NORM})


class UnlabelError(Exception):
    """Base of all errors that unlabel raises on purpose.

    code  what went wrong, in one stable word; the class's own unless one is given
    """

    code: str = "error"

    def __init_subclass__(cls, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        sentence = super().__str__()
        return sentence if _at_a_terminal else in_python(sentence)


#: Whether sentences are for somebody at a terminal, who writes flags and commands.
_at_a_terminal = False
#: What a flag is called in Python, where not by its own name.
_ARGUMENTS = {"out": "folder", "table": "tables", "set": "options", "id": "ids", "label": "labels"}
#: Commands that are verbs of `Federation`; the others have no counterpart and stay commands.
_VERBS = (
    *("train", "evaluate", "predict", "forget", "audit", "commit", "rollback", "purge", "recover"),
    *("status", "report", "certificate", "slots"),
)


@contextmanager
def at_a_terminal() -> Iterator[None]:
    """Have errors name flags and commands, as long as this lasts."""
    global _at_a_terminal
    before, _at_a_terminal = _at_a_terminal, True
    try:
        yield
    finally:
        _at_a_terminal = before


def in_python(sentence: str) -> str:
    """Return a sentence with flags and commands as somebody in Python writes them.

    >>> in_python("No request is staged; run `unlabel forget` first, or add --allow-disclosure.")
    'No request is staged; run `forget()` first, or add `allow_disclosure`.'
    >>> in_python("Start it with `unlabel party start KIT`.")
    'Start it with `unlabel party start KIT`.'
    """
    sentence = sentence.replace("`unlabel train --update`", "`Federation.update()`")
    verbs = "|".join(_VERBS)
    sentence = re.sub(rf"`unlabel ({verbs})( [^`]*)?`", r"`\1()`", sentence)
    whole = re.sub(r"`unlabel [^`]*`", "", sentence)
    for flag in set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", whole)):
        name = _ARGUMENTS.get(flag, flag.replace("-", "_"))
        sentence = re.sub(rf"`?--{flag}(?![\w-])`?", f"`{name}`", sentence)
    return sentence


class SettingsError(UnlabelError, ValueError, code="settings"):
    """A setting has a value that cannot work; a `ValueError`, so that pydantic reports it too."""


class UsageError(SettingsError, code="usage"):
    """A command line that cannot be meant: what it names does not go together, or is not there."""


class DataError(UnlabelError, code="data"):
    """Data is missing, malformed or does not fit the request."""


class CertificateError(DataError, code="certificate"):
    """A certificate does not hold."""


class ModelError(UnlabelError, code="model"):
    """A model cannot be built or has the wrong shape."""


class WireError(UnlabelError, code="wire"):
    """Bytes or a message that break the protocol."""


class PartySuspected(WireError, code="party-suspected"):
    """A party sends what does not fit its own history."""


class PartyRefused(UnlabelError):
    """A party declined a request, with its reason.

    code  one of `REFUSALS`: the party's own word for the reason
    """

    code: Refusal = "refused"

    def __init__(self, message: str, code: Refusal = "refused") -> None:
        super().__init__(message)
        self.code = code


class PartyLost(UnlabelError):
    """A party does not answer, or the way to it broke.

    parties  the names of those who did not answer; empty where nobody could be asked
    """

    code = "party-lost"

    def __init__(self, message: str, parties: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.parties = tuple(parties)


class CheckpointError(UnlabelError, code="checkpoint"):
    """A checkpoint is truncated, changed, or of another model."""


class TrainingError(UnlabelError, code="training"):
    """Training cannot go on."""


class TrainingDiverged(TrainingError, code=NOT_FINITE):
    """The loss, gradients or weights of a training have left the finite numbers."""


class ForgetError(UnlabelError, code="forget"):
    """A request to forget cannot be carried out."""


class ForgetDiverged(ForgetError, code=NOT_FINITE):
    """The loss, gradients or weights of a request have left the finite numbers."""


class PublicMismatch(ForgetError, code="public-mismatch"):
    """The model calls public samples by their labels hardly more often than guessing would."""


class RunError(UnlabelError, code="run"):
    """A run folder cannot be used or written."""


def refusal_of(error: UnlabelError) -> Refusal:
    """Return the code with which a party declines what raised this error inside it.

    >>> refusal_of(CheckpointError("its version 3 is missing.")), refusal_of(WireError("no kind."))
    ('checkpoint', 'unknown-message')
    """
    for code in REFUSALS:
        if error.code == code:
            return code
    if isinstance(error, WireError):
        return "unknown-message"
    return "wrong-request" if isinstance(error, SettingsError) else "refused"


def unknown(what: str, got: object, known: Iterable[str]) -> str:
    """Say that `got` is no known `what`, with the nearest spelling and the full list."""
    names = sorted(known)
    return f"Unknown {what} '{got}'.{suggestion(got, names)} Known: {', '.join(names)}."


def suggestion(got: object, known: Iterable[str]) -> str:
    """Return a question after the nearest known spelling, empty where none is near.

    >>> suggestion("resnt", ["mlp", "resnet"])
    " Did you mean 'resnet'?"
    """
    near = get_close_matches(str(got), sorted(known), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""


def why(error: Exception) -> str:
    """Return the first line of what an error says, with its name where that is needed."""
    first = str(error).splitlines()[0].rstrip(".") if str(error) else ""
    known = isinstance(error, ImportError | RuntimeError | TypeError) and first
    return first if known else f"{type(error).__name__}: {first}"
