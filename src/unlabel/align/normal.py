"""One form of an id for all parties, so that the same person has the same id everywhere.

An id is text: `007` and `7` are two ids, and so are `a1` and `A1` unless the parties agree to fold
case, which is right for e-mail addresses and wrong for customer numbers in letters of both sizes.
Unicode's form NFC, the default, joins only what is the same character written in two ways; NFKC
also what only looks different, as full-width digits. Blanks at the ends never count.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from unlabel.config import AlignSettings
from unlabel.data.dataset import Array
from unlabel.errors import DataError


def normalise(text: str, settings: AlignSettings) -> str:
    """Return the form of an id in which it is compared.

    >>> normalise(" Ann@Example.org ", AlignSettings(case="fold"))
    'ann@example.org'
    >>> normalise("DE 007", AlignSettings(trim="all"))
    'DE007'
    """
    # Folding case can leave a Unicode form, and a form can bring blanks to the ends: repeat until
    # nothing changes.
    while (form := _round(text, settings)) != text:
        text = form
    return text


def _round(text: str, settings: AlignSettings) -> str:
    if settings.unicode != "none" and not text.isascii():
        text = unicodedata.normalize(settings.unicode, text)
    if settings.case == "fold":
        text = text.casefold()
    return "".join(text.split()) if settings.trim == "all" else text.strip()


def forms_of(ids: Iterable[str], settings: AlignSettings) -> list[str]:
    """Return the form of each id; most are in it already, and a glance tells."""
    if settings.case == "fold" or settings.trim == "all":
        return [normalise(str(text), settings) for text in ids]
    return [
        text if text.isascii() and text.strip() == text else normalise(text, settings)
        for text in map(str, ids.tolist() if isinstance(ids, np.ndarray) else ids)
    ]


def normalise_all(ids: Iterable[str], settings: AlignSettings, column: str = "id") -> list[str]:
    """Return ids as they are compared; raise unless they still tell all rows apart.

    The error is for the owner of the table and shows one id; it goes into no message.
    """
    forms = forms_of(ids, settings)
    for number, text in enumerate(forms):
        if text and text.isascii():
            continue
        if not text:
            raise DataError(f"Column '{column}': row {number + 1} has no id once it is normalised.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"Column '{column}': the id in row {number + 1} holds half a character; write the "
                f"table anew in UTF-8."
            ) from error
    if len(set(forms)) == len(forms):
        return forms
    seen: set[str] = set()
    double = [text for text in forms if text in seen or seen.add(text)]  # type: ignore[func-returns-value]
    raise DataError(
        f"Column '{column}': {len(double)} ids are the same as another one once they are "
        f"normalised (for example '{double[0]}'); make them differ, or change `align`."
    )


def digest_of(ids: Iterable[str]) -> str:
    """Return the SHA-256 of ids in their order; each is preceded by its length."""
    total = hashlib.sha256()
    for text in ids:
        data = text.encode()
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def in_order(ids: Sequence[str], positions: Iterable[int]) -> Array:
    """Return positions in the agreed order, which is that of the sorted ids.

    >>> in_order(["c", "a", "b"], [0, 1]).tolist()
    [1, 0]
    """
    # By code points: the same on every machine, whatever its language.
    return np.array(sorted(positions, key=ids.__getitem__), dtype=np.int64)
