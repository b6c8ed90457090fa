"""Parties that were restored from a backup: nothing that was decided since may be undone by it.

Of party p, h is the last line of its ledger that the active party's names, d the newest version
that p's own ledger says was committed or left by a purge, v the active party's newest version.

    h is not in p's ledger, p has v or has it staged   p lacks lines: `recover` sends them again
    h is not in p's ledger, and p has not              p is from before a decision: refused
    d > v                                              the active party is: refused

A party whose ledger only ends later than h is none of these: a crash came between its line and the
active party's. Where the active party and all others are restored to one time, nobody is left who
remembers more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from unlabel.errors import CheckpointError
from unlabel.forget.transaction import Transaction
from unlabel.party.ledger import LedgerEntry
from unlabel.party.purged import expect_purged
from unlabel.wire import Commit, Purge


def known_heads(entries: Sequence[LedgerEntry]) -> dict[str, str]:
    """Return the last line of each party's ledger that the active party's ledger names."""
    heads: dict[str, str] = {}
    for entry in entries:
        heads |= {party: head for party, head in entry.note.get("heads", {}).items() if head}
    return heads


def behind(transaction: Transaction) -> list[str]:
    """Return the parties whose ledgers lack a line; raise where the active party is behind."""
    expect_purged(transaction.store, transaction.ledger)
    newest = max(transaction.store.versions(), default=0)
    known = known_heads(transaction.ledger.entries())
    described = transaction.active.versions.describe(known)
    for party, there in described.items():
        if there.decided > newest:
            raise CheckpointError(
                f"Party '{party}' remembers a decision on version {there.decided}, and the active "
                f"party's newest is {newest or 'none'}: its folder was restored from a backup of "
                f"before, and what was forgotten since would come back. Restore a newer backup of "
                f"the active party; without one begin anew.",
                code="restored",
            )
    return [party for party, there in described.items() if there.knows != "yes"]


def expect_remembered(transaction: Transaction) -> None:
    """Raise where a party was restored from a backup of before a decision."""
    lacking = behind(transaction)
    if lacking:
        raise CheckpointError(
            f"Party '{lacking[0]}' does not remember all that was decided: its folder was restored "
            f"from an older backup, which may bring back what was forgotten or purged. Run "
            f"`unlabel recover`.",
            code="restored",
        )


def lacks_purge(transaction: Transaction) -> bool:
    """Return whether the active party has versions that others have purged: it was restored."""
    oldest = min(transaction.store.versions(), default=0)
    described = transaction.active.versions.describe()
    return any(there.purged > oldest for there in described.values())


def bring_up(transaction: Transaction, lacking: Collection[str], staged: Collection[str]) -> str:
    """Have parties that lack lines of decisions carry them out once more; return what was done.

    lacking  the parties
    staged   those of them that have the newest version staged
    """
    active, store = transaction.active, transaction.store
    newest = max(store.versions(), default=0)
    facts, entries = transaction.facts(newest), transaction.ledger.entries()
    described = active.versions.describe()
    purge = next((e for e in reversed(entries) if e.event == "purge"), None)
    for party in lacking:
        if newest not in described[party].versions and party not in staged:
            raise CheckpointError(
                f"Party '{party}' was restored from a backup that lacks version {newest}, made by "
                f"a decision since; restore a newer backup there. Without one begin anew: what it "
                f"has would bring back what was forgotten.",
                code="restored",
            )
    for party in lacking:
        if facts.request is not None:
            repeated = Commit(0, facts.request.id, newest, facts.parties[party])
            active.transport.tell({party: repeated})
        if purge is not None:
            left = int(purge.note["version"])
            kept = left if left in described[party].versions else newest
            active.transport.tell({party: Purge(0, purge.request, kept)})
    transaction.note_restored(tuple(lacking))
    return f"repeated at {', '.join(lacking)} what was decided since the backup"
