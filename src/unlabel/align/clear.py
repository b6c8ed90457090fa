"""Rows matched by id in the clear.

This stands in for private set intersection: it needs all ids in one place, so it is only for
simulations in one process, where one person holds all the tables anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError


def match_ids(ids: Mapping[str, Array]) -> dict[str, Array]:
    """Return for each party the positions of the common ids, in one order for all.

    The order is that of the first party's table.

    >>> rows = match_ids({"bank": np.array(["a", "b", "c"]), "shop": np.array(["c", "x", "a"])})
    >>> {party: list(map(int, positions)) for party, positions in rows.items()}
    {'bank': [0, 2], 'shop': [2, 0]}
    """
    first, *others = ids
    common = set(ids[first].tolist()).intersection(*(ids[party].tolist() for party in others))
    if not common:
        parties = ", ".join(f"'{party}'" for party in ids)
        raise DataError(
            f"The tables of {parties} have no id in common; check that the id columns "
            f"hold the same kind of id."
        )
    order = [value for value in ids[first].tolist() if value in common]
    positions = {
        party: {v: i for i, v in enumerate(column.tolist())} for party, column in ids.items()
    }
    return {
        party: np.array([where[value] for value in order], dtype=np.int64)
        for party, where in positions.items()
    }
