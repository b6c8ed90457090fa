"""Methods of forgetting among which unlabel stands: the paper's related work, and what came since.

The lines are data (`related_work.csv`); `docs/related-work.md` is written from them by
`tools/related_work.py`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from unlabel.errors import DataError

#: Who holds what where the method was made for.
SETTINGS = ("vertical", "horizontal", "centralised")
#: How near to retraining a method comes by its own claim; a control does not forget at all.
KINDS = ("exact", "approximate", "control")
#: Whether others are kept from learning what is forgotten. A method for one owner is not asked.
PROTECTIONS = ("yes", "partly", "no", "not asked", "not known")


@dataclass(frozen=True)
class RelatedWork:
    """One method.

    year       in which it first appeared; empty where that is not known for sure
    reference  authors, title and place; empty for what was first made here
    setting    the one it was made for, of SETTINGS
    target     what is forgotten: client, class, label, sample, feature, ...
    kind       one of KINDS
    protects   one of PROTECTIONS
    note       why, or what the other columns leave out
    unlabel    its name among the methods of this package, empty where it is not there
    printed    whether it stands in the paper's table of related work
    """

    name: str
    year: str
    reference: str
    setting: str
    target: str
    kind: str
    protects: str
    note: str
    unlabel: str
    printed: bool


@cache
def table() -> tuple[RelatedWork, ...]:
    """Return every method, in the order of the file.

    >>> [work.protects for work in table() if work.unlabel == "hidden"]
    ['yes']
    """
    text = files("unlabel_bench.paper").joinpath("related_work.csv").read_text(encoding="utf-8")
    return read(text.splitlines())


def read(lines: Iterable[str]) -> tuple[RelatedWork, ...]:
    """Read methods from the lines of a CSV file; lines that begin with # are comments."""
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    columns = [field.name for field in fields(RelatedWork)]
    if rows.fieldnames is None or list(rows.fieldnames) != columns:
        raise DataError(
            f"Expected the columns {', '.join(columns)} in the file of related work but found "
            f"{', '.join(rows.fieldnames or ['none'])}."
        )
    works = []
    for row in rows:
        for column, allowed in (
            ("setting", SETTINGS),
            ("kind", KINDS),
            ("protects", PROTECTIONS),
            ("printed", ("yes", "no")),
        ):
            if row[column] not in allowed:
                raise DataError(
                    f"Expected `{column}` of '{row['name']}' to be one of {', '.join(allowed)} "
                    f"but found '{row[column]}'."
                )
        printed = row.pop("printed") == "yes"
        works.append(RelatedWork(**row, printed=printed))
    return tuple(works)
