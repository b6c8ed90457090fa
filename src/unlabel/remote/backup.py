"""A copy of a kit with all that its party keeps, in one file; and the way back.

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
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from unlabel._version import __version__
from unlabel.config.loader import parse_form
from unlabel.errors import DataError, RunError
from unlabel.files import LOCK, OWNER_ONLY, sync_folder, writing
from unlabel.party.ledger import Ledger
from unlabel.remote import revocation
from unlabel.remote.kit import Kit
from unlabel.remote.sealing import MAGIC, OpeningReader, SealingWriter
from unlabel.remote.turns import COMMAND, SERVING, WANTED

SCHEMA, INDEX = "unlabel backup 1", "backup.json"
STATE = "state"
#: What is made anew by itself, or tells nothing that is needed: logs, sockets, the engine's files.
LEFT_OUT = ("logs", "links", "engine", "admin", "serving", LOCK, COMMAND, WANTED, SERVING)
#: A party's transcript is a log too, and what a crash left half-written is nothing.
LEFT_OUT_NAMES = ("transcript.jsonl", "transcript.jsonl.1")
#: How often a copy is begun anew because something changed meanwhile, and seconds in between.
TRIES, PAUSE = 20, 0.25
#: Bytes that are copied at a time, and those of the longest index.
BLOCK, LONGEST_INDEX = 2**20, 64 * 2**20


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
                with SealingWriter(file, passphrase) as sealing:
                    yield cast(BinaryIO, sealing)
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
        version=_newest(kit.home),
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


def _newest(home: Path) -> int:
    numbers = (path.stem for path in (home / "versions").glob("*.json"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def restore(source: Path, folder: Path, passphrase: str | None = None, *, older: bool) -> Index:
    """Put a backup in place of a kit's state, or where there is no kit, the whole kit.

    All of it is written beside the kit and checked first: a damaged file changes nothing.

    older  restore it although the kit remembers more than the backup does
    """
    folder = folder.resolve()
    present = Kit.read(folder) if folder.exists() else None
    with contextlib.ExitStack() as ending:
        if present is not None:  # nobody works on it meanwhile
            ending.enter_context(present.lock())
            ending.enter_context(present.lock("command"))
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        ending.callback(shutil.rmtree, draft, ignore_errors=True)
        index = _unpack(source, draft, passphrase)
        if present is None:
            restored = Kit.read(draft)
            if (restored.name, restored.digest) != (index.party, index.agreement):
                raise _damaged(source)
            with writing(folder):
                draft.replace(folder)
                sync_folder(folder.parent)
            return index
        _expect_same(present, index, source)
        if not older:
            _expect_no_older(present, draft, index)
        _swap_state(present, draft)
        return index


def _unpack(source: Path, draft: Path, passphrase: str | None) -> Index:
    """Write the files of a backup into a folder, each checked against the index."""
    try:
        with source.open("rb") as file:
            sealed = file.read(len(MAGIC)) == MAGIC
            file.seek(0)
            if sealed and passphrase is None:
                raise RunError(
                    f"'{source}' is under a passphrase; give --passphrase-file.",
                    code="not-a-backup",
                )
            reader = OpeningReader(file, passphrase) if passphrase is not None else file
            with tarfile.open(fileobj=cast(BinaryIO, reader), mode="r|") as archive:
                return _checked(archive, draft, source)
    except (OSError, tarfile.TarError, DataError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise RunError(f"Cannot restore '{source}': {error.strerror}.") from error
        raise _damaged(source) from error


def _checked(archive: tarfile.TarFile, draft: Path, source: Path) -> Index:
    members = iter(archive)
    first = next(members, None)
    if first is None or first.name != INDEX or not first.isfile() or first.size > LONGEST_INDEX:
        raise _damaged(source)
    index = parse_form(Index, json.loads(cast(BinaryIO, archive.extractfile(first)).read()))
    if index.schema != SCHEMA:
        raise _damaged(source)
    missing = dict(index.files)
    for member in members:
        entry = missing.pop(member.name, None)
        if entry is None or not member.isfile() or not _is_inside(member.name):
            raise _damaged(source)
        path, digest = draft / member.name, hashlib.sha256()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = cast(BinaryIO, archive.extractfile(member))
        mode = entry.mode & 0o700 | OWNER_ONLY
        with open(path, "xb", opener=lambda n, f, mode=mode: os.open(n, f, mode)) as file:  # type: ignore[misc]
            while block := content.read(BLOCK):
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if (digest.hexdigest(), path.stat().st_size) != (entry.sha256, entry.size):
            raise _damaged(source)
    if missing:
        raise _damaged(source)
    return index


def _is_inside(name: str) -> bool:
    """Return whether a name in a backup, which anybody may have written, lies within its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _damaged(source: Path) -> RunError:
    return RunError(
        f"'{source}' is no whole backup of a party, or was changed; nothing was restored.",
        code="not-a-backup",
    )


def _expect_same(kit: Kit, index: Index, source: Path) -> None:
    if (kit.name, kit.digest) != (index.party, index.agreement):
        raise RunError(
            f"'{source}' is of party '{index.party}' under agreement {index.agreement[:12]}, and "
            f"the kit of '{kit.name}' under {kit.digest[:12]}; take that one's backup.",
            code="other-party",
        )


def _expect_no_older(kit: Kit, draft: Path, index: Index) -> None:
    """Raise where the kit remembers more than a backup: lines of its ledger, or a version."""
    ours = Ledger(kit.home).entries()
    home = draft / kit.home.relative_to(kit.folder)
    theirs = {"", *(entry.hash for entry in Ledger(home).entries())}
    lacking = [entry for entry in ours if entry.hash not in theirs]
    newest = _newest(kit.home)
    if not lacking and index.version >= newest:
        return
    events = ", ".join(sorted({entry.event for entry in lacking}))
    what = (
        f"{len(lacking)} lines of the kit's ledger ({events}), and would bring back what was "
        f"forgotten or purged since"
        if lacking
        else f"version {newest}, which the kit has"
    )
    raise RunError(
        f"The backup of {index.at} lacks {what}. Restore a newer one; or, where the kit's own "
        f"state is lost, add --older: then the other parties decide whether it can go on.",
        code="older-backup",
    )


def _swap_state(kit: Kit, draft: Path) -> None:
    """Put the state of a backup in place of a kit's; what belongs to the kit itself stays."""
    new, old = draft / STATE, draft / "replaced"
    new.mkdir(mode=0o700, exist_ok=True)
    revoked = new / kit.revoked.name
    if revoked.is_file():  # of this list and the kit's own the newer holds
        revocation.take(kit, revoked.read_bytes(), "the backup")
    if kit.revoked.is_file():
        shutil.copy2(kit.revoked, revoked)
    if kit.logs.is_dir():  # which a backup has none of
        shutil.copytree(kit.logs, new / kit.logs.name)
    with writing(kit.state):
        if kit.state.exists():
            kit.state.replace(old)
        new.replace(kit.state)
        sync_folder(kit.folder)
