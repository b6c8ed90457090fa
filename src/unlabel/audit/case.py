"""The request that an audit is about."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.errors import ForgetError
from unlabel.forget import Run, Transaction
from unlabel.forget.transaction import NOTHING
from unlabel.train import RequestFacts, VersionFacts


@dataclass(frozen=True)
class Case:
    """A request to be audited: the facts of the version it made, and the versions around it.

    state   staged, committed or rolled-back
    before  None where it was purged
    """

    facts: VersionFacts
    request: RequestFacts
    state: str
    before: int | None
    after: int


def find_case(run: Run) -> Case:
    """Return the request that waits, else the last one that was committed."""
    run.refresh()
    transaction = Transaction(run.active)
    transaction.expect_together()
    versions = run.active.versions.common()
    staged = transaction.staged_version()
    if staged is not None and staged.request is not None:
        after = transaction.store.staged.versions()[-1]
        return Case(staged, staged.request, "staged", versions[-1], after)
    facts = transaction.facts(versions[-1]) if versions else VersionFacts()
    if facts.request is None:
        raise ForgetError(f"There is nothing to audit. {NOTHING}")
    after = versions[-1]
    before = after - 1 if after - 1 in versions else None
    state = "rolled-back" if facts.request.dropped else "committed"
    return Case(facts, facts.request, state, before, after)
