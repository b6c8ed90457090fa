"""How features are shared out between parties, and rows between train, validation and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.data.dataset import Array, Dataset, Layout
from unlabel.errors import DataError, SettingsError

SplitKind = Literal["strips", "views", "columns", "texts"]
#: Parties of an experiment: how many, how wide each, or the width of each by name.
Parties = int | Sequence[int] | Mapping[str, int]

MAX_PARTIES = 8
ACTIVE = "active"
#: A run keeps its curves in a subfolder of this name, beside those of the parties.
RESERVED = "tensorboard"

#: Share of a label's training rows that may be set aside as public, so that little data stays.
PUBLIC_SHARE = 0.1

_FITS = {"strips": "image", "views": "views", "columns": "table", "texts": "text"}
#: Texts have no width; shares of them are given in hundredths.
WHOLE_TEXT = 100


def split_features(
    dataset: Dataset, parties: Parties, *, active_part: bool = False
) -> dict[str, Tensor]:
    """Share the features of a dataset out: strips of images, views of objects, table columns.

    With `active_part` the first part belongs to the active party and comes under its name.

    >>> from unlabel.data import load_dataset
    >>> parts = split_features(load_dataset("digits"), {"left": 5, "right": 3})
    >>> {name: tuple(part.shape) for name, part in parts.items()}
    {'left': (1797, 1, 8, 5), 'right': (1797, 1, 8, 3)}
    """
    return split_array(
        dataset.x, dataset.layout, parties, active_part=active_part, blocks=dataset.blocks
    )


def split_array(
    x: Array,
    layout: Layout,
    parties: Parties,
    *,
    active_part: bool = False,
    blocks: Sequence[int] = (),
) -> dict[str, Tensor]:
    """Share features out, whoever they describe and whether their labels are known or not.

    blocks  how many numbers each column of a table became; they stay with one party
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


def part_widths(parties: Parties, available: int, *, active_part: bool = False) -> dict[str, int]:
    """Return the width of each part by the name of its party.

    >>> part_widths(3, 8)
    {'passive-1': 3, 'passive-2': 3, 'passive-3': 2}
    """
    own = [ACTIVE] if active_part else []
    if isinstance(parties, int):
        _check_count(parties)
        count = parties + len(own)
        if count > available:
            raise SettingsError(
                f"Expected at most {available} parts for features {available} wide but got {count}."
            )
        even = [available // count + (i < available % count) for i in range(count)]
        return dict(zip(own + _names(parties), even, strict=True))
    if not isinstance(parties, Mapping):
        _check_count(len(parties) - len(own))
        parties = dict(zip(own + _names(len(parties) - len(own)), parties, strict=True))
    elif active_part and ACTIVE not in parties:
        raise SettingsError(
            f"Expected `parties` to give a width to '{ACTIVE}' too, where it has a part, "
            f"but got {', '.join(parties)}."
        )
    for name in parties:
        check_name(name)
    _check_count(len([name for name in parties if name != ACTIVE]))
    widths = list(parties.values())
    if min(widths) < 1:
        raise SettingsError(f"Expected parts at least 1 wide but got the widths {widths}.")
    if sum(widths) > available:
        raise SettingsError(
            f"Expected widths that add up to at most {available}, the width of the features, "
            f"but got {widths}."
        )
    return dict(parties)


def check_name(name: str) -> None:
    """Raise unless a party's name can be the name of its folder."""
    if not name.replace("-", "").replace("_", "").isalnum():
        raise SettingsError(
            f"Expected a party's name to be of letters, digits, '-' and '_' but got '{name}'."
        )
    if name == RESERVED:
        raise SettingsError(f"Expected a party to have another name than '{name}', which is taken.")


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
        own = rng.permutation(rows[labels[rows] == label])
        taken.append(own[: round(share * len(own))][:most])
    drawn = np.concatenate(taken)
    return np.setdiff1d(rows, drawn), drawn


def _names(count: int) -> list[str]:
    return [f"passive-{i + 1}" for i in range(count)]


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_PARTIES:
        raise SettingsError(
            f"Expected 1 to {MAX_PARTIES} passive parties but got {count}; change `parties`."
        )
