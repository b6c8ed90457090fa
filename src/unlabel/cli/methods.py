"""`unlabel methods`: every way to forget, what it needs and what it tells the partners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unlabel.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from unlabel.forget import Method


def methods(json: Json = False) -> None:
    """List the methods of forgetting, what each needs, and what it tells the partners."""
    from unlabel.forget import METHODS
    from unlabel.forget.method import build

    listed = [_facts(name, build(name)) for name in METHODS.names()]
    if json:
        print_json({"methods": listed})
        return
    rows = [["method", "visibility", "aims at", "needs", "what it does, and what partners learn"]]
    for facts in listed:
        does = f"{facts['about']}\nPartners learn: {facts['discloses']}"
        rows.append([facts["name"], facts["visibility"], facts["depth"], facts["needs"], does])
    print_table("Methods", rows, lines=True)


def _facts(name: str, method: Method) -> dict[str, Any]:
    from unlabel.forget.method import settings_of

    disclosure = method.disclosure
    return {
        "name": name,
        "about": method.about,
        "visibility": method.visibility,
        "depth": method.aim,
        "people": method.people,
        "needs": method.needs,
        "discloses": method.tells_partners,
        "names_rows": disclosure.names_rows(),
        "rows": sorted(disclosure.rows),
        "gradients": sorted(disclosure.gradients),
        "messages": sorted(disclosure.messages),
        "settings": settings_of(method),
        "presets": sorted(method.presets()),
    }
