"""What binds a run to its rows and labels, and lets go of a label that was forgotten.

The active party keeps `labels.safetensors`, readable to itself alone:

    people             [n, 32]  HMAC-SHA-256(secret of the run, id) of each row
    keys, commitments  [n, 32]  of each row a random key, and HMAC-SHA-256(key, name of its label)
    tombstones         [n]      1 where the label was forgotten; neither which, nor by which request
    elsewhere          [m, 32]  of people with a tombstone who are in no row any more
    train, validation, test, public  the rows of each part, as they were drawn when the run began
    samples/NAME       rows that requests ask for as public samples, the same after a purge
    about              JSON: the names of the labels, the secret of the run, how ids are compared

A commitment shows that a cell has changed; whoever has the file can also try out which label it
holds. So a purge overwrites keys and commitments of the rows with tombstones. From then on their
label is `UNKNOWN`, whatever the table says of them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from unlabel.align.normal import forms_of, normalise
from unlabel.config import AlignSettings
from unlabel.data import Rows
from unlabel.data.cells import expect_apart, label_form, label_reader
from unlabel.data.dataset import Array
from unlabel.errors import DataError, RunError
from unlabel.files import OWNER_ONLY, write_atomically

LABELS = "labels.safetensors"
#: The number of a label that is not known any more.
UNKNOWN = -1
#: Tombstones: of a label that was forgotten, and of one that its owner did not know when the run
#: began, which is free to become known.
FORGOTTEN, NEVER_KNOWN = 1, 2
#: Bytes of a key and of what is made with it.
SIZE = 32
#: Bytes that SHA-256 takes at a time.
BLOCK = 64
#: Rows whose blocks are held at a time.
PIECE = 65_536
_FORM = "unlabel labels 1"
_ARRAYS = ("people", "keys", "commitments", "tombstones", "elsewhere")
_SAMPLES = "samples/"
_UPDATE = "restore them, or take the changed tables with `unlabel train --update`."


@dataclass(frozen=True)
class LabelRecord:
    """The rows and labels that a run was begun with; see the head of this file."""

    names: tuple[str, ...]
    secret: str
    rows: Rows
    people: Array
    keys: Array
    commitments: Array
    tombstones: Array
    elsewhere: Array
    align: AlignSettings
    samples: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ids: Array,
        labels: Tensor,
        names: Sequence[str],
        rows: Rows,
        align: AlignSettings,
        before: Update | None = None,
        *,
        may_lack: bool = False,
    ) -> LabelRecord:
        """Commit to the labels of rows; what was forgotten `before` stays so.

        may_lack  a label may be missing that was never forgotten
        """
        secret = secrets.token_hex(SIZE) if before is None else before.record.secret
        keys = np.frombuffer(secrets.token_bytes(SIZE * len(ids)), np.uint8).reshape(-1, SIZE)
        codes = _marks(keys, [(*names, "")[label] for label in labels.tolist()])
        people = _people(secret, ids, align)
        stones = (labels < 0).numpy().astype(np.uint8) * FORGOTTEN
        past = set()
        if before is not None:
            asked = _people(secret, np.array(sorted(before.people_forgotten), dtype=str), align)
            past = before.record.buried_people() | {row.tobytes() for row in asked}
        if may_lack:
            buried = np.array([row.tobytes() in past for row in people], dtype=bool)
            stones[(stones > 0) & ~buried] = NEVER_KNOWN
        left = past - {row.tobytes() for row in people}
        record = cls(
            tuple(names), secret, rows, people, keys, codes, stones, _stacked(sorted(left)), align
        )
        return record.purged()

    @classmethod
    def read(cls, home: Path) -> LabelRecord | None:
        """Return the record in the active party's folder, None where there is none."""
        path = home / LABELS
        try:
            tensors = load(path.read_bytes())
            about = json.loads(tensors["about"].tobytes())
            if about["what"] != _FORM:
                raise ValueError
            rows = {part.name: torch.from_numpy(tensors[part.name].copy()) for part in fields(Rows)}
            arrays = {name: tensors[name] for name in _ARRAYS}
            known = {
                k.removeprefix(_SAMPLES): v for k, v in tensors.items() if k.startswith(_SAMPLES)
            }
            align, names = AlignSettings(**about["align"]), tuple(about["names"])
            secret = about["secret"]
            return cls(names, secret, Rows(**rows), **arrays, align=align, samples=known)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise RunError(
                f"'{path}', which binds the run to its labels, cannot be read or was changed; "
                f"restore it from a backup."
            ) from error

    def write(self, home: Path) -> None:
        """Keep the record in the active party's folder."""
        about = {"what": _FORM, "names": self.names, "secret": self.secret}
        text = json.dumps({**about, "align": asdict(self.align)}).encode()
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        parts = {part.name: getattr(self.rows, part.name).numpy() for part in fields(Rows)}
        parts |= {f"{_SAMPLES}{name}": rows for name, rows in self.samples.items()}
        data = save({"about": np.frombuffer(text, np.uint8), **arrays, **parts})
        write_atomically(home / LABELS, data, mode=OWNER_ONLY)

    def open(self, ids: Array, cells: Sequence[str]) -> Tensor:
        """Return the labels of rows, `UNKNOWN` where one was forgotten and cleared or purged.

        cells  what the table says of each row now, empty where it says nothing

        Raise where any other cell is not what it was when the run began.
        """
        people = _people(self.secret, ids, self.align)
        if not np.array_equal(people, self.people):
            raise RunError(self._difference(ids, people), code="rows-changed")
        read = label_reader(self.names)
        texts = [read(cell) or "" for cell in cells]
        same = (_marks(self.keys, texts) == self.commitments).all(1)
        changed = np.flatnonzero(~same & (self.tombstones == 0))
        if len(changed):
            more = f" and of {len(changed) - 1} more rows" if len(changed) > 1 else ""
            raise RunError(
                f"The label of row '{ids[changed[0]]}'{more} has changed since the run began, and "
                f"was not forgotten; {_UPDATE}",
                code="labels-changed",
            )
        numbers = {name: number for number, name in enumerate(self.names)}
        codes = [numbers.get(text, UNKNOWN) for text in texts]
        return torch.from_numpy(np.where(same, codes, UNKNOWN))

    def places_of(self, ids: Array) -> Array:
        """Return where the rows of this run stand in a list of ids, which may hold more."""
        places = {row.tobytes(): at for at, row in enumerate(_people(self.secret, ids, self.align))}
        lost = sum(row.tobytes() not in places for row in self.people)
        if lost:
            raise RunError(
                f"{lost} rows of the run are missing in its table now; {_UPDATE}",
                code="rows-changed",
            )
        return np.array([places[row.tobytes()] for row in self.people], dtype=np.int64)

    def buried_people(self) -> set[bytes]:
        """Return whose labels were forgotten, in this run's own names for people."""
        rows = (*self.people[self.tombstones == FORGOTTEN], *self.elsewhere)
        return {row.tobytes() for row in rows}

    def stones(self, ids: Array) -> Array:
        """Return the tombstones of some people, 0 of a label that stays, -1 of who is in no row."""
        held = zip(map(bytes, self.people), self.tombstones.tolist(), strict=True)
        stones = dict(held) | dict.fromkeys(map(bytes, self.elsewhere), FORGOTTEN)
        people = _people(self.secret, ids, self.align)
        return np.array([stones.get(bytes(row), UNKNOWN) for row in people], dtype=np.int64)

    def buried(self, rows: Array) -> LabelRecord:
        """Return the record with tombstones on some more rows, by a mask."""
        return replace(self, tombstones=np.where(rows, FORGOTTEN, self.tombstones).astype(np.uint8))

    def purged(self) -> LabelRecord:
        """Return the record without keys and commitments of the rows with tombstones."""
        kept = (self.tombstones == 0).astype(np.uint8)[:, None]
        return replace(self, keys=self.keys * kept, commitments=self.commitments * kept)

    def is_purged(self) -> bool:
        """Return whether nothing is left of the labels of rows with tombstones."""
        rows = self.tombstones > 0
        return not (self.keys[rows].any() or self.commitments[rows].any())

    def _difference(self, ids: Array, people: Array) -> str:
        was, now = ({row.tobytes() for row in part} for part in (self.people, people))
        new = [
            text for text, row in zip(ids.tolist(), people, strict=True) if row.tobytes() not in was
        ]
        lost, first = len(was - now), f", '{new[0]}' being the first" if new else ""
        return (
            f"The rows have changed since the run began: {lost} are missing and {len(new)} are "
            f"new{first}; {_UPDATE}"
        )


