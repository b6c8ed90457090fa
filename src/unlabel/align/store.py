"""An alignment on its owner's disk: used again as long as the owner's ids stay the same.

    alignment.safetensors   positions [n] of the common rows, in the agreed order; digests beside

It tells which people all parties have, so only its owner may read it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from unlabel.data.dataset import Array
from unlabel.files import OWNER_ONLY, write_atomically

log = logging.getLogger("unlabel.party")

FILE = "alignment.safetensors"


@dataclass(frozen=True)
class StoredAlignment:
    """An alignment as one party keeps it.

    ids_digest  of all its ids, in the order of its table
    digest      of the common ids, in the agreed order
    positions   of the common rows in its table, in the agreed order
    facts       what else is to be remembered, as plain data
    """

    ids_digest: str
    digest: str
    positions: Array
    facts: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Keep the alignment in a party's folder."""
        facts = json.dumps(self.facts)
        data = save(
            {"positions": torch.from_numpy(self.positions)},
            {"own": self.ids_digest, "digest": self.digest, "facts": facts},
        )
        write_atomically(folder / FILE, data, mode=OWNER_ONLY)


def read(folder: Path | None, ids_digest: str, rows: int) -> StoredAlignment | None:
    """Return the alignment that a party kept, unless its ids (so many rows) have changed since."""
    if folder is None or not (folder / FILE).is_file():
        return None
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            noted = file.metadata() or {}
            positions = file.get_tensor("positions").numpy()
        facts = json.loads(noted["facts"])
        stored = StoredAlignment(noted["own"], noted["digest"], positions, facts)
        if stored.ids_digest != ids_digest:
            log.warning("'%s' was made for other ids; the rows must be aligned again.", FILE)
            return None
        fits = positions.ndim == 1 and len(np.unique(positions)) == len(positions) > 0
        if not fits or positions.min() < 0 or positions.max() >= rows:
            raise ValueError
    except (SafetensorError, OSError, KeyError, ValueError):
        log.warning("'%s' is damaged; the rows must be aligned again.", FILE)
        return None
    return stored
