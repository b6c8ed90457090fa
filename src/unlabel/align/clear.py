"""Rows matched by id in the clear.

It needs all ids in one place, so it is only for runs in one process, where one person holds all the
tables anyway. Between organisations ids are matched by private set intersection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unlabel.align.normal import normalise_all
from unlabel.align.settings import AlignSettings
from unlabel.data.dataset import Array
from unlabel.errors import DataError


def match_ids(ids: Mapping[str, Array], settings: AlignSettings | None = None) -> dict[str, Array]:
    """Return for each party the positions of the common ids, in one order for all.

    The order is that of the first party's table. Ids are compared in the form that `settings` give
    them, as between organisations.

    >>> rows = match_ids({"bank": np.array(["a", "b", "c"]), "shop": np.array(["c", "x", "a"])})
    >>> {party: list(map(int, positions)) for party, positions in rows.items()}
    {'bank': [0, 2], 'shop': [2, 0]}
    """
    rule = settings or AlignSettings()
    forms = {party: normalise_all(column, rule, party) for party, column in ids.items()}
    first, *others = forms
    common = set(forms[first]).intersection(*(forms[party] for party in others))
    if not common:
        raise DataError(_nothing_common(forms))
    order = [value for value in forms[first] if value in common]
    positions = {party: {v: i for i, v in enumerate(column)} for party, column in forms.items()}
    return {
        party: np.array([where[value] for value in order], dtype=np.int64)
        for party, where in positions.items()
    }


def _nothing_common(forms: Mapping[str, Sequence[str]]) -> str:
    """Say which party lacks the ids of the first, or that no two lack the same."""
    first, *others = forms
    own = set(forms[first])
    shared = {party: len(own.intersection(forms[party])) for party in others}
    lacking = [party for party, number in shared.items() if number == 0]
    if not others or not own:
        found = f"that of '{first}' has no rows"
    elif lacking:
        names = " and ".join(f"'{party}'" for party in lacking)
        have = "have" if len(lacking) > 1 else "has"
        found = f"{names} {have} none of the {len(own)} ids of '{first}', such as '{min(own)}'"
    else:
        counts = ", ".join(f"'{party}' has {number}" for party, number in shared.items())
        found = f"of the {len(own)} ids of '{first}', {counts}, but none is in all tables"
    parties = ", ".join(f"'{party}'" for party in forms)
    return (
        f"The tables of {parties} have no id in common: {found}; check that the id columns hold "
        f"the same kind of id, and `align`."
    )
