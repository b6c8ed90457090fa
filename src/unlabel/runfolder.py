"""The folder of a run: when it may be begun, and what it starts with.

RUN/
  run.yaml         the run's settings
  metrics.jsonl    a line an epoch
  active/          one subfolder a party, which only that party's code opens
  PARTY/
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from unlabel.compat import OLD_RUN_FILE
from unlabel.config import RunConfig
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, RunError
from unlabel.files import (
    DRAFT,
    EXPORTS,
    OWNER_ONLY,
    RUN_FILE,
    beside,
    sync_folder,
    write_atomically,
    writing,
)
from unlabel.forget.deferred import deferred_in
from unlabel.forget.slots import Queue
from unlabel.party import Ledger
from unlabel.party.deciding import UPDATING, deciding

#: Whether to replace a run; `forgotten` also one that has forgotten something.
Overwrite = bool | Literal["forgotten"]

CERTIFICATE = "certificate.json"
#: What a run writes into its folder, and a party into its own.
RUN_FILES = {
    *(RUN_FILE, OLD_RUN_FILE, "metrics.jsonl", "report.html"),
    *(CERTIFICATE, "certificate.annex", EXPORTS),
}
LONGEST_NAME = 255
PARTY_FILES = {
    *("alignment.safetensors", "table.parquet", "table.columns.jsonl", "encoding.json"),
    *("data-notes.txt", "audit.json", "ledger.jsonl", "transcript.jsonl", "labels.safetensors"),
    *("retrained", "versions", "staged", "unchanged", "secrets", "base", "label-free", UPDATING),
}


class TemporaryFolder:
    """A folder for a run that is kept in none: readable to its owner alone, gone with the object.

    A process that is killed leaves it behind, in the system's folder for temporary files.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="unlabel-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    """Remove a temporary folder, in the process that made it: its children may end before it."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def expect_usable(folder: Path, *, overwrite: Overwrite) -> None:
    """Raise unless a run may start in a folder: a new one, or a run that is to be replaced."""
    if any(len(part.encode()) > LONGEST_NAME for part in folder.parts):
        raise RunError(f"Cannot write '{folder}': a name in it is too long; choose another --out.")
    with writing(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise RunError(f"'{folder}' is a file, not a run folder; choose another --out.")
        held = sorted(folder.iterdir())
        strange = [path.name for path in held if not _is_of_run(path)] if overwrite else []
    if strange:
        # All of it would be deleted, so a single file that no run writes is reason to refuse.
        raise RunError(
            f"'{folder}' is not only a run folder: it also has '{strange[0]}', so it is not "
            f"overwritten; choose another --out."
        )
    if overwrite:
        _requests_lost(folder, overwrite)
    # A run that was killed before its first file was whole left nothing to go on with.
    if not overwrite and [path.name for path in held] not in ([], [f"{RUN_FILE}.part"]):
        raise RunError(
            f"Run folder '{folder}' exists; add --resume to go on with it, --overwrite to replace "
            f"it, or choose another --out (in Python: Federation.open, overwrite=True)."
        )


def _is_of_run(path: Path) -> bool:
    if path.is_dir():
        return path.name == "tensorboard" or not {p.name for p in path.iterdir()} - PARTY_FILES
    return path.name.removesuffix(".part") in RUN_FILES


def start_folder(folder: Path, config: RunConfig, *, overwrite: Overwrite) -> None:
    """Begin a run's folder, in place of the run that is there if `overwrite`."""
    if overwrite and folder.exists():
        with writing(folder):
            (folder / ACTIVE).mkdir(exist_ok=True)
        with deciding(folder / ACTIVE), writing(folder):
            forgotten = _requests_lost(folder, overwrite)  # also what came while data was read
            shutil.rmtree(folder)
        if forgotten:
            # Before the settings: there is no run until they are there.
            note = {"requests": list(forgotten), "why": "overwritten on purpose"}
            Ledger(folder / ACTIVE, mode=OWNER_ONLY).append("overwrite", forgotten[-1], note)
    write_config(folder, config)


def requests_in(folder: Path) -> tuple[str, ...]:
    """Return the requests that a run carried out or lets wait, as far as can be read."""
    home = folder / ACTIVE
    try:
        entries = Ledger(home, mode=OWNER_ONLY).entries()
        queued = ["queued" for _ in Queue(home).waiting()]  # such a request has no id yet
        waiting = [each.request for each in deferred_in(home)]
    except (CheckpointError, RunError):
        return ("unreadable",)
    past = [id for e in entries if e.event == "overwrite" for id in e.note["requests"]]
    past += [id for e in entries if e.event == "update" for id in e.note.get("deferred", ())]
    noted = [e.request for e in entries if e.event in ("commit", "defer")]
    return (*queued, *dict.fromkeys((*past, *waiting, *noted)))


def _requests_lost(folder: Path, overwrite: Overwrite) -> tuple[str, ...]:
    """Return the requests of a run that is to be replaced; raise unless they may be discarded."""
    requests = requests_in(folder)
    if requests and overwrite is True:
        raise RunError(
            f"Run '{folder}' has forgotten something, or is to ({len(requests)} requests), and a "
            f"new run would learn it again; take changed tables with `unlabel train --update`, or "
            f"add --discard-forgotten, which is recorded.",
            code="has-forgotten",
        )
    return requests


def swap(folder: Path, update: Path) -> None:
    """Put an updated run in the place of the one that it replaces; see `finish_swap`."""
    with writing(folder):
        folder.rename(beside(folder, "before"))
        finish_swap(folder, update)


def finish_swap(folder: Path, update: Path | None = None) -> None:
    """Finish what `swap` began, where a crash interrupted it; else nothing happens."""
    before, update = beside(folder, "before"), update or beside(folder, DRAFT)
    if not before.is_dir():
        return
    with writing(folder):
        if not folder.exists():
            update.rename(folder)
            sync_folder(folder.parent)
        shutil.rmtree(before)


@contextlib.contextmanager
def draft_of(folder: Path) -> Iterator[Path]:
    """Give a folder in which the update of a run is made; unless that succeeds, nothing is left."""
    draft = beside(folder, DRAFT)
    shutil.rmtree(draft, ignore_errors=True)  # of one that was killed
    try:
        yield draft
    except BaseException:
        if not beside(folder, "before").exists():
            shutil.rmtree(draft, ignore_errors=True)
        raise


def write_config(folder: Path, config: RunConfig) -> None:
    """Keep the configuration in the run's folder; tables that lie in it go with it."""
    home = folder.resolve()

    def inside(table: Path) -> Path:
        return table.relative_to(home) if table.is_relative_to(home) else table

    # Imported late: a run in no folder of the user's needs neither pydantic nor YAML.
    from unlabel.config.loader import dump

    write_atomically(folder / RUN_FILE, dump(config.with_tables(inside)).encode())
    (folder / OLD_RUN_FILE).unlink(missing_ok=True)


def read_config_of(folder: Path) -> RunConfig:
    """Read the configuration that a run's folder keeps."""
    from unlabel.config.loader import read_run_folder

    return read_run_folder(folder)


def certified_version(folder: Path) -> int | None:
    """Return the version that the certificate in a run's folder is about; nothing is checked."""
    try:
        body = json.loads((folder / CERTIFICATE).read_bytes())["certificate"]
        version = body.get("version", body["parties"][ACTIVE]["part"]["version"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return version if isinstance(version, int) else None


def ledgers_in(folder: Path) -> tuple[str, ...]:
    """Return the passive parties whose ledgers lie in a run's folder."""
    config = read_config_of(folder)
    return () if config.is_remote() else tuple(p for p in config.party_names() if p != ACTIVE)
