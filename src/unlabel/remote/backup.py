"""A copy of a kit with all that its party keeps, in one file; `restore.py` has the way back.

The file is a tar archive: first `backup.json` with the SHA-256, size and mode of every file, then
these. It is copied while the party runs: every file of a kit is written aside and renamed, so where
no file has changed between a look before and one after the copy, the copy is of one moment.

A backup holds the party's private keys, its weights and, at the active party, what was forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from unlabel._version import __version__
from unlabel.errors import RunError
from unlabel.files import LOCK, OWNER_ONLY, sync_folder, writing
from unlabel.party.ledger import Ledger
from unlabel.remote.kit import Kit
from unlabel.remote.sealing import SealingWriter
from unlabel.remote.serving_note import SERVING
from unlabel.remote.turns import COMMAND, PREDICTING, WANTED

SCHEMA, INDEX = "unlabel backup 1", "backup.json"
STATE = "state"
#: What is made anew by itself, or tells nothing that is needed: logs, sockets, the engine's files.
LEFT_OUT = ("logs", "links", "engine", "admin", LOCK, SERVING, COMMAND, WANTED, PREDICTING)
#: A party's transcript is a log too, and what a crash left half-written is nothing.
LEFT_OUT_NAMES = ("transcript.jsonl", "transcript.jsonl.1")
#: How often a copy is begun anew because something changed meanwhile, and seconds in between.
TRIES, PAUSE = 20, 0.25


class _Changed(Exception):
    """A file changed or went while it was copied: the copy is begun anew."""


@dataclass(frozen=True)
class Entry:
    """A file of a backup."""

    sha256: str
    size: int
    mode: int


@dataclass(frozen=True)
class Index:
    """What a backup says of itself.

    ledger   the end of the party's ledger, and its number of lines
    version  the newest one
    """

    schema: str
    party: str
    agreement: str
    software: str
    at: str
    ledger: str
    lines: int
    version: int
    files: dict[str, Entry]


def back_up(kit: Kit, target: Path, passphrase: str | None = None) -> Index:
    """Write a copy of a kit into one file that its owner alone may read."""
    if target.exists():
        raise RunError(f"'{target}' exists already; give a new name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.part")
    try:
        for _ in range(TRIES):
            before = _seen(kit)
            with contextlib.suppress(_Changed), writing_backup(draft, passphrase) as out:
                index = _copy(kit, before, out)
                if _seen(kit) == before:
                    break
            time.sleep(PAUSE)
        else:
            raise RunError(
                f"Party {kit.name} kept writing while it was copied; try between two commands."
            )
        with writing(target):
            draft.replace(target)
            sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)
    return index


@contextlib.contextmanager
def writing_backup(path: Path, passphrase: str | None) -> Iterator[BinaryIO]:
    """Yield what the archive is written to."""
    with writing(path):
        path.unlink(missing_ok=True)
        # "x": what somebody lays there meanwhile, in a folder of many users, is not written to.
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, OWNER_ONLY)) as file:
            if passphrase is None:
                yield file
            else:
                sealing = SealingWriter(file, passphrase)
                yield cast(BinaryIO, sealing)
                sealing.end()
            file.flush()
            os.fsync(file.fileno())


def _seen(kit: Kit) -> dict[str, tuple[int, int, int]]:
    """Return by name what shows that a file was changed: its inode, size and time."""
    seen = {}
    for path in sorted(kit.folder.rglob("*")):
        name = path.relative_to(kit.folder)
        if _belongs(name) and not path.is_symlink() and path.is_file():
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                seen[name.as_posix()] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return seen


def _belongs(name: Path) -> bool:
    if name.parts[0] == STATE and len(name.parts) > 1 and name.parts[1] in LEFT_OUT:
        return False
    return name.name not in LEFT_OUT_NAMES and name.suffix != ".part"


def _copy(kit: Kit, seen: dict[str, tuple[int, int, int]], out: BinaryIO) -> Index:
    files = {name: _entry(kit.folder / name) for name in seen}
    entries = Ledger(kit.home).entries()
    index = Index(
        schema=SCHEMA,
        party=kit.name,
        agreement=kit.digest,
        software=f"unlabel {__version__}",
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        ledger=entries[-1].hash if entries else "",
        lines=len(entries),
        version=newest_version(kit.home),
        files=files,
    )
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        text = json.dumps(asdict(index)).encode()
        _add(archive, INDEX, io.BytesIO(text), len(text))
        for name, entry in files.items():
            with _reading(kit.folder / name) as file:
                _add(archive, name, file, entry.size)
    return index


def _entry(path: Path) -> Entry:
    with _reading(path) as file:
        facts = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Entry(digest, facts.st_size, facts.st_mode & 0o777)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[io.BufferedReader]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise _Changed from error
    with file:
        yield file


def _add(archive: tarfile.TarFile, name: str, file: Any, size: int) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, OWNER_ONLY
    try:
        archive.addfile(about, file)
    except OSError as error:
        if error.errno is None:  # it became shorter meanwhile
            raise _Changed from error
        raise


def newest_version(home: Path) -> int:
    """Return the number of the newest version in a party's folder, 0 where it has none."""
    numbers = (path.stem for path in (home / "versions").glob("*.json"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
