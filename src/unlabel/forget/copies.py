"""Where a forgotten label, or weights that knew it, can still lie at any party."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unlabel.data import ACTIVE
from unlabel.errors import UnlabelError
from unlabel.files import DRAFT, beside
from unlabel.forget.names import forgotten_names
from unlabel.forget.run_interface import Run
from unlabel.forget.service import RETRAINED
from unlabel.forget.transaction import PartyStatus, Transaction
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.cleared import LabelTable
from unlabel.train.label_record import LABELS, LabelRecord

#: cleared: nothing of it is there. left: it is, and `why` says what removes it. kept: on purpose,
#: and `why` says what for and until when.
State = Literal["cleared", "left", "kept"]
PURGE = "`unlabel purge` removes it"
OUTSIDE = (
    "Backups, exports, files of public samples, answers already given and copies that anybody made "
    "elsewhere are outside its knowledge; ask their owners."
)
_EVIDENCE = "evidence of the request, which names what was forgotten; until you delete it"
#: Files of the run and of the active party that stay after a purge, and what for.
KEPT = {
    f"{ACTIVE}/ledger.jsonl": "the memory of requests, which names labels or people; as long as "
    "the run",
    f"{ACTIVE}/audit.json": _EVIDENCE,
    "report.html": _EVIDENCE,
    "certificate.json": "signed by all parties, names nothing of a secret request; until you "
    "delete it",
    "certificate.annex": "sealed for the auditor alone; until you delete it",
    "metrics.jsonl": "accuracies and losses of epochs; who has everything but one label can "
    "train with each candidate and compare, as with weights; as long as the run",
    f"{ACTIVE}/data-notes.txt": "how many rows labels had when the run began; as long as the run",
}


@dataclass(frozen=True)
class Copy:
    """A place where something may lie.

    party  whose it is
    place  a file or folder, as its owner calls it
    what   may lie there
    state  cleared, left or kept
    why    it is there, and what removes it; empty where it is cleared
    """

    party: str
    place: str
    what: str
    state: State
    why: str = ""


def copies(run: Run) -> list[Copy]:
    """List every place; parties elsewhere answer for their versions and staged files only."""
    transaction = Transaction(run.active)
    newest = max(run.active.versions.store.versions(), default=0)
    parties = {ACTIVE: transaction.active_status(), **transaction.statuses()}
    listed = list(_labels(run))
    for party, stands in parties.items():
        listed += _weights(run, party, stands, newest)
    listed += _label_free(run)
    if (draft := beside(run.folder, DRAFT)).exists():
        why = f"an update makes it, or was killed: then {PURGE}"
        listed.append(Copy(ACTIVE, str(draft), "tables and models of an update", "left", why))
    for name, why in KEPT.items():
        if (run.folder / name).exists():
            listed.append(Copy(ACTIVE, name, "names and figures of requests", "kept", why))
    if run.version is not None and run.active.versions.facts(run.version).get("request"):
        why = "which request made the version in use, and what it was about; until the next"
        listed.append(Copy(ACTIVE, f"{ACTIVE}/versions", "name of a request", "kept", why))
    secrets = run.folder / ACTIVE / "secrets"
    if secrets.is_dir() and any(secrets.iterdir()):
        why = "keys that open the commitments of requests, for certificates; as long as the run"
        listed.append(Copy(ACTIVE, f"{ACTIVE}/secrets", "what requests were about", "kept", why))
    return listed


def _label_free(run: Run) -> Iterator[Copy]:
    """List what was made without labels, which no purge removes."""
    if not run.config.is_label_free:
        return
    why = "no label went into it; as long as the run"
    for party in run.config.party_names():
        place = f"{party}/base"
        if run.is_remote or (run.folder / place).is_dir():
            yield Copy(party, place, "the bottom that was made without labels", "kept", why)
    home = f"{ACTIVE}/{LABEL_FREE}"
    if run.config.bottoms == "blind" and (run.folder / home).is_dir():
        yield Copy(ACTIVE, home, "embeddings of all rows", "kept", why)


def _labels(run: Run) -> Iterator[Copy]:
    """List where labels of rows lie: all of it the label holder's."""
    home = run.folder / ACTIVE
    record = LabelRecord.read(home)
    if record is not None:
        what, place = "commitments to labels of rows", f"{ACTIVE}/{LABELS}"
        purged = record.is_purged()
        yield Copy(ACTIVE, place, what, "cleared" if purged else "left", "" if purged else PURGE)
        if record.buried_people():
            drawn = (
                "were drawn by label: who has all other labels and the seed can try out which "
                "label fits"
            )
            if run.config.is_label_free:
                drawn = "follow from ids alone"
            why = (
                f"which rows were forgotten, so that they stay so, and the parts of rows, which "
                f"{drawn}; as long as the run"
            )
            yield Copy(ACTIVE, place, "tombstones, parts of rows", "kept", why)
    yield _table(run, record)
    facts = run.active.versions.facts(run.version) if run.version is not None else {}
    if facts.get("data") not in (None, "", run.holdings.digest()):
        why = "a digest of all labels, which version 0.7 wrote; the next request replaces it"
        yield Copy(ACTIVE, f"{ACTIVE}/versions", "digest of all labels", "left", why)
    references = home / RETRAINED
    left = references.exists()
    what = "what retrained models answered, with labels"
    yield Copy(
        ACTIVE, f"{ACTIVE}/{RETRAINED}", what, "left" if left else "cleared", PURGE if left else ""
    )


