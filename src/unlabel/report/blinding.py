"""Digests that only a keyholder can compare: the active party's, of a secret request.

    blinded = HMAC-SHA-256(key of the request, digest)

The active party's new weights are a function of the old ones and of the label. A partner who once
held the old ones would compute the new ones for every label and compare plain digests; under 256
secret bits it cannot. The audit's figures and the demand stand under the same key. The active
party has the key, and the annex gives it to the auditor.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from unlabel.forget.request import commit_to
from unlabel.signing import is_hex

#: Hexadecimal digits of a key.
KEY = 64

#: What becomes of a digest before it is stated or compared.
Blinding = Callable[[str], str]


def blinded(digest: str, key: str) -> str:
    """Return a digest under a key, both in hexadecimal.

    >>> blinded("00" * 32, "00" * 32)[:16]
    '33ad0a1c607ec03b'
    """
    return hmac.new(bytes.fromhex(key), bytes.fromhex(digest), hashlib.sha256).hexdigest()


def plain(digest: str) -> str:
    """Return a digest as it is: that of everybody else."""
    return digest


def key_that_opens(commitment: str, opening: object) -> str | None:
    """Return the key in `{"key": .., **what}` if it opens a commitment to what was asked for."""
    if not isinstance(opening, dict) or not is_hex(opening.get("key"), KEY):
        return None
    what = {name: each for name, each in opening.items() if name != "key"}
    key = str(opening["key"])
    return key if hmac.compare_digest(commit_to(what, key), commitment) else None
