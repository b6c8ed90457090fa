"""How features are shared out between parties, and rows between train, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from unlabel.config.data import Parties, SplitKind, part_widths
from unlabel.data.dataset import Array, Dataset, Layout
from unlabel.errors import DataError, SettingsError

#: Share of a label's training rows that may be set aside as public, so that little data stays.
PUBLIC_SHARE = 0.1
#: The layout of features that each way to split them needs.
_FITS = {"strips": "image", "views": "views", "columns": "table", "texts": "text"}
#: Texts have no width; shares of them are given in hundredths.
WHOLE_TEXT = 100


def split_features(
    x: Array,
    layout: Layout,
    parties: Parties,
    *,
    active_part: bool = False,
    blocks: Sequence[int] = (),
) -> dict[str, Tensor]:
    """Share features out: strips of images, views of objects, columns of a table.

    With `active_part` the first part belongs to the active party and comes under its name.

    blocks  how many numbers each column of a table became; they stay with one party

    >>> parts = split_features(np.zeros((9, 1, 8, 8)), "image", {"left": 5, "right": 3})
    >>> {name: tuple(part.shape) for name, part in parts.items()}
    {'left': (9, 1, 8, 5), 'right': (9, 1, 8, 3)}
    """
    axis = 3 if layout == "image" else 1
    ends = np.cumsum([0, *(blocks or [1] * x.shape[axis])])
    widths = part_widths(parties, len(ends) - 1, active_part=active_part)
    parts, start = {}, 0
    for name, width in widths.items():
        piece = x.take(range(ends[start], ends[start + width]), axis=axis)
        parts[name] = torch.from_numpy(np.ascontiguousarray(piece))
        start += width
    return parts


def split_texts(
    texts: Sequence[str], parties: Parties, *, active_part: bool = False
) -> dict[str, list[str]]:
    """Give each party its stretch of every text; words stay whole.

    With shares w_1 .. w_K of their sum W and n words, party k holds the words from
    round(n (w_1 + .. + w_k-1) / W) to round(n (w_1 + .. + w_k) / W).

    >>> split_texts(["where is my card"], 2)
    {'passive-1': ['where is'], 'passive-2': ['my card']}
    """
    widths = part_widths(parties, WHOLE_TEXT, active_part=active_part)
    ends = np.cumsum([0, *widths.values()]) / sum(widths.values())
    parts: dict[str, list[str]] = {name: [] for name in widths}
    for text in texts:
        words = text.split()
        cuts = np.rint(ends * len(words)).astype(int)
        for name, first, last in zip(widths, cuts, cuts[1:], strict=False):
            parts[name].append(" ".join(words[first:last]))
    return parts


def check_split(dataset: Dataset, kind: SplitKind | None) -> None:
    """Raise where a dataset cannot be split in the way that was asked for."""
    if kind is not None and _FITS[kind] != dataset.layout:
        possible = next(k for k, layout in _FITS.items() if layout == dataset.layout)
        raise SettingsError(
            f"Dataset '{dataset.name}' holds {dataset.layout} features and cannot be split "
            f"by '{kind}'; use '{possible}'."
        )


@dataclass(frozen=True)
class Rows:
    """Which rows train, guide early stopping and tuning, test, and are set aside as public."""

    train: Tensor
    validation: Tensor
    test: Tensor
    public: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))


def draw_rows(
    labels: Array, *, test: Array | float, validation: float, seed: int, public: int = 0
) -> Rows:
    """Draw the parts at random, each label in the same proportion.

    `test` holds the rows of an official test part, or the share to draw; `public` is how many
    rows of each label are set aside, at most `PUBLIC_SHARE` of those that would train.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(len(labels))
    if isinstance(test, float):
        rest, tested = _draw(rows, labels, test, rng)
    else:
        rest, tested = np.setdiff1d(rows, test), np.asarray(test)
    train, validated = _draw(rest, labels, validation, rng)
    train, aside = _draw(train, labels, PUBLIC_SHARE, rng, most=public)
    if len(np.unique(labels[train])) < 2:
        raise DataError(
            "The training rows hold a single label or none; a classifier needs at least two: "
            "lower `test` and `validation`, or bring more data."
        )
    if len(tested) == 0:
        raise DataError("No test rows are left; raise `test` or bring more data.")
    return Rows(*(torch.from_numpy(np.sort(part)) for part in (train, validated, tested, aside)))


def _draw(
    rows: Array, labels: Array, share: float, rng: np.random.Generator, most: int | None = None
) -> tuple[Array, Array]:
    """Split `rows` into the rest and a share of each label, `most` rows a label at most."""
    taken = [rows[:0]]
    for label in np.unique(labels[rows]):
        of_label = rng.permutation(rows[labels[rows] == label])
        taken.append(of_label[: round(share * len(of_label))][:most])
    drawn = np.concatenate(taken)
    return np.setdiff1d(rows, drawn), drawn
