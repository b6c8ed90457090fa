"""What decides, when a run begins or is opened, its labels, the parts of its rows and its numbers.

Where bottoms are made without labels nothing of it that a partner sees depends on a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from unlabel.config import RunConfig, TrainSettings
from unlabel.config.label_free import suited_to_tables
from unlabel.data import Rows, draw_rows
from unlabel.data.cells import label_form
from unlabel.data.dataset import Array, Layout
from unlabel.train.epochs import resolve
from unlabel.train.label_record import Bound, LabelRecord
from unlabel.train.parts import known_labels, parts_by_id

#: The label-free objective that suits features of each layout.
SUITED = {"text": "contrast", "image": "contrast", "views": "contrast"}


def bound_labels(
    config: RunConfig, ids: Array, cells: Sequence[str], test: Array | float, bound: Bound
) -> tuple[Tensor, tuple[str, ...], Rows]:
    """Return labels, their names and the parts of rows, as a run has them or begins with anew."""
    if isinstance(bound, LabelRecord):
        return bound.open(ids, cells), bound.names, bound.rows
    codes, names = bound.labels(ids, cells)
    if config.is_label_free:
        labels, names = known_labels(torch.from_numpy(codes), names)
        return labels, names, drawn_rows(config, ids, codes, test)
    known = np.flatnonzero(codes >= 0)  # what was forgotten is in no part of the rows
    if not isinstance(test, float):
        test = np.flatnonzero(np.isin(known, test))
    drawn = drawn_rows(config, ids, codes[known], test)
    places = torch.from_numpy(known)
    rows = Rows(*(places[getattr(drawn, part.name)] for part in fields(Rows)))
    return torch.from_numpy(codes), names, rows


def in_one_form(labels: Tensor, names: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels and names, each in the form in which labels are compared.

    A gap makes 1.0 of a 1 in a column of numbers, and no other label.

    >>> in_one_form(torch.tensor([0, 2, 1]), ("", "1.0", "2.0"))
    (tensor([0, 2, 1]), ('', '1', '2'))
    """
    forms = [label_form(name) for name in names]
    if forms == list(names):
        return labels, tuple(names)
    whole = sorted(set(forms))
    return torch.tensor([whole.index(form) for form in forms])[labels], tuple(whole)


def without_blanks(labels: Tensor, names: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels `UNKNOWN` where the table has an empty cell, and the names of the others."""
    blank = torch.tensor([number for number, name in enumerate(names) if name == ""])
    if not len(blank):
        return labels, tuple(names)
    return known_labels(labels, names, torch.isin(labels, blank).nonzero()[:, 0].tolist())


def drawn_rows(config: RunConfig, ids: Array, labels: Array, test: Array | float) -> Rows:
    """Draw the parts of the rows: by their ids, or in the same proportion of every label."""
    settings = config.train
    if config.is_label_free:
        validation, seed = settings.validation, settings.seed
        return parts_by_id(ids, test=test, validation=validation, seed=seed, align=config.align)
    return draw_rows(
        labels,
        test=test,
        validation=settings.validation,
        seed=settings.seed,
        public=settings.public,
    )


def with_numbers(config: RunConfig, rows: Rows) -> TrainSettings:
    """Return how to train together on these rows, which a blind run does not."""
    return config.train if config.bottoms == "blind" else resolve(config.train, rows)


def with_objective(config: RunConfig, layout: Layout | None = None) -> RunConfig:
    """Return the run with the label-free objective that suits its features, where it needs one.

    layout  of a dataset; None for the parties' own tables
    """
    if not config.is_label_free:
        return config
    frozen = config.model.text.frozen
    if layout is None or layout == "table":
        texts = any(each is not None and each.text for each in (config.active, *config.passive))
        suits = suited_to_tables(config.bottoms, texts=texts, frozen=frozen)
    else:
        suits = "pretrained" if frozen else SUITED[layout]
    return replace(config, label_free=config.label_free.resolved(suits))
