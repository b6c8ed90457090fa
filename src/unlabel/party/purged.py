"""What a party's ledger says of its versions: which was decided last, and what a purge took away.

A folder that was restored from a backup shows by it: files of before a purge lie there although the
ledger has the purge, or the ledger lacks lines that others saw in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from unlabel.errors import CheckpointError
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger, LedgerEntry
from unlabel.party.passive import RECEIVED


def decided_version(entries: Sequence[LedgerEntry]) -> int:
    """Return the newest version that was committed or left by a purge, 0 if none was."""
    return max((_version(e) for e in entries if e.event in ("commit", "purge")), default=0)


def purged_version(entries: Sequence[LedgerEntry]) -> int:
    """Return the version that the last purge left: older ones are gone. 0 before the first."""
    return max((_version(e) for e in entries if e.event == "purge"), default=0)


def _version(entry: LedgerEntry) -> int:
    version = entry.note.get("version")
    return version if isinstance(version, int) else 0


def expect_purged(store: CheckpointStore, ledger: Ledger) -> None:
    """Raise where files lie there that a purge removed: a backup brought them back."""
    left = purged_version(ledger.entries())
    stores = (store, store.staged, store.unchanged)
    # Those of a bottom that is being made without labels begin with 1, whatever was before.
    older = sorted(
        {
            v
            for each in stores
            for v in each.versions()
            if v < left and RECEIVED not in each.facts(v)
        }
    )
    if older:
        numbers = ", ".join(str(version) for version in older)
        raise CheckpointError(
            f"Version {numbers} of party '{store.party}' lies there, but its ledger says that all "
            f"before version {left} was purged; remove these files, which a backup brought back."
        )
