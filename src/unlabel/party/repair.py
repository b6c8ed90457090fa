"""How a party's operator drops versions that nobody else has, and that keep it from going on.

Versions move by one since 0.11. An older release took any number, and a party that was made to
keep version 4611686018427387904 could never be given the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unlabel.errors import RunError
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger


@dataclass(frozen=True)
class Kept:
    """The versions on a party's disk, and those that are only staged."""

    versions: tuple[int, ...]
    staged: tuple[int, ...]


def _store(home: Path) -> CheckpointStore:
    """Return the store of a party's folder, to list and to drop: nothing in it is read."""
    return CheckpointStore(home, party="", model="")


def kept_in(home: Path) -> Kept:
    """Return which versions lie in a party's folder."""
    store = _store(home)
    return Kept(store.versions(), store.staged.versions())


def drop_newer(home: Path, newest: int) -> Kept:
    """Drop every version newer than this one, staged ones too; return what was dropped.

    newest  the version that the label holder is on, which must be here

    A version that the ledger calls committed stays: to drop it would bring back what was forgotten.
    So does what is staged to follow `newest`, for the label holder may have decided to keep it.
    """
    store, kept = _store(home), kept_in(home)
    if newest not in kept.versions:
        listed = ", ".join(map(str, kept.versions)) or "none"
        raise RunError(
            f"Version {newest} does not lie here, and nothing was dropped; kept: {listed}."
        )
    for entry in Ledger(home).entries():
        version = entry.note.get("version", 0) if entry.event == "commit" else 0
        if isinstance(version, int) and version > newest:
            raise RunError(
                f"Request {entry.request} was committed as version {version}, and nothing was "
                f"dropped: to go back behind it would bring back what was forgotten. Have the "
                f"label holder run `unlabel recover`, or put this folder back from a backup."
            )
    dropped = Kept(
        tuple(v for v in kept.versions if v > newest),
        tuple(v for v in kept.staged if v > newest + 1),
    )
    for each, most in ((store, newest), (store.staged, newest + 1)):
        each.retain(tuple(v for v in each.versions() if v <= most))
    return dropped
