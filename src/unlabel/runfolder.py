"""The folder of a run: when it may be begun, and what it starts with.

RUN/
  config.yaml      the run's settings
  metrics.jsonl    a line an epoch
  active/          one subfolder a party, which only that party's code opens
  PARTY/
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.files import write_atomically, writing
from unlabel.train import RunConfig

#: What a run writes into its folder, and a party into its own.
RUN_FILES = {"report.html", "config.yaml", "metrics.jsonl", "certificate.json", "certificate.annex"}
LONGEST_NAME = 255
PARTY_FILES = {
    "alignment.safetensors",
    "table.parquet",
    "table.columns.jsonl",
    "encoding.json",
    "data-notes.txt",
    "audit.json",
    "retrained",
    "versions",
    "staged",
    "secrets",
    "ledger.jsonl",
    "transcript.jsonl",
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
    with writing(folder):
        _expect_usable(folder, overwrite=overwrite)


def _expect_usable(folder: Path, *, overwrite: bool) -> None:
    if any(len(part.encode()) > LONGEST_NAME for part in folder.parts):
        raise RunError(f"Cannot write '{folder}': a name in it is too long; choose another --out.")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"'{folder}' is a file, not a run folder; choose another --out.")
    held = sorted(folder.iterdir())
    if overwrite:
        # All of it will be deleted, so a single file that no run writes is reason to refuse.
        strange = [path.name for path in held if not _is_of_run(path)]
        if strange:
            raise RunError(
                f"'{folder}' is not only a run folder: it also has '{strange[0]}', so it is not "
                f"overwritten; choose another --out."
            )
    # A run that was killed before its first file was whole left nothing to go on with.
    elif [path.name for path in held] not in ([], ["config.yaml.part"]):
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

    config = replace(
        config,
        active=config.active and replace(config.active, table=inside(config.active.table)),
        passive=[
            replace(party, table=inside(party.table)) if party.table else party
            for party in config.passive
        ],
    )
    # Imported late: a run in no folder of the user's needs neither pydantic nor YAML.
    from unlabel.configfile import dump_config

    write_atomically(folder / "config.yaml", dump_config(config).encode())


def read_config_of(folder: Path) -> RunConfig:
    """Read the configuration that a run's folder keeps."""
    from unlabel.configfile import read_run_config

    return read_run_config(folder)


def ledgers_in(folder: Path) -> tuple[str, ...]:
    """Return the passive parties whose ledgers lie in a run's folder."""
    config = read_config_of(folder)
    return () if config.is_remote() else tuple(p for p in config.party_names() if p != ACTIVE)
