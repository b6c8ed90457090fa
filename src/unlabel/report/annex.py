"""What only the auditor may read: sealed to the auditor's key, and padded so that its size is mute.

    s        = X25519(ephemeral, auditor)
    key      = HKDF-SHA-256(s, info = "unlabel annex 1" | ephemeral public | auditor public)
    sealed   = ChaCha20-Poly1305(key, nonce, plain, associated data = everything else in the file)

The ephemeral key is thrown away, so that not even who sealed an annex can open it again. The plain
text is filled up with blanks to a multiple of 64 KiB: the length of a label's name would be a hint.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel.errors import DataError, RunError, SettingsError
from unlabel.files import write_atomically
from unlabel.report.certificate_form import read_json
from unlabel.signing import canonical, expect_library

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

#: The form of the sealed file, the same since version 0.6; what is sealed has a form of its own.
ANNEX = "unlabel annex 1"
#: Sizes of a sealed annex are multiples of this.
BLOCK = 65_536
FIELDS = {"what", "auditor", "ephemeral", "nonce", "sealed"}


def make_auditor_keys(folder: str | Path) -> tuple[Path, Path]:
    """Write a fresh key pair of an auditor; return the files of the private and public key."""
    expect_library()
    folder = Path(folder)
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private, public = folder / "auditor.key", folder / "auditor.pub"
    for path in (private, public):
        if path.exists():
            raise RunError(f"'{path}' exists, and a key is not overwritten; choose another --out.")
    key = X25519PrivateKey.generate()
    pem, spki = form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
    secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    write_atomically(private, secret, mode=0o600)
    write_atomically(public, key.public_key().public_bytes(pem, spki))
    return private, public


def read_auditor_key(path: Path) -> X25519PublicKey:
    """Read an auditor's public key from a PEM file."""
    expect_library()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read(path)
    if b"PRIVATE KEY" in data:
        raise SettingsError(
            f"'{path}' is a private key, which is the auditor's alone; give the public one, .pub."
        )
    key = _loaded(load_pem_public_key, data)
    if not isinstance(key, X25519PublicKey):
        raise SettingsError(
            f"'{path}' is not a public X25519 key in PEM form; make a pair with "
            f"`unlabel keys auditor`."
        )
    return key


def read_annex_key(path: Path) -> X25519PrivateKey:
    """Read an auditor's private key from a PEM file."""
    expect_library()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _loaded(partial(load_pem_private_key, password=None), _read(path))
    if not isinstance(key, X25519PrivateKey):
        raise SettingsError(
            f"'{path}' is not a private X25519 key in PEM form; give the auditor's .key file."
        )
    return key


def _loaded(load: Callable[[bytes], object], data: bytes) -> object:
    try:
        return load(data)
    except Exception:  # damaged PEM raises one of many kinds
        return None


def seal(plain: dict[str, Any], auditor: X25519PublicKey) -> bytes:
    """Return the file of an annex that only the auditor can open."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    ephemeral = X25519PrivateKey.generate()
    head = {
        "what": ANNEX,
        "auditor": auditor.public_bytes_raw().hex(),
        "ephemeral": ephemeral.public_key().public_bytes_raw().hex(),
        "nonce": secrets.token_hex(12),
    }
    key = _derive(ephemeral.exchange(auditor), head)
    text = canonical(plain)
    padded = text.ljust(-(-len(text) // BLOCK) * BLOCK)
    sealed = ChaCha20Poly1305(key).encrypt(bytes.fromhex(head["nonce"]), padded, canonical(head))
    return canonical({**head, "sealed": base64.b64encode(sealed).decode()}) + b"\n"


def unseal(data: bytes, key: X25519PrivateKey) -> dict[str, Any]:
    """Return what an annex says, or raise `DataError` with what is wrong with it or the key."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    envelope = read_json(data, "the annex")
    whole = isinstance(envelope, dict) and envelope.keys() == FIELDS and envelope["what"] == ANNEX
    if not whole or not all(isinstance(value, str) for value in envelope.values()):
        raise DataError("The annex is not one of this form.")
    head = {name: value for name, value in envelope.items() if name != "sealed"}
    if head["auditor"] != key.public_key().public_bytes_raw().hex():
        raise DataError(
            "The annex cannot be opened with this key: it is not the key that the annex was sealed "
            "for."
        )
    try:
        other = X25519PublicKey.from_public_bytes(bytes.fromhex(head["ephemeral"]))
        secret = _derive(key.exchange(other), head)
        sealed = base64.b64decode(envelope["sealed"], validate=True)
        nonce = bytes.fromhex(head["nonce"])
        plain = ChaCha20Poly1305(secret).decrypt(nonce, sealed, canonical(head))
    except (InvalidTag, ValueError) as error:
        raise DataError("The annex was changed: its seal is broken.") from error
    opened = read_json(plain, "what the annex holds")
    if not isinstance(opened, dict):
        raise DataError("The annex holds something else than an annex.")
    return opened


def _derive(shared: bytes, head: dict[str, str]) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    ends = bytes.fromhex(head["ephemeral"]) + bytes.fromhex(head["auditor"])
    return HKDF(SHA256(), 32, salt=None, info=ANNEX.encode() + ends).derive(shared)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"Cannot read key '{path}': {error.strerror}.") from error
