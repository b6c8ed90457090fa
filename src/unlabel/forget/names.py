"""The names of forgotten labels, also where no model of the run names them any more."""

from __future__ import annotations

from unlabel.forget.run_interface import Run
from unlabel.party import Ledger


def forgotten_names(run: Run) -> frozenset[str]:
    """Return the names of the labels that a run has forgotten."""
    names = {run.labels[number] for number in run.forgotten.labels}
    # The list of labels of a blind or tuned run goes on without them: the requests have them.
    if run.config.is_label_free:
        names |= committed_names(run.active.versions.ledger)
    return frozenset(names)


def committed_names(ledger: Ledger) -> frozenset[str]:
    """Return the names of the labels that the label holder's committed requests were about."""
    commits = [entry for entry in ledger.entries() if entry.event == "commit"]
    return frozenset(str(name) for entry in commits for name in entry.note.get("labels", ()))
