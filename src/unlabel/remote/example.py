"""Three organisations as an example: one knows digits, two hold halves of their images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unlabel.data import ACTIVE, load_dataset
from unlabel.files import write_atomically

#: Of all images each organisation knows this share, and so many that nobody else knows.
KNOWN, STRANGERS = 0.95, 60
#: Columns of pixels that each passive party holds.
HALVES = {"left": slice(0, 4), "right": slice(4, 8)}
TABLES = {ACTIVE: "labels.csv"} | {name: f"{name}.csv" for name in HALVES}


def write_tables(folder: Path) -> int:
    """Write one table an organisation, each with other rows in another order.

    Return how many ids are in all of them.
    """
    import pandas as pd

    digits = load_dataset("digits")
    count = len(digits.y)
    rng = np.random.default_rng(0)
    ids = np.array([f"image-{number:04d}" for number in range(count)])
    common = set(ids.tolist())
    for name, file in TABLES.items():
        if name == ACTIVE:
            columns = {"digit": digits.y}
        else:
            pixels = digits.x[:, 0, :, HALVES[name]].reshape(count, -1)
            columns = {f"pixel{place}": values for place, values in enumerate(pixels.T)}
        known = pd.DataFrame({"id": ids, **columns}).sample(frac=KNOWN, random_state=rng)
        strangers = known.sample(STRANGERS, random_state=rng)
        strangers["id"] = [f"image-{name}-{number}" for number in range(STRANGERS)]
        common &= set(known["id"])
        rows = pd.concat([known, strangers]).sample(frac=1, random_state=rng)
        write_atomically(folder / file, rows.to_csv(index=False).encode())
    return len(common)


def tables_in(folder: Path) -> dict[str, Path]:
    """Return where each organisation's table lies in a folder."""
    return {name: folder / file for name, file in TABLES.items()}


def settings(port: int, *, epochs: int, more: str = "") -> str:
    """Return the federation.yaml of the three."""
    return f"""\
name: digits
server: {{host: localhost, port: {port}}}
active: {{label: digit}}
passive: [{{name: left}}, {{name: right}}]
model: {{bottom: mlp}}
train: {{epochs: {epochs}}}
{more}"""
