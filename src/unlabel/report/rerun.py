"""An audit done again on a copy of its run, beside the figures that a certificate is bound to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from unlabel.audit.binding import digest_of, disclosed, verdict_of
from unlabel.audit.service import RETRAINED, audit, find_case
from unlabel.audit.verdict import MISREAD
from unlabel.config import AuditSettings
from unlabel.data import ACTIVE
from unlabel.errors import UnlabelError
from unlabel.forget import Run
from unlabel.report.checks import Checks

#: How far two figures may be apart, as a share of the larger one, or of 1 where both are smaller.
#: Figures of one machine are equal; processors and libraries round differently.
TOLERANCE = 0.01
#: Models that a purge takes away.
PURGED = ("original", "mask")


def check_again(run: Run, checks: Checks) -> None:
    """Audit a run again, which must be a copy, and name every figure that comes out otherwise.

    The models to compare with are retrained, not read: what is kept of them is the label holder's.
    """
    body = checks.body
    if body is None or body.depth is None:
        checks.unchecked.append("There is no audit to be run again.")
        return
    try:
        stated = _stated_figures(run, checks)
        if stated is None:
            return
        if find_case(run).request.id != body.request:
            checks.unchecked.append(
                "The audit cannot be run again: the run has gone on to another version since."
            )
            return
        shutil.rmtree(run.folder / ACTIVE / RETRAINED, ignore_errors=True)
        count, limits = int(stated["facts"]["retrained"]), AuditSettings(**stated["thresholds"])
        repeated = disclosed(audit(run, retrained=count, demand=limits))
        differences = [*_differences(stated, repeated, checks)]
    except UnlabelError as error:
        checks.faults.append(f"The audit cannot be run again: {error}")
        return
    except MISREAD as error:
        checks.faults.append(
            f"The figures cannot be read ({type(error).__name__}: {error}), so the audit cannot be "
            f"run again."
        )
        return
    checks.faults += [
        f"Run again, the audit does not give the same {each}." for each in differences
    ]
    if not differences:
        checks.held.append(
            f"Run again with {count} retrained models, the audit gives the same figures, within "
            f"{TOLERANCE:g}."
        )


def _stated_figures(run: Run, checks: Checks) -> Mapping[str, Any] | None:
    """Return the figures that the certificate is bound to: of its annex, else of the run."""
    body, blind = checks.body, checks.blind
    assert body is not None
    figures: Mapping[str, Any] | None = None if checks.annex is None else checks.annex["audit"]
    if figures is None:
        verdict = verdict_of(run.folder / ACTIVE, body.request)
        figures = None if verdict is None else disclosed(verdict)
    if figures is None or body.figures is None or blind is None:
        checks.unchecked.append(
            "The audit was not run again: the figures that the certificate is bound to, or the key "
            "that their hash stands under, are not at hand."
        )
        return None
    if not checks.expect(
        blind(digest_of(figures)) == body.figures,
        "The figures of the audit to be run again are not those whose hash the certificate holds.",
    ):
        return None
    return figures


def _differences(
    stated: Mapping[str, Any], again: Mapping[str, Any], checks: Checks
) -> Iterator[str]:
    """Yield what of two audits is not the same, by name."""
    measures: dict[str, Any] = {}
    for name, each in stated["measures"].items():
        there = again["measures"].get(name, {}).get("values", {})
        values = {m: v for m, v in each["values"].items() if m in there or m not in PURGED}
        measures[name] = {**each, "values": values}
    is_whole = measures == stated["measures"]
    yield from _differing(measures, again["measures"], "measures")
    if not is_whole:
        checks.unchecked.append(
            "The model from before the request is purged, so its figures, the attacks on what the "
            "partners saw, the rulings and the depth cannot be run again."
        )
        return
    yield from _differing(stated["privacy"], again["privacy"], "privacy")
    old, new = (
        [[each["depth"], each["measure"], each["ruling"]] for each in figures["findings"]]
        for figures in (stated, again)
    )
    yield from _differing(old, new, "rulings")
    if stated["depth"] != again["depth"]:
        yield f"depth: '{again['depth']}', not '{stated['depth']}'"


def _differing(stated: Any, again: Any, where: str) -> Iterator[str]:
    """Yield where two pieces of plain data differ by more than the tolerance.

    >>> list(_differing({"a": [1, 0.5]}, {"a": [1.001, 0.6]}, "it"))
    ['it, a, 2']
    """
    if isinstance(stated, dict) and isinstance(again, dict):
        for name in sorted(stated.keys() | again.keys()):
            yield from _differing(stated.get(name), again.get(name), f"{where}, {name}")
    elif isinstance(stated, list) and isinstance(again, list) and len(stated) == len(again):
        for number, (one, other) in enumerate(zip(stated, again, strict=True), 1):
            yield from _differing(one, other, f"{where}, {number}")
    elif isinstance(stated, int | float) and isinstance(again, int | float):
        if abs(stated - again) > TOLERANCE * max(1.0, abs(stated), abs(again)):
            yield where
    elif stated != again:
        yield where
