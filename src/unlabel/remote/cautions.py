"""What an operator should read before a party is started, one sentence each."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from unlabel.config import Policy
from unlabel.errors import RunError
from unlabel.models.registry import top_of
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import OLD_FOLDERS, is_of_old
from unlabel.remote.manifest import changed_settings


def cautions(kit: Kit) -> list[str]:
    """Return what is unusual in a kit: code, wide rules, what is not signed, what was changed."""
    return [*_of_code(kit), *_of_policy(kit), *_of_signature(kit), *_of_changes(kit)]


def _of_code(kit: Kit) -> list[str]:
    """Models that are code of somebody's, which runs in the process that holds the table."""
    model = kit.agreement.model
    names = [model.bottom_of(kit.name), *([top_of(model)] if kit.is_active else [])]
    return [
        f"Model '{name}' is code that is not unlabel's own: it runs in the process that holds your "
        f"table, and no policy stands between. Read it before you start."
        for name in names
        if ":" in name
    ]


def _of_policy(kit: Kit) -> list[str]:
    """Limits of a passive party that are wider than unlabel's own."""
    if kit.is_active:
        return []
    policy, default = kit.policy, Policy()
    wider = [
        f"{each.name} {_shown(getattr(policy, each.name))} ({_shown(getattr(default, each.name))})"
        for each in fields(Policy)
        if is_wider(each.name, getattr(policy, each.name), getattr(default, each.name))
    ]
    if not wider:
        return []
    return [
        f"The policy is wider than unlabel's own, in brackets: {', '.join(wider)}. It is all that "
        f"stands between the label holder and this party's model."
    ]


def is_wider(name: str, value: Any, default: Any) -> bool:
    """Return whether a limit lets more through than another.

    >>> is_wider("max_rows", 10**9, 16_384), is_wider("min_common", 1, 100)
    (True, True)
    >>> is_wider("max_steps_a_day", 0, 500), is_wider("max_steps_a_day", 500, 0)
    (True, False)
    >>> is_wider("layers", True, False)
    True
    """
    if name == "serves":
        return bool(set(value) - set(default))
    if name.startswith("min_"):
        return bool(value < default)
    if name == "max_gradient_jump" or name.endswith("_a_day"):  # 0 is no limit
        return bool(value == 0 != default or 0 != default < value)
    return bool(value > default)


def _of_signature(kit: Kit) -> list[str]:
    if kit.agreement.authority:
        return []
    old = [name for name in OLD_FOLDERS if (kit.folder / name).is_dir()]
    ignored = f" Of {' and '.join(old)}/, nothing but certificates and keys is read." if old else ""
    if not is_of_old(kit.folder) and not old:
        return ["The files of this kit are not signed: nothing shows what was changed on the way."]
    return [f"This kit is of 0.10 or before: its files are not signed.{ignored}"]


def _of_changes(kit: Kit) -> list[str]:
    try:
        changes = changed_settings(kit)
    except RunError:
        return []  # which the check of the kit says
    if not changes:
        return []
    listed = ", ".join(
        f"{name} {_shown(now)} ({_shown(before)})" for name, (before, now) in changes.items()
    )
    return [f"party.yaml was changed since it was handed out, in brackets: {listed}."]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
