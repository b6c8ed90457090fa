"""Measures of forgetting that others published, one file each, beside those of the audit.

They are for comparing and judge nothing here: an audit does not take them. Each says whose it is,
and where its definition could not be read in full, that it is our reading.
"""

from __future__ import annotations

from unlabel.audit.measure import Measure
from unlabel.registry import Registry

#: By name; a new one is a new file in this folder.
RIVALS: Registry[type[Measure]] = Registry("rival measure", package="unlabel_bench.rivals")


def rivals() -> dict[str, Measure]:
    """Return all of them by name, with their defaults."""
    return {name: RIVALS.get(name)() for name in RIVALS.names()}
