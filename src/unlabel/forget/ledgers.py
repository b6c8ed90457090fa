"""The ledgers of a run, read from its folder and held against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError
from unlabel.files import OWNER_ONLY
from unlabel.party import Ledger, LedgerEntry


def read_ledgers(folder: Path, parties: Iterable[str]) -> Mapping[str, list[LedgerEntry]]:
    """Return the ledger of every party whose subfolder lies here; a broken or cut one raises.

    parties  names of the passive parties, none where they keep their ledgers themselves

    No data and no model is opened for it.
    """
    found = {ACTIVE: Ledger(folder / ACTIVE, mode=OWNER_ONLY).entries()}
    found |= {name: Ledger(folder / name).entries() for name in parties if name != ACTIVE}
    for entry in found[ACTIVE]:
        for party, head in entry.note.get("heads", {}).items():
            if head and party in found and head not in {e.hash for e in found[party]}:
                raise CheckpointError(
                    f"Ledger '{party}/ledger.jsonl' was cut off: it lacks a line that the active "
                    f"party saw in it at {entry.at}."
                )
    return found
