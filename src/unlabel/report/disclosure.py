"""What an annex discloses to the auditor: the request itself, and how well it is known to hold.

    {"what": "unlabel annex 2", "request": "..", "asked": {"labels": [..]} or {"people": [..]},
     "key": "..", "method": "..", "secret": true, "legal_basis": "..", "recipients": {..},
     "depth": "..", "audit": {..} or null, "not_tested": [..], "forced": true, false or null}

HMAC-SHA-256(key, asked) is the commitment that every party's ledger holds.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel import compat
from unlabel.audit import Verdict
from unlabel.errors import CheckpointError, SettingsError, unknown
from unlabel.forget.request import commit_to
from unlabel.party import LedgerEntry
from unlabel.report.wording import NEVER_TESTED
from unlabel.terms import DEPTHS, Visibility

#: The form of what a sealed annex holds.
DISCLOSURE = "unlabel annex 2"
#: What of a verdict the auditor is given; pictures and messages stand in the report.
OF_VERDICT = (
    *("state", "visibility", "method", "settings", "depth", "demanded", "passed", "findings"),
    *("measures", "privacy", "thresholds", "facts"),
)
REACHABLE = ("none", *DEPTHS)
NO_FIGURES = ("No figures of an audit of this request are at hand.",)


def disclosure(
    home: Path,
    line: LedgerEntry,
    audit: Verdict | None,
    parties: Sequence[str],
    legal_basis: str | None,
    informed: Sequence[str],
) -> dict[str, Any]:
    """Return what the auditor reads of a request.

    home      the active party's folder, which holds the key of the commitment
    line      of the commit in its ledger
    informed  parties that know what the request is about
    """
    for party in informed:
        if party not in parties:
            raise SettingsError(unknown("party", party, parties))
    asked, key = opening(home, line)
    return {
        "what": DISCLOSURE,
        "request": line.request,
        "asked": asked,
        "key": key,
        "method": line.note.get("method"),
        "secret": bool(line.note.get("secret")),
        "legal_basis": legal_basis,
        "recipients": {party: {"informed": party in informed} for party in parties},
        "depth": depth_of(audit, line),
        "audit": None if audit is None else _figures(audit),
        "not_tested": [*(NO_FIGURES if audit is None else audit.unknown), *NEVER_TESTED],
        "forced": _at_commit(line).get("forced"),
    }


def visibility_of(note: Mapping[str, Any]) -> Visibility:
    """Return whether the partners can tell what a request forgot."""
    return "hidden" if note.get("hidden") else "open"


def is_secret(note: Mapping[str, Any]) -> bool:
    """Return whether a request's names are kept back, as in every hidden one."""
    return bool(note.get("hidden") or note.get("secret"))


def depth_of(audit: Verdict | None, line: LedgerEntry) -> str | None:
    """Return the depth an audit found: the last one, or the one the commit noted; else None."""
    depth = compat.depth(_at_commit(line)) if audit is None else audit.depth
    return str(depth) if depth in REACHABLE else None


def _at_commit(line: LedgerEntry) -> Mapping[str, Any]:
    """Return what the active party's ledger noted of an audit when the request was committed."""
    noted = line.note.get("audit")
    return noted if isinstance(noted, Mapping) else {}


def opening(home: Path, line: LedgerEntry) -> tuple[dict[str, Any], str]:
    """Return what a request asked for and the key of its commitment, which must fit together."""
    name = f"{home.name}/secrets/{line.request}.json"
    try:
        asked = json.loads((home / "secrets" / f"{line.request}.json").read_text(encoding="utf-8"))
        key = str(asked.pop("key"))
        fits = hmac.compare_digest(commit_to(asked, key), str(line.note["commitment"]))
    except OSError as error:
        raise CheckpointError(
            f"The key of the commitment to request {line.request} cannot be read from '{name}' "
            f"({error.strerror}); without it neither an annex can be made nor a certificate of a "
            f"secret request."
        ) from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"'{name}' is truncated or was changed.") from error
    if not fits:
        raise CheckpointError(
            f"'{name}' was changed: it does not open the commitment in the ledger; restore it "
            f"from a backup."
        )
    return asked, key


def _figures(audit: Verdict) -> Any:
    """Return the verdict as plain data, without what is only drawn."""
    plain = audit.to_json()
    for measurement in plain["measures"].values():
        for figure in measurement["values"].values():
            del figure["detail"]
    return _speakable({name: plain[name] for name in OF_VERDICT})


def _speakable(value: Any) -> Any:
    """Return plain data that JSON can say: what is not finite becomes a word."""
    if isinstance(value, Mapping):
        return {str(name): _speakable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    return value
