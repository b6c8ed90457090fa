"""What the data is: the columns of a table, pictures, and how features split between parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from unlabel.config.checks import expect, one_of
from unlabel.errors import SettingsError

Missing = Literal["refuse", "mean", "flag", "drop"]
FeatureChoice = Literal["rest", "none"] | list[str]
Colour = Literal["auto", "grey", "colour"]
Augment = Literal["none", "crop", "crop-flip"]
SplitKind = Literal["strips", "views", "columns", "texts"]
#: Parties of an experiment: how many, how wide each, or the width of each by name.
Parties = int | Sequence[int] | Mapping[str, int]

MAX_PARTIES = 8
ACTIVE = "active"
#: A run keeps its curves in a subfolder of this name, beside those of the parties.
RESERVED = "tensorboard"
#: How the names of files end that hold a dataset of a user's own.
ARRAYS, SHEETS = (".npz",), (".csv", ".csv.gz", ".parquet", ".feather", ".arrow")


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns of a party's table.

    id          column of ids
    features    rest (every other column), none (active party only), or the names of columns
    categories  columns whose numbers are codes of categories; text is taken for one anyway
    missing     refuse missing values, take their mean, mark them beside (flag), or drop their rows
    text        column of texts, which then is the one feature
    """

    id: str = "id"
    features: FeatureChoice = "rest"
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: str | None = None

    def __post_init__(self) -> None:
        one_of("missing", self.missing, get_args(Missing))
        if self.text is not None and (self.features != "rest" or self.categories):
            raise SettingsError(
                f"Expected no `features` and no `categories` beside `text`, since '{self.text}' is "
                f"the one feature of such a table; leave them out."
            )

    def columns(self) -> dict[str, Any]:
        """Return these settings by name, for another file about the same table."""
        return {each.name: getattr(self, each.name) for each in fields(TableColumns)}


@dataclass(frozen=True, kw_only=True)
class ActiveColumns(TableColumns):
    """The columns of the active party's table: those of any other, and that of the labels."""

    label: str


@dataclass(frozen=True)
class Columns:
    """What the columns of a CSV, Parquet or Arrow file are, where it is the whole data of a run.

    label       column of labels
    text        column of texts; without it all other columns are a table
    split       column that says `test` of the rows to test on; a share is drawn without it
    test        file of the rows to test on, beside the first one
    id          column that names the rows and is no feature; row numbers from 0 without it
    categories  columns of a table whose numbers are codes of categories; text is taken for one
    missing     values of a table: refuse, mean, flag or drop, as in the tables of parties
    """

    label: str = "label"
    text: str = ""
    split: str = ""
    test: str = ""
    id: str = ""
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"


@dataclass(frozen=True)
class Pictures:
    """How pictures are made of files that hold other sizes, or no pictures at all.

    size    pixels along each side
    colour  grey, colour, or auto: grey where all pictures are
    views   of a mesh, from cameras evenly around it; 0 is as many as the parties hold
    """

    size: int = 64
    colour: Colour = "auto"
    views: int = 0

    def __post_init__(self) -> None:
        expect("size", self.size, 8 <= self.size <= 1024, "8 to 1024 pixels")
        expect("views", self.views, self.views >= 0, "0 or more")

    def grey(self) -> Pictures:
        """Return the same for files that show no colours, unless colours are asked for."""
        return replace(self, colour="grey") if self.colour == "auto" else self


def is_file_name(name: str) -> bool:
    """Return whether a dataset is named by its file.

    >>> is_file_name("people.csv.gz"), is_file_name("digits")
    (True, False)
    """
    return name.endswith(ARRAYS + SHEETS)


def part_widths(parties: Parties, available: int, *, active_part: bool = False) -> dict[str, int]:
    """Return the width of each part by the name of its party.

    >>> part_widths(3, 8)
    {'passive-1': 3, 'passive-2': 3, 'passive-3': 2}
    """
    first = [ACTIVE] if active_part else []
    if isinstance(parties, int):
        check_count(parties)
        count = parties + len(first)
        if count > available:
            raise SettingsError(
                f"Expected at most {available} parts for features {available} wide but got {count}."
            )
        even = [available // count + (i < available % count) for i in range(count)]
        return dict(zip(first + _names(parties), even, strict=True))
    if not isinstance(parties, Mapping):
        check_count(len(parties) - len(first))
        parties = dict(zip(first + _names(len(parties) - len(first)), parties, strict=True))
    elif active_part and ACTIVE not in parties:
        raise SettingsError(
            f"Expected `parties` to give a width to '{ACTIVE}' too, where it has a part, "
            f"but got {', '.join(parties)}."
        )
    for name in parties:
        check_name(name)
    check_count(len([name for name in parties if name != ACTIVE]))
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
        raise SettingsError(f"Expected a name of letters, digits, '-' and '_' but got '{name}'.")
    if name == RESERVED:
        raise SettingsError(f"Expected a party to have another name than '{name}', which is taken.")


def _names(count: int) -> list[str]:
    return [f"passive-{i + 1}" for i in range(count)]


def check_count(count: int) -> None:
    """Raise unless there are as many passive parties as a federation can have."""
    if not 1 <= count <= MAX_PARTIES:
        raise SettingsError(f"Expected 1 to {MAX_PARTIES} passive parties but got {count}.")
