"""`python -m unlabel_bench.paper_data.thin FILE MOST`: a part of an `.npz` file, for small runs.

Of each label MOST training rows stay, and a fifth as many test rows, drawn with a fixed seed. The
new file stands beside the old one, with the number in its name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError, SettingsError, UnlabelError, why
from unlabel_bench.paper_data.split import SEED, write_arrays

#: Training rows for one test row.
SHARE = 5


def thin(path: Path, most: int) -> Path:
    """Write the part and return its path."""
    try:
        with np.load(path, allow_pickle=False) as held:
            parts = {name: held[name] for name in held.files}
        x, y = (np.concatenate([parts[f"{n}_train"], parts[f"{n}_test"]]) for n in ("x", "y"))
        test = np.arange(len(y)) >= len(parts["y_train"])
        classes = [str(name) for name in parts["classes"]]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"Expected '{path}' to be a file of unlabel_bench.paper_data ({why(error)})."
        ) from error
    rows = chosen(y, test, most)
    out = path.with_name(f"{path.stem}_{most}.npz")
    write_arrays(out, x[rows], y[rows], test[rows], classes)
    return out


def chosen(y: Array, test: Array, most: int) -> Array:
    """Return the rows that stay, in their order.

    >>> chosen(np.array([0, 0, 0, 1, 0]), np.array([False, False, False, False, True]), 2).tolist()
    [0, 2, 3, 4]
    """
    draw = np.random.default_rng(SEED)
    kept = []
    for label in np.unique(y):
        for part, count in ((~test, most), (test, -(-most // SHARE))):
            kept.append(draw.permutation(np.flatnonzero((y == label) & part))[:count])
    return np.sort(np.concatenate(kept))


def main(words: list[str]) -> int:
    """Write the part of the named file."""
    try:
        if len(words) != 2 or not words[1].isdecimal() or not int(words[1]):
            raise SettingsError("Expected FILE MOST, with a whole number of rows a label.")
        print(thin(Path(words[0]), int(words[1])))
    except UnlabelError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
