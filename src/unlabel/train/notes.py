"""What a person should know of the data: labels of uneven size, rows that a party lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from unlabel.align.normal import normalise
from unlabel.config import AlignSettings, RunConfig
from unlabel.data import ACTIVE, Rows, Table

#: A label with more than so many times the rows of another calls for balance.
UNEVEN = 3
#: How many of the ids that a party lacks are shown, and how much of each.
SHOWN = 5
LONGEST = 40


def uneven_labels(
    labels: Tensor, names: Sequence[str], train: Tensor, balanced: bool
) -> tuple[str, ...]:
    """Say where the largest label has more than `UNEVEN` times the training rows of the smallest.

    train     the training rows
    balanced  whether the loss weighs all labels alike already

    >>> uneven_labels(torch.tensor([0, 0, 0, 1]), ["a", "b"], torch.arange(4), balanced=False)
    ()
    """
    known = labels[train][labels[train] >= 0]
    counts = torch.bincount(known, minlength=len(names))
    largest, smallest = int(counts.argmax()), int(counts.argmin())
    if balanced or len(known) < len(train) or counts[largest] <= UNEVEN * counts[smallest]:
        return ()
    return (
        f"Label '{names[largest]}' has {counts[largest]} training rows but '{names[smallest]}' "
        f"only {counts[smallest]}: `balance: true` under `train` weighs all labels alike.",
    )


def rare_labels(labels: Tensor, names: Sequence[str], rows: Rows) -> tuple[str, ...]:
    """Say which labels have no row in a part, where ids alone decide the parts.

    >>> rows = Rows(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
    >>> rare_labels(torch.tensor([0, 1, 1, 1]), ("a", "b"), rows)
    ("Label 'a' has no row in: validation, test. Ids alone decide the parts.",)
    """
    parts = {part.name: labels[getattr(rows, part.name)].unique() for part in fields(Rows)}
    parts = {name: held for name, held in parts.items() if len(getattr(rows, name))}
    noted = []
    for number, name in enumerate(names):
        lacking = [part for part, held in parts.items() if number not in held]
        if lacking:
            where = ", ".join(lacking)
            noted.append(f"Label '{name}' has no row in: {where}. Ids alone decide the parts.")
    return tuple(noted)


def unused_bottoms(config: RunConfig) -> tuple[str, ...]:
    """Say where a blind run has principal components in place of a bottom that the user brought."""
    if not config.is_label_free or config.label_free.objective != "components":
        return ()
    brought = sorted(
        {name for each in config.party_names() if ":" in (name := config.bottom_of(each))}
    )
    return tuple(
        f"Bottom model '{name}' is not used: tables of a blind run have principal components; to "
        f"use it choose label_free.objective contrast, or pretrained where it has its weights."
        for name in brought
    )


def note_left_out(
    tables: Mapping[str, Table], matched: Mapping[str, Table], settings: AlignSettings
) -> dict[str, Table]:
    """Return the matched tables, each with what its party lacked of the rows that were given.

    tables   as they were given, the label holder's first if it has one
    matched  the same with their common rows alone

    The rows of the label holder's table are to be predicted. Where it has none, those of all tables
    are, or of the first where ids are matched privately, since nobody sees the others' ids then.
    """
    forms = {
        party: {normalise(text, settings): text for text in table.ids.tolist()}
        for party, table in tables.items()
    }
    first = next(iter(forms))
    asked, given = forms[first], f"'{first}'"
    if first != ACTIVE and settings.method == "plaintext":
        asked = {form: text for held in forms.values() for form, text in held.items()}
        given = "the new tables"
    left_out = len(asked) - len(matched[first].ids)
    noted = {}
    for party, table in matched.items():
        lacking = [text for form, text in asked.items() if form not in forms[party]]
        remarks: tuple[str, ...] = ()
        if lacking:
            row = "no complete row" if table.encoding.missing == "drop" else "no row"
            shown = ", ".join(text[:LONGEST] for text in lacking[:SHOWN])
            more = ", ..." if len(lacking) > SHOWN else ""
            remarks = (
                f"Party '{party}' has {row} for {len(lacking)} of the {len(asked)} ids of {given} "
                f"({shown}{more}).",
            )
        noted[party] = replace(table, remarks=remarks, left_out=left_out)
    return noted


def counted_left_out(asked: int, shared: Mapping[str, int]) -> tuple[str, ...]:
    """Say how many of the ids asked for each party of a federation lacks.

    shared  by party, how many of them it has

    >>> counted_left_out(3, {"shop": 2, "gym": 3})
    ("Party 'shop' has no row for 1 of the 3 ids of 'active'.",)
    """
    return tuple(
        f"Party '{party}' has no row for {asked - number} of the {asked} ids of 'active'."
        for party, number in shared.items()
        if number < asked
    )
