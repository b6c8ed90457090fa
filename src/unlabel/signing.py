"""A party's own key, what it signs with it, and the one form in which things are signed.

    canonical   JSON with sorted names, no blanks and ASCII only: equal data, equal bytes
    signature   Ed25519 over those bytes

Everything that is signed says in a field `what` which kind of thing it is, so that a signature
under one cannot pass for a signature under another. The library that computes is asked for late:
a bare machine that trains has no need of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel.errors import CheckpointError, RunError
from unlabel.files import sha256, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Where a party keeps its key, within its own folder.
KEY = Path("secrets") / "signing.key"
#: Characters of a public key and of a signature, in hexadecimal.
PUBLIC, SIGNATURE = 64, 128
#: Characters of a fingerprint and of each of its groups: 128 bits, as nobody reads out more.
FINGERPRINT, GROUP = 32, 4
COMPARE = "Compare the fingerprints with their owners by another way, such as the telephone."
#: Points of order 1, 2, 4 and 8, without the sign of x: as a public key, each of them fits
#: signatures that nobody had to make, under one text in eight or under any.
WEAK = {
    "00" * 32,
    "01" + "00" * 31,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
}


def canonical(value: Any) -> bytes:
    """Return plain data as the bytes that are signed; what JSON cannot say is refused.

    >>> canonical({"b": [1, None], "a": "ü"})
    b'{"a":"\\\\u00fc","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class Signer:
    """The key pair of one party, made on first use and kept in its own folder."""

    def __init__(self, folder: Path) -> None:
        path = folder / KEY
        if not path.exists():
            write_atomically(path, _new_key(), mode=0o600)
        # Read back even when it was made just now: of two at once, one wrote last.
        self._key = _read_key(path, f"{folder.name}/{KEY.as_posix()}")

    @property
    def public(self) -> str:
        """The public key in hexadecimal."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> str:
        """Return the signature of some bytes, in hexadecimal."""
        return self._key.sign(data).hex()


def fingerprint(public: str) -> str:
    """Return the first half of the SHA-256 of a public key, in groups to be read aloud.

    >>> fingerprint("00" * 32)
    '6668 7aad f862 bd77 6c8f c18b 8e9f 8e20'
    """
    return aloud(sha256(bytes.fromhex(public)))


def aloud(digest: str) -> str:
    """Return the first half of a SHA-256 in groups: so long that nobody makes another of them."""
    return " ".join(digest[at : at + GROUP] for at in range(0, FINGERPRINT, GROUP))


def fingerprints(keys: Mapping[str, str]) -> str:
    """Return the fingerprint of every party's public key, in a list."""
    return "; ".join(f"{party} {fingerprint(key)}" for party, key in keys.items())


def is_signed(public: str, data: bytes, signature: str) -> bool:
    """Return whether a signature is that of some bytes under a public key."""
    expect_library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not (is_hex(public, PUBLIC) and is_hex(signature, SIGNATURE)) or is_weak(public):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_weak(public: str) -> bool:
    """Return whether a public key is one under which anybody can sign.

    >>> is_weak("01" + "00" * 30 + "80"), is_weak("58" + "66" * 31)
    (True, False)
    """
    point = bytearray.fromhex(public)
    point[-1] &= 0x7F
    return point.hex() in WEAK


def is_hex(text: object, length: int) -> bool:
    """Return whether something is text of so many small hexadecimal digits, and of one form.

    >>> is_hex("0f", 2), is_hex("0F", 2), is_hex("0f", 4), is_hex(15, 2)
    (True, False, False, False)
    """
    return isinstance(text, str) and len(text) == length and not set(text) - set("0123456789abcdef")


def expect_library() -> None:
    """Raise where the library for keys and signatures is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise RunError(
            "Keys and signatures need the package `cryptography`, which is not installed here; "
            "install it with pip."
        ) from error


def _new_key() -> bytes:
    expect_library()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


def _read_key(path: Path, name: str) -> Ed25519PrivateKey:
    expect_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise CheckpointError(f"Key '{name}' cannot be read ({error.strerror}).") from error
    except Exception as error:  # damaged PEM raises one of many kinds
        raise CheckpointError(
            f"Key '{name}' is truncated or was changed; restore it from a backup."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise CheckpointError(f"Key '{name}' is not an Ed25519 key; restore it from a backup.")
    return key