def _table(run: Run, record: LabelRecord | None) -> Copy:
    table, what = LabelTable.of(run.config), "labels in the label holder's own table"
    if table is None:
        why = "the run only reads it; whoever holds it decides"
        return Copy(ACTIVE, str(run.config.data), "labels in the dataset itself", "kept", why)
    try:
        cells = table.cells_left(record, forgotten_names(run))
    except UnlabelError as error:
        return Copy(ACTIVE, str(table.path), what, "left", f"it cannot be read: {error}")
    why = (
        f"{cells} cells hold something, the old label or another; empty them, or take the table of "
        f"`unlabel purge --table-out FILE`"
    )
    return Copy(ACTIVE, str(table.path), what, *(("left", why) if cells else ("cleared",)))


def _weights(run: Run, party: str, stands: PartyStatus, newest: int) -> Iterator[Copy]:
    """List versions, staged files, transcripts and curves of a party."""
    older = [str(version) for version in stands.versions if version < newest]
    why = f"versions {', '.join(older)}; {PURGE}" if older else ""
    place = f"{party}/versions"
    yield Copy(party, place, "weights from before", "left" if older else "cleared", why)
    why = f"request {stands.staged} waits for commit or rollback" if stands.staged else ""
    state: State = "left" if stands.staged else "cleared"
    yield Copy(party, f"{party}/staged", "weights of an open request", state, why)
    if party == ACTIVE:
        yield _removed(party, run.folder / "tensorboard", "tensorboard", "curves of training")
    elif run.is_remote:
        why = "its owner removes it at a purge, and attests that in the certificate"
        what = "transcript, and lines that name no hidden label"
        yield Copy(party, f"{party}'s own folder", what, "kept", why)
    else:
        place = f"{party}/transcript.jsonl"
        yield _removed(party, run.folder / place, place, "messages that it received and sent")
        why = (
            "its memory of requests: a commitment, and the labels of open ones; as long as the run"
        )
        if (run.folder / party / "ledger.jsonl").exists():
            yield Copy(party, f"{party}/ledger.jsonl", "names of open requests", "kept", why)


def _removed(party: str, path: Path, place: str, what: str) -> Copy:
    left = path.exists()
    return Copy(party, place, what, "left" if left else "cleared", PURGE if left else "")
