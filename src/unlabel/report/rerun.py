"""An audit done again on a copy of its run, beside the figures that a certificate is bound to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from unlabel.audit.binding import digest_of, disclosed, verdict_of
from unlabel.audit.case import find_case
from unlabel.audit.facts import RULES
from unlabel.audit.service import audit
from unlabel.audit.verdict import MISREAD
from unlabel.config import AuditSettings
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget import Run
from unlabel.forget.service import RETRAINED
from unlabel.report.checks import Checks

#: How far two figures may be apart, as a share of the larger one, or of 1 where both are smaller.
#: Figures of one machine are equal; processors and libraries round differently.
TOLERANCE = 0.01


def check_again(run: Run, checks: Checks) -> None:
    """Audit a run once more, which must be a copy, and name every figure that differs.

    The models to compare with are retrained, not read: what is kept of them is the label holder's.
    """
    try:
        stated = _stated(run, checks)
        if stated is None:
            return
        shutil.rmtree(run.folder / ACTIVE / RETRAINED, ignore_errors=True)
        if stated["facts"].get("rules", 1) != RULES:
            checks.unchecked.append(
                "The audit was by earlier rules, and is not run again by these."
            )
            return
        count, limits = int(stated["facts"]["retrained"]), AuditSettings(**stated["thresholds"])
        repeated = disclosed(audit(run, retrained=count, demand=limits))
        differences = [*_differing(_comparable(stated), _comparable(repeated))]
    except (UnlabelError, *MISREAD) as error:
        if isinstance(error, ForgetError) and error.code == "purged":
            checks.unchecked.append(
                "The audit can no longer be run again: a purge has removed the weights from before "
                "the request, and what the forgotten labels could be checked by."
            )
            return
        checks.faults.append(f"The audit cannot be run again ({type(error).__name__}: {error}).")
        return
    checks.faults += [f"Run again, the audit gives another value: {each}." for each in differences]
    if not differences:
        models = f"{count} retrained model{'' if count == 1 else 's'}"
        checks.held.append(
            f"Run again with {models}, the audit gives the same figures, within {TOLERANCE:g}."
        )


def _stated(run: Run, checks: Checks) -> Mapping[str, Any] | None:
    """Return the figures that a certificate is bound to: of its annex, else of the run."""
    body, blind = checks.body, checks.blind
    figures = None if checks.annex is None else checks.annex.get("audit")
    if body is not None and figures is None:
        verdict = verdict_of(run.folder / ACTIVE, body.request)
        figures = None if verdict is None else disclosed(verdict)
    if body is None or figures is None or body.figures is None or blind is None:
        checks.unchecked.append(
            "The audit was not run again: its figures, their hash in the certificate or the key of "
            "that hash are not at hand."
        )
    elif blind(digest_of(figures)) != body.figures:
        checks.faults.append("The audit to be run again is not the one of the certificate.")
    elif find_case(run).request.id != body.request:
        checks.unchecked.append(
            "The audit cannot be run again: the run has gone on to another request since."
        )
    else:
        return dict(figures)
    return None


def _comparable(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two audits of one request have to agree on."""
    rulings = [[each["depth"], each["measure"], each["ruling"]] for each in figures["findings"]]
    measures = {name: each["values"] for name, each in figures["measures"].items()}
    judged = {"privacy": figures["privacy"], "rulings": rulings, "depth": figures["depth"]}
    return {**measures, **judged}


def _differing(stated: Any, repeated: Any, where: str = "") -> Iterator[str]:
    """Yield where two pieces of plain data differ by more than the tolerance.

    >>> list(_differing({"a": [1, 0.5]}, {"a": [1.001, 0.6]}))
    ['a 2']
    """
    if isinstance(stated, dict) and isinstance(repeated, dict):
        for name in sorted(stated.keys() | repeated.keys()):
            yield from _differing(stated.get(name), repeated.get(name), f"{where} {name}")
    elif isinstance(stated, list) and isinstance(repeated, list) and len(stated) == len(repeated):
        for number, (one, other) in enumerate(zip(stated, repeated, strict=True), 1):
            yield from _differing(one, other, f"{where} {number}")
    elif isinstance(stated, int | float) and isinstance(repeated, int | float):
        if abs(stated - repeated) > TOLERANCE * max(1.0, abs(stated), abs(repeated)):
            yield where.strip()
    elif stated != repeated:
        yield where.strip()
