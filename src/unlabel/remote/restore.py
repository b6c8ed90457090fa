"""The way back from a backup: a kit's state, or where there is no kit, the whole of it.

All of a backup is written aside and checked before anything of the kit is touched: within the
kit's folder where there is one, which may be a file system of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from unlabel.config.loader import parse_form
from unlabel.errors import DataError, RunError
from unlabel.files import LOCK, OWNER_ONLY, sync_folder, writing
from unlabel.party.ledger import Ledger
from unlabel.remote import revocation
from unlabel.remote.backup import INDEX, SCHEMA, STATE, Index, newest_version
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import PARTY
from unlabel.remote.sealing import MAGIC, OpeningReader
from unlabel.remote.turns import COMMAND, PREDICTING

#: In a kit's state: what its desk holds for as long as it runs.
DESK = "desk/desk.lock"
#: Bytes that are copied at a time, and those of the longest index.
BLOCK, LONGEST_INDEX = 2**20, 64 * 2**20


def restore(source: Path, folder: Path, passphrase: str | None = None, *, older: bool) -> Index:
    """Put a backup in place of a kit's state, or where there is no kit, the whole kit.

    All of it is written aside and checked first: a damaged file changes nothing.

    older  restore it although the kit remembers more than the backup does
    """
    folder = folder.resolve()
    is_new = not folder.exists()
    is_empty = folder.is_dir() and not any(folder.iterdir())
    present = None if is_new or is_empty else Kit.read(folder)
    with contextlib.ExitStack() as ending:
        if present is not None:  # nobody works on it meanwhile
            desk = (DESK,) if (present.state / DESK).exists() else ()
            for name in (LOCK, COMMAND, PREDICTING, *desk):
                ending.enter_context(present.lock(name))
        with writing(folder):
            place = folder.parent if is_new else folder
            place.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=place))
        ending.callback(shutil.rmtree, draft, ignore_errors=True)
        index = _unpack(source, draft, passphrase)
        if present is None:
            restored = Kit.read(draft)
            if (restored.name, restored.digest) != (index.party, index.agreement):
                raise _damaged(source)
            with writing(folder):
                if is_new:
                    draft.replace(folder)
                else:  # without party.yaml, which comes last, it is no kit
                    for path in sorted(draft.iterdir(), key=lambda each: each.name == PARTY):
                        path.replace(folder / path.name)
                sync_folder(place)
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
    newest = newest_version(kit.home)
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
