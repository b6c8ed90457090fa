"""The form of a certificate: every field there is, and how a file is read into it.

    {"certificate": {..what is signed..}, "key": "..", "signature": ".."}

`signature` is the active party's, over the canonical bytes of `certificate`, which holds the parts
of all parties with their own signatures. A file with any other field is no certificate: what
stands outside the signed form could say anything.
"""

from __future__ import annotations

import calendar
import json
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime
from typing import Annotated, Any, Literal

from unlabel import compat
from unlabel.config.loader import checked_by, parse_form
from unlabel.errors import DataError
from unlabel.signing import PUBLIC, SIGNATURE, is_hex
from unlabel.terms import Depth, Guarantee, Visibility

CERTIFICATE = "unlabel certificate 2"
NOT_JSON = "is not readable JSON, so it is no certificate"


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a moment needs its time zone")
    return text


def _day(text: str) -> str:
    if date.fromisoformat(text).year == MAXYEAR:
        raise ValueError("a term must end in a year that can be counted")
    return text


def _hexadecimal(digits: int) -> object:
    def check(text: str) -> str:
        if not is_hex(text, digits):
            raise ValueError(f"expected {digits} small hexadecimal digits")
        return text

    return checked_by(check)


Digest = Annotated[str, _hexadecimal(64)]
PublicKey = Annotated[str, _hexadecimal(PUBLIC)]
Signature = Annotated[str, _hexadecimal(SIGNATURE)]
Moment = Annotated[str, checked_by(_moment)]
Day = Annotated[str, checked_by(_day)]


@dataclass(frozen=True)
class Weights:
    """SHA-256 of a party's file of weights before a request (None if not known) and after it."""

    before: Digest | None
    after: Digest


@dataclass(frozen=True)
class Purge:
    """What a party says it removed: everything from before a version."""

    attested_by: str
    version: int
    at: Moment


@dataclass(frozen=True)
class Part:
    """What one party states, from its own files (see `party/attesting.py`)."""

    what: Literal["unlabel attestation 1"]
    party: str
    request: str
    commitment: Digest
    committed: Moment
    version: int
    weights: Weights
    purge: Purge | None
    ledger: Digest
    software: str
    signed: Moment


@dataclass(frozen=True)
class SignedPart:
    """A part, the public key of its party, and the party's signature."""

    part: Part
    key: PublicKey
    signature: Signature


@dataclass(frozen=True)
class BasePart:
    """What one party states of the bottom that it made without labels (`party/label_free.py`).

    gradients  messages of gradients that reached it until then, `gradients_digest` of all of them
    """

    what: Literal["unlabel base attestation 1"]
    party: str
    objective: str
    weights: Digest
    features: str
    kept_embeddings: bool
    gradients: int
    gradients_digest: str
    ledger: str
    software: str
    signed: Moment


@dataclass(frozen=True)
class SignedBase:
    """A part of a bottom, the public key of its party, and the party's signature."""

    part: BasePart
    key: PublicKey
    signature: Signature


@dataclass(frozen=True)
class Replay:
    """What the outcome of an exact request was computed from (`train/replay.py`).

    rows         of rows and labels that stay: HMAC-SHA-256(key of the request, their SHA-256)
    recipe       seed, top and its settings, how it was fitted and bottoms were made
    embeddings   SHA-256 of the files of kept embeddings, by name; none in a tuned run
    bases        SHA-256 of every party's bottom made without labels, the active party's among them
    environment  versions, processor, device, threads

    What came out are the weights `after` in the parts.
    """

    rows: Digest
    recipe: dict[str, Any]
    embeddings: dict[str, Digest]
    bases: dict[str, Digest]
    environment: dict[str, str]


@dataclass(frozen=True)
class Term:
    """The dates of a request against the one-month term.

    received   the day on which the demand came in
    stated     whether somebody said so; if not, the day of the commit stands in for it
    due        the same day of the next month
    committed  when the active party decided
    purged     when the last party attests having purged; None while one has not
    issued     when this certificate was written
    in_time    whether the commit came on the day due or before
    """

    received: Day
    stated: bool
    due: Day
    committed: Moment
    purged: Moment | None
    issued: Moment
    in_time: bool


@dataclass(frozen=True)
class AnnexMark:
    """What ties a sealed annex to its certificate: its hash, and for whose key it is sealed."""

    sha256: Digest
    auditor: PublicKey


@dataclass(frozen=True)
class Body:
    """What every party may see, and the active party signs as a whole.

    version     of the models that it is about, None in a certificate of 0.6 or 0.7
    demand      SHA-256 of the file of the demand, None where none was given
    visibility  whether the partners can tell what was forgotten
    secret      whether the names are kept back, as in every hidden request
    method      None where the request is secret
    depth       how deep it went, None where there was no audit
    guarantee   how that is known, None where there was no audit
    words       what that means and does not mean
    figures     SHA-256 of the audit's figures, as the ledger noted it; None where it did not
    parties     the parts of those who signed, the active party's among them
    not_signed  the others by name, and why
    annex       None where no auditor's key was given
    keys        kept by the parties, or temporary: made for a run in no folder, and gone with it
    bases       of an exact request what parties signed of the bottoms they made without labels; in
                a blind run in place of parts, since nobody is asked about a request there
    replay      of an exact request what it was computed from, None where that is not known

    `demand` and `figures` of a secret request stand under its key (`blinding.py`).
    """

    what: Literal["unlabel certificate 2"]
    request: str
    version: int | None
    commitment: Digest
    demand: Digest | None
    visibility: Visibility
    secret: bool
    method: str | None
    depth: Depth | Literal["none"] | None
    guarantee: Guarantee | None
    words: str
    figures: Digest | None
    parties: dict[str, SignedPart]
    not_signed: dict[str, str]
    term: Term
    annex: AnnexMark | None
    software: str
    keys: Literal["kept", "temporary"] = "kept"
    bases: dict[str, SignedBase] = field(default_factory=dict)
    replay: Replay | None = None


@dataclass(frozen=True)
class Certificate:
    """A certificate as it stands in its file."""

    certificate: Body
    key: PublicKey
    signature: Signature


def read_json(text: bytes, name: str) -> Any:
    """Read JSON in which no name stands twice and every number is a number."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{name}' {NOT_JSON}.") from error


def read_certificate(text: bytes, name: str) -> tuple[Certificate, dict[str, Any]]:
    """Return a certificate and the plain data it was read from, or say what is wrong with it."""
    raw = read_json(text, name)
    try:
        return parse_form(Certificate, compat.certificate(raw)), raw
    except DataError as error:
        raise DataError(f"'{name}' is not a certificate of this form: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a name stands twice")
    return unique


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number")


def due_day(received: date, months: int = 1) -> date:
    """Return the day on which a term of months ends (Article 12(3) of the GDPR).

    The same day of the last month, or that month's last day where it is shorter.

    >>> due_day(date(2026, 1, 15)).isoformat(), due_day(date(2027, 1, 31)).isoformat()
    ('2026-02-15', '2027-02-28')
    >>> due_day(date(2026, 12, 31)).isoformat(), due_day(date(2026, 12, 31), 3).isoformat()
    ('2027-01-31', '2027-03-31')
    """
    later, month = divmod(received.month - 1 + months, 12)
    year, month = received.year + later, month + 1
    return date(year, month, min(received.day, calendar.monthrange(year, month)[1]))


def day_of(moment: str) -> date:
    """Return the day on which a moment of a ledger lies."""
    return datetime.fromisoformat(moment).date()
