"""Every error a user can meet, and the words in which it is said.

    UnlabelError
    ├── SettingsError     a setting has a value that cannot work
    ├── DataError         data is missing, malformed or does not fit the request
    ├── ModelError        a model cannot be built or has the wrong shape
    ├── WireError         bytes or a message that break the protocol
    │   └── PartySuspected  a party sends what does not fit its own history
    ├── PartyRefused      a party declined a request, with its reason
    ├── PartyLost         a party does not answer, or the way to it broke
    ├── CheckpointError   a checkpoint is truncated, changed, or of another model
    ├── TrainingError     training cannot go on
    ├── ForgetError       a request to forget cannot be carried out
    └── RunError          a run folder cannot be used or written

Each message is one sentence that says what was expected, what was found, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class UnlabelError(Exception):
    """Base of all errors that unlabel raises on purpose."""


class SettingsError(UnlabelError, ValueError):
    """A setting has a value that cannot work.

    It is a `ValueError` too, so that pydantic reports it beside its own findings.
    """


class DataError(UnlabelError):
    """Data is missing, malformed or does not fit the request."""


class ModelError(UnlabelError):
    """A model cannot be built or has the wrong shape."""


class WireError(UnlabelError):
    """Bytes or a message that break the protocol."""


class PartySuspected(WireError):
    """A party sends what does not fit its own history."""


class PartyRefused(UnlabelError):
    """A party declined a request, with its reason."""


class PartyLost(UnlabelError):
    """A party does not answer, or the way to it broke.

    parties  the names of those who did not answer; empty where nobody could be asked
    """

    def __init__(self, message: str, parties: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.parties = tuple(parties)


class CheckpointError(UnlabelError):
    """A checkpoint is truncated, changed, or of another model."""


class TrainingError(UnlabelError):
    """Training cannot go on."""


class ForgetError(UnlabelError):
    """A request to forget cannot be carried out."""


class RunError(UnlabelError):
    """A run folder cannot be used or written."""


def unknown(what: str, got: object, known: Iterable[str]) -> str:
    """Say that `got` is no known `what`, with the nearest spelling and the full list."""
    names = sorted(known)
    near = get_close_matches(str(got), names, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"Unknown {what} '{got}'.{hint} Known: {', '.join(names)}."


def why(error: Exception) -> str:
    """Return the first line of what an error says, with its name where that is needed."""
    first = str(error).splitlines()[0].rstrip(".") if str(error) else ""
    known = isinstance(error, ImportError | RuntimeError | TypeError) and first
    return first if known else f"{type(error).__name__}: {first}"
