"""What an annex discloses to the auditor: the request itself, and how well it is known to hold.

    {"what": "unlabel annex 2", "request": "..", "asked": {"labels": [..]} or {"people": [..]},
     "key": "..", "method": "..", "secret": true, "legal_basis": "..", "recipients": {..},
     "depth": "..", "audit": {..} or null, "not_tested": [..], "forced": true, false or null,
     "demand": SHA-256 of the demand's file or null}

HMAC-SHA-256(key, asked) is the commitment that every party's ledger holds; `audit` is what the
hash in the certificate, `figures`, is of (`audit/binding.py`).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel import compat
from unlabel.audit import Verdict
from unlabel.audit.binding import disclosed, is_of, noted_audit
from unlabel.errors import CheckpointError, SettingsError, unknown
from unlabel.forget.request import commit_to
from unlabel.party import LedgerEntry
from unlabel.party.attesting import DIGEST
from unlabel.report.wording import NEVER_TESTED
from unlabel.signing import is_hex
from unlabel.terms import DEPTHS, Visibility

#: The form of what a sealed annex holds.
DISCLOSURE = "unlabel annex 2"
REACHABLE = ("none", *DEPTHS)
NO_FIGURES = ("No figures of an audit of this request are at hand.",)


def disclosure(
    home: Path,
    line: LedgerEntry,
    audit: Verdict | None,
    depth: str | None,
    parties: Sequence[str],
    legal_basis: str | None,
    informed: Sequence[str],
    demand: str | None = None,
) -> dict[str, Any]:
    """Return what the auditor reads of a request.

    home      the active party's folder, which holds the key of the commitment
    line      of the commit in its ledger
    depth     that the certificate states
    informed  parties that know what the request is about
    demand    SHA-256 of the demand's file
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
        "depth": depth,
        "audit": None if audit is None else disclosed(audit),
        "not_tested": [*(NO_FIGURES if audit is None else audit.unknown), *NEVER_TESTED],
        "forced": _at_commit(line).get("forced"),
        "demand": demand,
    }


def visibility_of(note: Mapping[str, Any]) -> Visibility:
    """Return whether the partners can tell what a request forgot."""
    return "hidden" if note.get("hidden") else "open"


def is_secret(note: Mapping[str, Any]) -> bool:
    """Return whether a request's names are kept back, as in every hidden one."""
    return bool(note.get("hidden") or note.get("secret"))


def noted_depth(entries: Sequence[LedgerEntry], line: LedgerEntry) -> tuple[str | None, str | None]:
    """Return the depth that the last audit found and the hash of its figures, as far as noted.

    By the newest line of an audit; else by the line of the commit. Neither is known where there was
    no audit, and versions 0.6 and 0.7 noted no hash.
    """
    noted = noted_audit(entries, line.request) or _at_commit(line)
    if not is_of(noted, _weights_after(line)):  # it judged others than those that were committed
        return None, None
    depth, figures = compat.depth(noted), noted.get("figures")
    known = depth in REACHABLE
    return (depth if known else None), (figures if known and is_hex(figures, DIGEST) else None)


def _weights_after(line: LedgerEntry) -> object:
    """Return the digest of the weights that a commit made the active party's."""
    change = line.note.get("weights")
    return change[-1] if isinstance(change, list) and change else None


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
