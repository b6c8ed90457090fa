"""What an annex discloses to the auditor: the request itself, and how well it is known to hold.

    {"what": "unlabel annex 1", "request": "..", "asked": {"labels": [..]} or {"people": [..]},
     "key": "..", "method": "..", "secret": true, "legal_basis": "..", "recipients": {..},
     "level": "..", "audit": {..} or null, "not_tested": [..], "forced": true, false or null}

HMAC-SHA-256(key, asked) is the commitment that every party's ledger holds.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel.audit.measurement import Measurements, measurements_from_json
from unlabel.errors import CheckpointError, DataError, SettingsError, unknown
from unlabel.forget import METHODS
from unlabel.forget.request import commit_to
from unlabel.party import LedgerEntry
from unlabel.report.annex import ANNEX
from unlabel.report.words import NEVER_TESTED

AUDIT = "audit.json"
#: What of a verdict the auditor is given; pictures and messages stand in the report.
OF_VERDICT = (
    *("state", "mode", "method", "settings", "level", "demanded", "passed", "findings"),
    *("measures", "privacy", "thresholds", "facts"),
)
LEVELS = ("none", "output", "top", "deep")


@dataclass(frozen=True)
class AuditRecord:
    """What a certificate and its annex take from the file of an audit.

    The file is read no further than that, and what else stands there is handed on as it is.

    level     that was found
    measures  the figures behind it; empty where the file has none
    unknown   sentences: what the audit could not know
    plain     the whole file
    """

    level: str
    measures: Measurements
    unknown: tuple[str, ...]
    plain: Mapping[str, Any]


def audit_of(home: Path, request: str) -> AuditRecord | None:
    """Return what the last audit found, None where it was of another request or there was none."""
    path = home / AUDIT
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = found["level"] in LEVELS and isinstance(found["request"], str)
        if whole and found["request"] != request:
            return None
        record = AuditRecord(
            level=str(found["level"]),
            measures=measurements_from_json(found.get("measures") or {}),
            unknown=tuple(str(sentence) for sentence in found.get("unknown") or ()),
            plain=found,
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(_unreadable(path)) from error
    if not whole:
        raise DataError(_unreadable(path))
    return record


def disclosure(
    home: Path,
    line: LedgerEntry,
    audit: AuditRecord | None,
    parties: Sequence[str],
    legal_basis: str | None,
    informed: Sequence[str],
) -> dict[str, Any]:
    """Return what the auditor reads of a request.

    home      the active party's folder, which holds the key of the commitment
    line      of the commit in its ledger
    informed  parties that were told what the request is about
    """
    for party in informed:
        if party not in parties:
            raise SettingsError(unknown("party", party, parties))
    asked, key = opening(home, line)
    return {
        "what": ANNEX,
        "request": line.request,
        "asked": asked,
        "key": key,
        "method": line.note.get("method"),
        "secret": bool(line.note.get("secret")),
        "legal_basis": legal_basis,
        "recipients": {party: {"informed": party in informed} for party in parties},
        "level": level_of(audit, line),
        "audit": None if audit is None else _figures(audit.plain),
        "not_tested": [*_unknown(audit), *NEVER_TESTED],
        "forced": _at_commit(line).get("forced"),
    }


def mode_of(note: Mapping[str, Any]) -> str:
    """Return what a request was to the partners; secret where only the names were kept back."""
    if note.get("hidden"):
        return "hidden"
    name = str(note.get("method", ""))
    deep = name in METHODS.names() and METHODS.get(name)().mode() == "deep"
    return "secret" if note.get("secret") else "deep" if deep else "open"


def level_of(audit: AuditRecord | None, line: LedgerEntry) -> str | None:
    """Return the level an audit found: the last one, or the one the commit noted; else None."""
    level = _at_commit(line).get("level") if audit is None else audit.level
    return str(level) if level in LEVELS else None


def _at_commit(line: LedgerEntry) -> Mapping[str, Any]:
    """Return what the active party's ledger noted of an audit when the request was committed."""
    noted = line.note.get("audit")
    return noted if isinstance(noted, Mapping) else {}


def opening(home: Path, line: LedgerEntry) -> tuple[dict[str, Any], str]:
    """Return what a request asked for and the key of its commitment, which must fit together."""
    name = f"{home.name}/secrets/{line.request}.json"
    try:
        found = json.loads((home / "secrets" / f"{line.request}.json").read_text(encoding="utf-8"))
        key = str(found.pop("key"))
        fits = hmac.compare_digest(commit_to(found, key), str(line.note["commitment"]))
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
    return found, key


def _figures(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict without what is only drawn."""
    found = {name: audit.get(name) for name in OF_VERDICT}
    measures = {
        name: {**each, "values": {m: _value(v) for m, v in each.get("values", {}).items()}}
        for name, each in (found["measures"] or {}).items()
    }
    plain = _speakable({**found, "measures": measures})
    assert isinstance(plain, dict)
    return plain


def _value(figure: Any) -> Any:
    if not isinstance(figure, Mapping):
        return figure
    return {name: each for name, each in figure.items() if name != "detail"}


def _speakable(value: Any) -> Any:
    """Return plain data that JSON can say: what is not finite becomes a word."""
    if isinstance(value, Mapping):
        return {str(name): _speakable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    return value


def _unknown(audit: AuditRecord | None) -> Sequence[str]:
    if audit is None:
        return ["No figures of an audit of this request are at hand."]
    return audit.unknown


def _unreadable(path: Path) -> str:
    return (
        f"'{path.parent.name}/{path.name}' is not the verdict of an audit; run `unlabel audit` "
        f"again, or remove the file."
    )
