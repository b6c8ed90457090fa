"""The folder of a run: when it may be begun, and what it starts with.

RUN/
  run.yaml         the run's settings
  metrics.jsonl    a line an epoch
  active/          one subfolder a party, which only that party's code opens
  PARTY/
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from unlabel.compat import OLD_RUN_FILE
from unlabel.config import RunConfig
from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.files import RUN_FILE, write_atomically, writing

#: What a run writes into its folder, and a party into its own.
RUN_FILES = {
    *(RUN_FILE, OLD_RUN_FILE, "metrics.jsonl", "report.html"),
    *("certificate.json", "certificate.annex"),
}
LONGEST_NAME = 255
PARTY_FILES = {
    *("alignment.safetensors", "table.parquet", "table.columns.jsonl", "encoding.json"),
    *("data-notes.txt", "audit.json", "ledger.jsonl", "transcript.jsonl"),
    *("retrained", "versions", "staged", "unchanged", "secrets"),
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


def expect_usable(folder: Path, *, overwrite: bool) -> None:
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


def start_folder(folder: Path, config: RunConfig, *, overwrite: bool) -> None:
    """Begin a run's folder, in place of the run that is there if `overwrite`."""
    if overwrite and folder.exists():
        with writing(folder):
            shutil.rmtree(folder)
    write_config(folder, config)


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


def ledgers_in(folder: Path) -> tuple[str, ...]:
    """Return the passive parties whose ledgers lie in a run's folder."""
    config = read_config_of(folder)
    return () if config.is_remote() else tuple(p for p in config.party_names() if p != ACTIVE)
