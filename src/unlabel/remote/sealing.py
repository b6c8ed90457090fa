"""A stream of bytes under a passphrase: AES-256-GCM in pieces, under a key that scrypt makes.

    offset  size      what
    0       8         MAGIC
    8       16        salt
    24      each      pieces of `PIECE` bytes, each with its tag of 16; the last is shorter

Piece i is sealed with the nonce i (11 bytes, big-endian) and one more byte, 1 for the last piece:
pieces cannot be moved or dropped, and the end cannot be cut off. A key is used for one file.
"""

from __future__ import annotations

import secrets
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from unlabel.errors import RunError

MAGIC = b"UNLABEL1"
SALT, PIECE, TAG = 16, 2**20, 16
#: 64 MiB and about a third of a second a guess.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**16, 8, 1


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    derive = Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P)
    return AESGCM(derive.derive(passphrase.encode()))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


class SealingWriter:
    """Seals what is written to it into a file; `end` writes the last piece."""

    def __init__(self, file: BinaryIO, passphrase: str) -> None:
        salt = secrets.token_bytes(SALT)
        file.write(MAGIC + salt)
        self._file, self._cipher = file, _cipher(passphrase, salt)
        self._waiting, self._number = bytearray(), 0

    def write(self, data: bytes) -> int:
        """Take bytes; whole pieces go to the file."""
        self._waiting += data
        while len(self._waiting) > PIECE:
            self._put(bytes(self._waiting[:PIECE]), last=False)
            del self._waiting[:PIECE]
        return len(data)

    def end(self) -> None:
        """Write the last piece, without which the file is not whole."""
        self._put(bytes(self._waiting), last=True)

    def _put(self, piece: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), piece, None))
        self._number += 1


class OpeningReader:
    """Reads what a `SealingWriter` wrote; nothing is returned that was not checked."""

    def __init__(self, file: BinaryIO, passphrase: str) -> None:
        head = file.read(len(MAGIC) + SALT)
        if len(head) != len(MAGIC) + SALT or not head.startswith(MAGIC):
            raise RunError("The file is not under a passphrase.", code="not-a-backup")
        self._file, self._cipher = file, _cipher(passphrase, head[len(MAGIC) :])
        self._open, self._number = bytearray(), 0
        self._next = file.read(PIECE + TAG)

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        while len(self._open) < size and self._next:
            piece, self._next = self._next, self._file.read(PIECE + TAG)
            nonce = _nonce(self._number, last=not self._next)
            try:
                self._open += self._cipher.decrypt(nonce, piece, None)
            except (InvalidTag, ValueError) as error:
                raise RunError(
                    "The passphrase is another one, or the file was changed or cut off.",
                    code="not-a-backup",
                ) from error
            self._number += 1
        data = bytes(self._open[:size])
        del self._open[:size]
        return data
