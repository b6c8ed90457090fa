"""Where every party of a run stands, and in what they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unlabel.data import ACTIVE
from unlabel.forget.deferred import Deferred, deferred_in
from unlabel.forget.run_interface import Run
from unlabel.forget.transaction import PartyStatus, Transaction
from unlabel.train.progress import unfinished

#: Where ledgers end, by party.
Heads = Mapping[str, str]


def out_of_line(newest: int, parties: Mapping[str, PartyStatus]) -> list[str]:
    """Name the parties whose newest version does not follow that of the label holder.

    Where that has none, the others' are of bottoms that are made without labels.
    """
    return [
        f"Party '{party}' keeps version {status.version}, which nobody else has and which does not "
        f"follow version {newest}: have its operator stop it and run `unlabel party repair KIT "
        f"--newest {newest}`."
        for party, status in parties.items()
        if newest and status.version is not None and status.version > newest + 1
    ]


def differences(active: PartyStatus, others: Mapping[str, PartyStatus], seen: Heads) -> list[str]:
    """Say in sentences in what the parties differ from the label holder.

    seen  where the others' ledgers ended at its last decision
    """
    sentences = out_of_line(active.version or 0, others)
    for party, status in others.items():
        ahead = (status.version or 0) > (active.version or 0) + 1  # named already
        if status.version != active.version and not ahead:
            sentences.append(
                f"Party '{party}' is on version {status.version}, and the label holder on "
                f"{active.version}."
            )
        if status.staged != active.staged:
            sentences.append(
                f"Party '{party}' has {_staged(status.staged)}, and the label holder "
                f"{_staged(active.staged)}."
            )
        if party in seen and status.ledger != seen[party]:
            sentences.append(
                f"The ledger of party '{party}' ends in {status.ledger[:12] or 'nothing'}, and at "
                f"the last decision it ended in {seen[party][:12]}: it was changed or cut off, or "
                f"its folder is that of a backup."
            )
    return sentences


def _staged(request: str) -> str:
    return f"request {request} staged" if request else "no request staged"


@dataclass(frozen=True)
class Status:
    """Where a federation stands.

    parties           every party's versions, what it has staged and where its ledger ends
    staged            id of the request that waits for commit or rollback, empty if none does
    forgotten_labels  names of the labels that the model has forgotten
    forgotten_people  how many people's labels it has forgotten
    unfinished        a sentence where its training was interrupted, else empty
    differences       sentences that say in what the others differ from the label holder
    waiting           requests of people that wait for the next `update`, each with its day
    """

    parties: Mapping[str, PartyStatus]
    staged: str
    forgotten_labels: tuple[str, ...]
    forgotten_people: int
    unfinished: str
    differences: tuple[str, ...] = ()
    waiting: tuple[Deferred, ...] = ()

    @property
    def together(self) -> bool:
        """Whether all parties are on the same version, with the same request staged."""
        return len({(s.version, s.staged) for s in self.parties.values()}) == 1


def status(run: Run) -> Status:
    """Return where every party stands, the active one first."""
    transaction = Transaction(run.active)
    active, others = transaction.active_status(), transaction.statuses()
    parties = {ACTIVE: active, **others}
    differ = differences(active, others, transaction.seen_heads())
    labels = tuple(run.labels[n] for n in run.forgotten.labels)
    stopped = "" if run.version is None else unfinished(run.active.versions.facts(run.version))
    people = len(run.forgotten.rows)
    waiting = tuple(deferred_in(run.folder / ACTIVE))
    return Status(parties, active.staged, labels, people, stopped, tuple(differ), waiting)
