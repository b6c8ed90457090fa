"""Text files of users: read as UTF-8, or as the UTF-16 that their first bytes declare.

Any other encoding is refused, not guessed: Windows-1252 gives a letter for nearly every byte, so a
wrong guess raises no error but changes ids, labels and categories, and rows then fail to match.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
from pathlib import Path
from typing import IO, Literal, cast

from unlabel.errors import DataError

TextEncoding = Literal["utf-8", "utf-16"]

REMEDY = "save it as UTF-8"
#: Bytes of which Windows-1252 makes no character.
_NOT_WESTERN = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
#: Western words have a letter with an accent here and there; other scripts have nothing else.
_OTHER_SCRIPT = re.compile(rb"[\x80-\xff]{3}")
_ONLY_WINDOWS = re.compile(rb"[\x80-\x9f]")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, packed or not, to read its bytes."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    if path.suffix == ".bz2":
        return bz2.open(path)
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def encoding_of(start: bytes, where: str) -> TextEncoding:
    """Return the encoding that the first bytes of a file declare; UTF-8 where they do not.

    >>> encoding_of("id".encode("utf-16"), "A file"), encoding_of(b"id", "A file")
    ('utf-16', 'utf-8')
    """
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise DataError(f"{where} is UTF-32 text, where UTF-8 is expected; {REMEDY}.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Letters of the Latin alphabet have a zero in every second byte then, which UTF-8 allows.
    if b"\0" in start[:4]:
        raise DataError(
            f"{where} is not UTF-8 text: it holds zero bytes in line 1, as UTF-16 text without a "
            f"byte order mark does; {REMEDY}."
        )
    return "utf-8"


def expect_readable(file: IO[bytes], where: str) -> TextEncoding:
    """Return the encoding of a file opened at its beginning; raise where it cannot be decoded.

    The sentence names the first line with bytes that are no text, and the likely encoding.
    """
    start = file.read(4)
    encoding = encoding_of(start, where)
    if encoding == "utf-16":
        try:
            (start + file.read()).decode("utf-16")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where} begins as UTF-16 text but cannot be decoded as such, so it is cut off or "
                f"damaged; {REMEDY}."
            ) from error
        return encoding
    rest = start + file.readline()
    number = 0
    while rest:
        # A line ends in the middle of no character: in UTF-8 no other character has this byte.
        for line in rest.splitlines(keepends=True):
            number += 1
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{where} is not UTF-8 text: line {number} holds the byte "
                    f"0x{line[error.start]:02X}, and the file is probably in "
                    f"{_likely(rest + file.read())}; {REMEDY}."
                ) from error
        rest = file.readline()
    return encoding


def decode(data: bytes, where: str) -> str:
    """Return the text of a whole file, without a byte order mark."""
    encoding = expect_readable(io.BytesIO(data), where)
    return data.decode("utf-8-sig" if encoding == "utf-8" else encoding)


def form_of(data: bytes) -> str:
    """Return the encoding to write a text in, so that it begins as a readable file's bytes do.

    Without a byte order mark a spreadsheet would take UTF-8 for an older encoding.

    >>> form_of("id".encode("utf-8-sig")), form_of(b"id")
    ('utf-8-sig', 'utf-8')
    """
    encoding = encoding_of(data[:4], "The file")
    return "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else encoding


def _likely(data: bytes) -> str:
    """Return the encoding that bytes which are not UTF-8 are most likely in."""
    if _NOT_WESTERN.search(data) or _OTHER_SCRIPT.search(data):
        return "an older encoding such as Windows-1251, GB18030 or Shift JIS"
    if _ONLY_WINDOWS.search(data):
        return "Windows-1252"
    return "Latin-1 or Windows-1252"
