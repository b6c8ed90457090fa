"""What a kept audit decides: whether its request can be committed, and be audited again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.audit.binding import expect_judged, noted_audit, verdict_of
from unlabel.audit.case import Case
from unlabel.audit.gate import NOT_MEASURED
from unlabel.audit.gate_people import demanded_of_people
from unlabel.audit.verdict import AUDIT, reaches
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError
from unlabel.forget import Run
from unlabel.party import Ledger
from unlabel.train.facts import staged_in


def expect_no_better(run: Run, case: Case) -> None:
    """Raise where the model from before is gone, and an audit from when it was there is kept."""
    home = run.folder / ACTIVE
    known = verdict_of(home, case.request.id) if case.before is None else None
    if (
        known is not None
        and "original" in known.measures.get("forgotten-accuracy", NOT_MEASURED).values
    ):
        raise ForgetError(
            f"The model from before this request was purged, so that an audit would find less than "
            f"that of {known.facts.at} (depth '{known.depth}'), which stays; `unlabel report` "
            f"shows it.",
            code="purged",
        )


def expect_committable(
    folder: Path, demand: str, request: str | None, *, force: bool
) -> dict[str, Any]:
    """Return the depth an audit found of the staged request of a folder, for the ledger.

    Raise where it cannot be committed, or not without `force`. It is read from the active party's
    own files: partners are not to see that a commit was tried in vain.

    demand   the depth that the run demands
    request  its id; the staged one if None
    """
    staged = staged_in(folder / ACTIVE)
    if staged is not None and request in (None, staged.id):
        request = staged.id
        reason = staged.why_not(force=force)
        if reason:
            raise ForgetError(reason)
    home = folder / ACTIVE
    verdict = verdict_of(home, request)
    noted = noted_audit(Ledger(home).entries(), request or "")
    if verdict is None and noted is not None:
        raise ForgetError(
            f"Request {request} was audited, but '{home / AUDIT}' does not hold that audit any "
            f"more; run `unlabel audit` again."
        )
    if verdict is None:
        return {"depth": None}
    expect_judged(noted, home)
    if verdict.is_outdated:
        raise ForgetError(
            "The request was audited by the rules of an earlier version, which a faked model can "
            "pass; run `unlabel audit` again."
        )
    # The run's demand, or that of the audit where it was deeper.
    if verdict.people and not verdict.facts.construction:
        demand = demanded_of_people(demand)  # type: ignore[arg-type]
    demanded = verdict.demanded if reaches(verdict.demanded, demand) else demand
    if not reaches(verdict.depth, demanded) and not force:
        raise ForgetError(
            f"The audit found depth '{verdict.depth}' and '{demanded}' is demanded; roll the "
            f"request back, or commit it with --force."
        )
    bound = {} if noted is None else {"figures": noted["figures"]}
    return {"depth": verdict.depth, "demanded": demanded, **bound}