@dataclass(frozen=True)
class Update:
    """What stays forgotten where a run begins anew with other rows.

    record  of the run until then
    labels_forgotten  names of whole labels that were forgotten
    people_forgotten  ids of people whose labels are to be forgotten with this training
    may_lack          a label may be missing that was never forgotten, and names stand in the order
                      of a run that begins now
    """

    record: LabelRecord
    labels_forgotten: frozenset[str]
    people_forgotten: frozenset[str] = frozenset()
    may_lack: bool = False

    def labels(self, ids: Array, cells: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
        """Return the labels of rows, `UNKNOWN` where they are forgotten, and all labels' names.

        The names until then keep their numbers. A label that was forgotten and comes back, or that
        of a person who was, is taken for unknown; every other row needs one, unless `may_lack`.
        """
        align = self.record.align
        asked = {normalise(text, align) for text in self.people_forgotten}
        past = self.record.stones(ids) == FORGOTTEN
        past |= np.array([normalise(text, align) in asked for text in ids.tolist()], dtype=bool)
        read = label_reader((*self.labels_forgotten, *self.record.names))
        other = label_form if self.may_lack else str
        texts = [read(cell) or other(cell) for cell in cells]
        past |= np.isin(texts, sorted(self.labels_forgotten))
        blank = np.flatnonzero(~past & (np.array(texts) == ""))
        if self.may_lack:
            past[blank] = True
        elif len(blank):
            raise DataError(f"Row '{ids[blank[0]]}' has no label, and none of it was forgotten.")
        new = sorted({text for text, is_past in zip(texts, past, strict=True) if not is_past})
        names = (*self.record.names, *(n for n in new if n not in self.record.names))
        expect_apart(names[len(self.record.names) :])
        near = {name.casefold(): name for name in self.labels_forgotten}
        for name in names[len(self.record.names) :]:
            if name.casefold() in near:
                raise DataError(
                    f"Label '{name}' is new, and differs from the forgotten "
                    f"'{near[name.casefold()]}' in case alone; write it otherwise."
                )
        if self.may_lack and list(self.record.names) == sorted(self.record.names):
            names = tuple(sorted(names))
        numbers = {name: number for number, name in enumerate(names)}
        return np.array([numbers.get(t, 0) for t in texts]) * ~past + UNKNOWN * past, names


#: What gives the rows of a run their labels once it has begun.
Bound = LabelRecord | Update


def _people(secret: str, ids: Array, align: AlignSettings) -> Array:
    """Return the run's own names for people, which only its secret links to ids."""
    pads = _pads(np.frombuffer(bytes.fromhex(secret), np.uint8))
    inside, outside = (hashlib.sha256(pad.tobytes()) for pad in pads)

    def name(form: str) -> bytes:
        first, last = inside.copy(), outside.copy()
        first.update(form.encode())
        last.update(first.digest())
        return last.digest()

    return _stacked(map(name, forms_of(ids, align)))


def _marks(keys: Array, texts: Sequence[str]) -> Array:
    """Return HMAC-SHA-256(key, text) of each row."""
    sha, codes = hashlib.sha256, {text: text.encode() for text in set(texts)}
    marks = []
    for start in range(0, len(keys), PIECE):
        inside, outside = (pad.tobytes() for pad in _pads(keys[start : start + PIECE]))
        for number, text in enumerate(texts[start : start + PIECE]):
            block = slice(BLOCK * number, BLOCK * number + BLOCK)
            marks.append(sha(outside[block] + sha(inside[block] + codes[text]).digest()).digest())
    return _stacked(marks)


def _pads(keys: Array) -> tuple[Array, Array]:
    """Return what HMAC puts before a text, and before the hash of both: K ^ 36.. and K ^ 5c..

    HMAC(K, text) = H(K ^ 5c.. | H(K ^ 36.. | text)), with K filled up with 0 to a block of H
    (RFC 2104). One call of `hmac.digest` a row takes twice as long as both hashes.
    """
    padded = np.zeros((*keys.shape[:-1], BLOCK), np.uint8)
    padded[..., : keys.shape[-1]] = keys
    return padded ^ np.uint8(0x36), padded ^ np.uint8(0x5C)


def _stacked(rows: Iterable[bytes]) -> Array:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, SIZE)
