"""`unlabel methods`: every way to forget, what it needs and what it tells the partners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unlabel.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from unlabel.forget import Method


def methods(json: Json = False) -> None:
    """List the methods of forgetting, what each needs, and what it tells the partners."""
    from unlabel.forget import METHODS
    from unlabel.forget.exact_methods import EXACT, EXACT_NAMES
    from unlabel.forget.method import build

    listed = [{**_facts(name, build(name)), "guarantee": "measured"} for name in METHODS.names()]
    exact = [
        {**_facts(EXACT_NAMES[kind], method()), "guarantee": "exact", "bottoms": kind}
        for kind, method in EXACT.items()
    ]
    if json:
        print_json({"methods": listed, "exact": exact})
        return
    rows = [["method", "visibility", "aims at", "needs", "what it does, and what partners learn"]]
    rows += [
        [each["name"], each["visibility"], each["depth"], each["needs"], _does(each)]
        for each in listed
    ]
    print_table("Methods of runs whose bottoms are supervised", rows, lines=True)
    rows = [["method", "visibility", "depth", "guarantee", "what it does, and what partners learn"]]
    rows += [
        [each["name"], each["visibility"], each["depth"], each["guarantee"], _does(each)]
        for each in exact
    ]
    print_table("The one method of a blind run, and that of a tuned one", rows, lines=True)


def _does(facts: dict[str, Any]) -> str:
    return f"{facts['about']}\nPartners learn: {facts['discloses']}"


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
