"""What binds a verdict: its figures and the weights they are of, in a line of the ledger.

    {"event": "audit", "request": "9f..", "note": {"depth": "top", "demanded": "top",
     "figures": "SHA-256 of the canonical JSON of what `disclosed` returns", "weights": "SHA-256
     of the active party's file of weights that was judged", "blind": ".."}, ..}

A certificate repeats the hash, and its annex holds what was hashed. `blind` is random: a partner,
who sees the hash of a later line in a certificate, can try nothing out against it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel.audit.figures import Measurements, measurements_from_json
from unlabel.audit.verdict import AUDIT, FORMAT, Verdict, read_verdict
from unlabel.errors import ForgetError, RunError
from unlabel.files import sha256
from unlabel.party import Ledger, LedgerEntry
from unlabel.party.checkpoint import staged_digest
from unlabel.signing import canonical

#: What of a verdict the auditor is given; pictures and messages stand in the report.
OF_VERDICT = (
    *("request", "labels", "state", "visibility", "guarantee", "method", "settings", "depth"),
    *("demanded", "passed", "findings", "measures", "privacy", "unknown", "thresholds", "facts"),
)
#: What the gate reads in the detail of a figure; the rest is only drawn.
JUDGED_BY = ("parties", "tried")
#: What JSON has no number for, in words.
NOT_FINITE = {"nan": "not a number", "inf": "infinite", "-inf": "-infinite"}
NUMBERS = {word: float(name) for name, word in NOT_FINITE.items()}


def disclosed(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data without what is only drawn, and `whole`, the hash of all."""
    plain = verdict.to_json()
    whole = digest_of(_leaves(plain, _word))
    for measurement in plain["measures"].values():
        for figure in measurement["values"].values():
            detail = figure["detail"].items()
            figure["detail"] = {name: each for name, each in detail if name in JUDGED_BY}
    # Others have no such name, so that the hash of what earlier versions wrote stays.
    names = (*OF_VERDICT, *(("people",) if verdict.people else ()))
    return {**_leaves({name: plain[name] for name in names}, _word), "whole": whole}


def digest_of(figures: Any) -> str:
    """Return the hash under which plain data is bound."""
    return sha256(canonical(figures))


def _leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return plain data with every leaf changed."""
    if isinstance(value, Mapping):
        return {str(name): _leaves(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_leaves(each, change) for each in value]
    return change(value)


def _word(leaf: Any) -> Any:
    return NOT_FINITE.get(str(leaf), leaf) if isinstance(leaf, float) else leaf


def _number(leaf: Any) -> Any:
    return NUMBERS.get(leaf, leaf) if isinstance(leaf, str) else leaf


def measures_in(figures: Mapping[str, Any]) -> Measurements:
    """Return the measurements in what was disclosed; one of `MISREAD` where there are none."""
    return measurements_from_json(_leaves(figures["measures"], _number))


def bind(ledger: Ledger, path: Path, weights: str = "") -> None:
    """Note in the ledger what the verdict in a file says, and of which weights.

    After the file is written, as the line of a purge comes after the purge: a crash in between
    leaves a verdict that no line fits, which is refused until the request is audited again.
    """
    verdict = read_verdict(path)  # what is bound is what the file gives back
    digest, blind = digest_of(disclosed(verdict)), secrets.token_hex(32)
    note = {"depth": verdict.depth, "demanded": verdict.demanded, "figures": digest, "blind": blind}
    note |= {"weights": weights} if weights else {}
    ledger.append("audit", verdict.request, note)


def noted_audit(entries: Sequence[LedgerEntry], request: str) -> Mapping[str, Any] | None:
    """Return what the newest line of an audit of a request notes, None where there is none."""
    notes = (e.note for e in reversed(entries) if (e.event, e.request) == ("audit", request))
    return next(notes, None)


def is_of(noted: Mapping[str, Any], weights: object) -> bool:
    """Return whether an audit judged these weights; lines of 0.8 do not say which it did."""
    return noted.get("weights") in (None, weights)


def expect_judged(noted: Mapping[str, Any] | None, home: Path) -> None:
    """Raise where what is staged in the active party's folder is not what was audited."""
    staged = staged_digest(home)
    if noted is not None and staged is not None and not is_of(noted, staged):
        raise ForgetError(
            "What is staged was changed since its audit; run `unlabel audit` again, or roll it "
            "back.",
            code="changed-since-audit",
        )


def expect_unchanged(path: Path, verdict: Verdict, entries: Sequence[LedgerEntry]) -> None:
    """Raise where the figures of a verdict do not give the hash of its newest line.

    Versions 0.6 and 0.7 wrote no such lines: a file of their form is taken as it is.
    """
    noted = noted_audit(entries, verdict.request)
    if noted is None:
        fits = json.loads(path.read_bytes()).get("format") != FORMAT
    else:
        fits = noted.get("figures") == digest_of(disclosed(verdict))
    if not fits:
        raise RunError(
            f"'{path}' was changed since the audit: the ledger's last line of an audit of request "
            f"{verdict.request} does not hold the hash of its figures; run `unlabel audit` again."
        )


def verdict_of(home: Path, request: str | None) -> Verdict | None:
    """Return the active party's last verdict, None where it is of another request or missing."""
    path = home / AUDIT
    if request is None or not path.exists():
        return None
    verdict = read_verdict(path)
    if verdict.request != request:
        return None
    expect_unchanged(path, verdict, Ledger(home).entries())
    return verdict
