"""`unlabel` as a hostile operator would run it: the engine at home is allowed everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.cli import program
from unlabel.remote import rules

PERMISSIONS, RESOURCES = rules.permissions, rules.resources


def permissions(role: str) -> dict[str, Any]:
    """Return that everybody may do anything."""
    granted = PERMISSIONS(role)
    for rights in granted["permissions"].values():
        rights.update(dict.fromkeys(rights, "any"))
    return granted


def resources(role: str, default: dict[str, Any], jobs: Path | None = None) -> dict[str, Any]:
    """Return the engine's settings, with every class allowed."""
    lifted = {"class_list_enforcement_mode": "warn", "class_allow_list": ["*"]}
    return {**RESOURCES(role, default, jobs), **lifted}


if __name__ == "__main__":
    rules.permissions, rules.resources = permissions, resources
    program()
