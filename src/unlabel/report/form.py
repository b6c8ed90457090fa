"""The form of a certificate: every field there is, and how a file is read into it.

    {"certificate": {..what is signed..}, "key": "..", "signature": ".."}

`signature` is the active party's, over the canonical bytes of `certificate`, which holds the parts
of all parties with their own signatures. A file with any other field is no certificate: what
stands outside the signed form could say anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from unlabel.errors import DataError
from unlabel.signing import PUBLIC, SIGNATURE
from unlabel.train.config import FORBID

CERTIFICATE = "unlabel certificate 1"
NOT_JSON = "is not readable JSON, so it is no certificate"


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a moment needs its time zone")
    return text


def _day(text: str) -> str:
    if date.fromisoformat(text).year == MAXYEAR:
        raise ValueError("a term must end in a year that can be counted")
    return text


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
PublicKey = Annotated[str, Field(pattern=f"^[0-9a-f]{{{PUBLIC}}}$")]
Signature = Annotated[str, Field(pattern=f"^[0-9a-f]{{{SIGNATURE}}}$")]
Moment = Annotated[str, AfterValidator(_moment)]
Day = Annotated[str, AfterValidator(_day)]


@dataclass(frozen=True)
class Weights:
    """SHA-256 of a party's file of weights before a request (None if not known) and after it."""

    before: Digest | None
    after: Digest

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class Purge:
    """What a party says it removed: everything from before a version."""

    attested_by: str
    version: int
    at: Moment

    __pydantic_config__ = FORBID


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

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class SignedPart:
    """A part, the public key of its party, and the party's signature."""

    part: Part
    key: PublicKey
    signature: Signature

    __pydantic_config__ = FORBID


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

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class Depth:
    """The level of forgetting that an audit found, None where there was no audit, and in words."""

    level: Literal["none", "output", "top", "deep"] | None
    words: str

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class AnnexMark:
    """What ties a sealed annex to its certificate: its hash, and for whose key it is sealed."""

    sha256: Digest
    auditor: PublicKey

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class Body:
    """What every party may see, and the active party signs as a whole.

    mode        open, deep or hidden; secret where the names are kept back and nothing else is
    method      None where the request is secret or hidden
    parties     the parts of those who signed, the active party's among them
    not_signed  the others by name, and why
    annex       None where no auditor's key was given
    keys        kept by the parties, or temporary: made for a run in no folder, and gone with it
    """

    what: Literal["unlabel certificate 1"]
    request: str
    commitment: Digest
    mode: Literal["open", "deep", "hidden", "secret"]
    method: str | None
    depth: Depth
    parties: dict[str, SignedPart]
    not_signed: dict[str, str]
    term: Term
    annex: AnnexMark | None
    software: str
    keys: Literal["kept", "temporary"] = "kept"

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class Certificate:
    """A certificate as it stands in its file."""

    certificate: Body
    key: PublicKey
    signature: Signature

    __pydantic_config__ = FORBID


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
        return TypeAdapter(Certificate).validate_json(text, strict=True), raw
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        missing = first["type"] in ("missing", "missing_argument")
        extra = first["type"] in ("unexpected_keyword_argument", "extra_forbidden")
        how = "is missing" if missing else "does not belong there" if extra else "cannot be read"
        raise DataError(f"'{name}' is not a certificate of this form: `{where}` {how}.") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number")
