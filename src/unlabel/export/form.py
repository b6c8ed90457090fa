"""What is signed of an exported top, and the list that says which exports still hold.

    FILE            the top itself: safetensors, or ONNX
    FILE.json       {"export": {..}, "key": "..", "signature": ".."}: of which version it is
    RUN/exports.json  {"exports": {..}, "key": "..", "signature": ".."}: the revocation note

Both are signed by the label holder. The note names every export and the version that was decided
when it was written; its number only grows. An export holds by a note that lists it, as not revoked,
under the same key: whoever has neither note nor run knows nothing of that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from unlabel.config import Combine
from unlabel.config.loader import parse_form
from unlabel.errors import DataError
from unlabel.report.certificate_form import Digest, Moment, PublicKey, Signature, read_json
from unlabel.signing import Signer, canonical, is_signed

Format = Literal["safetensors", "onnx"]
#: What is put behind a file's name for the note that is signed of it.
SIGNED = ".json"


@dataclass(frozen=True)
class Input:
    """The embeddings of one party, in the order in which the top joins them."""

    party: str
    width: int


@dataclass(frozen=True)
class Export:
    """An exported top.

    sha256   of the file
    version  of the models that it belongs to, `request` the one that made it (empty: training)
    ledger   the hash at which the label holder's ledger ended then
    labels   the names of its outputs
    top, options, combine  how it is built; the weights are in the file
    """

    what: Literal["unlabel export 1"]
    sha256: Digest
    format: Format
    version: int
    request: str
    ledger: str
    exported: Moment
    labels: list[str]
    inputs: list[Input]
    top: str
    options: dict[str, Any]
    combine: Combine
    software: str


@dataclass(frozen=True)
class Listed:
    """An export in the revocation note; `revoked` is when that was noted, None while it holds."""

    sha256: Digest
    file: str
    version: int
    exported: Moment
    revoked: Moment | None


@dataclass(frozen=True)
class Exports:
    """The revocation note of a run.

    number   that grows by one with each note
    version  that was decided when it was written: exports of others do not hold
    """

    what: Literal["unlabel exports 1"]
    number: int
    version: int
    at: Moment
    listed: list[Listed]


@dataclass(frozen=True)
class SignedExport:
    """FILE.json as it stands."""

    export: Export
    key: PublicKey
    signature: Signature


@dataclass(frozen=True)
class SignedExports:
    """The revocation note as it stands."""

    exports: Exports
    key: PublicKey
    signature: Signature


Form = TypeVar("Form", SignedExport, SignedExports)


def signed(name: str, body: Export | Exports, signer: Signer) -> bytes:
    """Return the text of a file in which something stands signed, under a name."""
    plain = asdict(body)
    whole = {name: plain, "key": signer.public, "signature": signer.sign(canonical(plain))}
    return (json.dumps(whole, indent=1) + "\n").encode()


def read_export(text: bytes, name: str) -> SignedExport:
    """Return what is signed of an export; raise where it is damaged or was changed."""
    return _read(SignedExport, text, name, "export")


def read_exports(text: bytes, name: str) -> SignedExports:
    """Return a revocation note; raise where it is damaged or was changed."""
    return _read(SignedExports, text, name, "exports")


def is_export(path: Path) -> bool:
    """Return whether a file is an exported top, or what is signed of one."""
    try:
        raw = json.loads((path if path.suffix == SIGNED else beside(path)).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(raw, Mapping) and "export" in raw


def beside(path: Path) -> Path:
    """Return where that lies which is signed of a file."""
    return path.with_name(path.name + SIGNED)


def _read(kind: type[Form], text: bytes, name: str, field: str) -> Form:
    raw = read_json(text, name)
    try:
        form = parse_form(kind, raw)
    except DataError as error:
        raise DataError(f"'{name}' does not have the form of this file: {error}") from error
    if not is_signed(form.key, canonical(raw[field]), form.signature):
        raise DataError(f"'{name}' was changed after it was signed: its signature does not hold.")
    return form
