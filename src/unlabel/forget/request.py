"""What is to be forgotten: whole labels, or the labels of people."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from unlabel.align.normal import forms_of, normalise
from unlabel.config import AlignSettings
from unlabel.data.cells import is_number
from unlabel.errors import ForgetError, SettingsError, unknown
from unlabel.train import Forgotten


@dataclass(frozen=True)
class Request:
    """One request to forget.

    id      random, so that it tells nothing
    labels  numbers of the labels to forget, or none
    rows    rows of the training table whose labels are to be forgotten, or none
    names   of the labels, as in the ledger
    ids     of the people, likewise
    secret  passive parties are given a commitment in place of the names
    hidden  nothing that they see may depend on what is forgotten, beyond a proved bound
    key     of the commitment; the active party's alone
    """

    labels: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    secret: bool = False
    hidden: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def what(self) -> dict[str, Any]:
        """Return what is forgotten, in words."""
        return {"people": list(self.ids)} if self.ids else {"labels": list(self.names)}

    def commitment(self) -> str:
        """Return HMAC-SHA-256(key, what): it binds the active party and hides the label.

        A plain digest of one of ten labels would fall to ten guesses; the key has 256 bits.
        """
        return commit_to(self.what(), self.key)

    def note(self, method: str) -> dict[str, Any]:
        """Return what a passive party's ledger holds."""
        if self.secret:
            return {"commitment": self.commitment()}
        # People are counted, not listed: partners need not know their ids.
        subject = {"labels": list(self.names)} if self.names else {"people": len(self.ids)}
        return {"method": method, **subject, "commitment": self.commitment()}

    def active_note(self, method: str) -> dict[str, Any]:
        """Return what the active party's ledger holds; it must know what is forgotten.

        A certificate shows the hash of a line, and all else in the line can be guessed: without
        256 secret bits in it, a partner would try out the labels until the hash fits.
        """
        return {
            "method": method,
            **self.what(),
            "secret": self.secret,
            "hidden": self.hidden,
            "commitment": self.commitment(),
            "blind": secrets.token_hex(32),
        }


def commit_to(what: dict[str, Any], key: str) -> str:
    """Return the commitment to something under a key in hexadecimal."""
    text = json.dumps(what, sort_keys=True).encode()
    return hmac.new(bytes.fromhex(key), text, hashlib.sha256).hexdigest()


def as_list(what: str, values: Sequence[str | int]) -> tuple[str, ...]:
    """Return labels or ids as texts; a single one in place of a list is refused.

    >>> as_list("ids", [7, "C-1"])
    ('7', 'C-1')
    """
    if isinstance(values, str | int):
        raise SettingsError(f"Expected a list of {what} but got {values!r}; write [{values!r}].")
    return tuple(str(each) for each in values)


def find_labels(
    labels: Sequence[str | int], names: Sequence[str], forgotten: Forgotten, *, deepen: bool = False
) -> list[int]:
    """Return the numbers of labels given by name, or by number where no name is a number.

    >>> find_labels(["cat", 2], ("cat", "dog", "owl", "fox"), Forgotten())
    [0, 2]
    """
    numbers = []
    for label in labels:
        text = str(label)
        if text in names:
            number = list(names).index(text)
        elif text.isdecimal() and int(text) < len(names) and not any(map(is_number, names)):
            number = int(text)
        else:
            raise ForgetError(unknown("label", text, names), code="unknown-label")
        if number in forgotten.labels and not deepen:
            raise ForgetError(
                f"Label '{names[number]}' was already forgotten.", code="already-forgotten"
            )
        if deepen and number not in forgotten.labels:
            raise ForgetError(
                f"Label '{names[number]}' was not forgotten yet; leave --deepen out.",
                code="not-forgotten",
            )
        numbers.append(number)
    left = list(set(range(len(names))) - set(numbers) - set(forgotten.labels))
    if len(left) < 2:
        stays = f", '{names[left[0]]}'" if left else ""
        raise ForgetError(
            f"Expected at least two labels to be left but {len(left)} would be{stays}: nothing is "
            f"left to tell apart, and a model that always says the same is no classifier; retire "
            f"it, or forget the labels of people (--ids)."
        )
    return sorted(set(numbers))


def row_finder(ids: Sequence[str], align: AlignSettings) -> Callable[[str], int | None]:
    """Return what finds the row of a person by an id, which is compared as parties compare ids.

    >>> [row_finder(["Ann", "bo"], AlignSettings(case="fold"))(text) for text in ("BO ", "al")]
    [1, None]
    """
    rows = {form: row for row, form in enumerate(forms_of(ids, align))}
    rows |= {text: row for row, text in enumerate(ids)}  # exactly so goes first
    return lambda text: rows[text] if text in rows else rows.get(normalise(text, align))


def find_people(
    people: Sequence[str], ids: Sequence[str], train: Sequence[int], align: AlignSettings
) -> list[int]:
    """Return the training rows of people given by id; an id that was not trained on is refused."""
    trained, find = set(train), row_finder(ids, align)
    rows = {text: find(text) for text in people}
    missing = [text for text in people if rows[text] not in trained]
    if missing:
        aside = len({rows[text] for text in missing} - {None})
        kept = f" ({aside} set aside for tests or as public samples)" if aside else ""
        raise ForgetError(
            f"{len(missing)} of {len(people)} ids were not trained on{kept}, the first being "
            f"'{missing[0]}', so their labels were not learnt: leave them out (`unlabel predict "
            f"RUN --part train --out FILE` lists who was trained on); nothing was changed."
        )
    if not people:
        raise ForgetError("The request names nobody; give at least one id.")
    return sorted({row for row in rows.values() if row is not None})
