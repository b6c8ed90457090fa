"""`unlabel methods`: every way to forget, what it needs and what it tells the partners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unlabel.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from unlabel.forget import Method


def methods(json: Json = False) -> None:
    """List the methods of forgetting, what each needs, and what it tells the partners."""
    from unlabel.forget import METHODS

    found = [_facts(name, METHODS.get(name)()) for name in METHODS.names()]
    if json:
        print_json({"methods": found})
        return
    rows = [["method", "mode", "needs", "what it does, and what partners learn"]]
    for facts in found:
        does = f"{facts['about']}\nPartners learn: {facts['discloses']}"
        rows.append([facts["name"], facts["mode"], facts["needs"], does])
    print_table("Methods", rows, lines=True)


def _facts(name: str, method: Method) -> dict[str, Any]:
    from unlabel.forget.method import settings_of

    told = method.tells()
    return {
        "name": name,
        "about": method.about,
        "mode": method.mode(),
        "people": method.people,
        "needs": method.needs(),
        "discloses": method.discloses,
        "names_rows": method.names_rows(),
        "rows": sorted(told.rows),
        "gradients": sorted(told.gradients),
        "messages": sorted(told.messages),
        "settings": settings_of(method),
        "presets": sorted(method.presets()),
    }
