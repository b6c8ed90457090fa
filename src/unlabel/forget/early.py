"""What is refused before anybody is asked: the label holder's own files say that it cannot work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unlabel.compat import run_file
from unlabel.config.loader import read_run_folder
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError
from unlabel.forget.request import find_labels
from unlabel.forget.transaction import request_open
from unlabel.party.checkpoint import newest_facts
from unlabel.train import VersionFacts
from unlabel.train.facts import staged_in
from unlabel.train.label_record import LabelRecord


def expect_possible(folder: Path, labels: Sequence[str], *, deepen: bool = False) -> None:
    """Raise where a request cannot work, by what lies in a run's folder; no table is read.

    A request that waits, labels that are unknown or forgotten already, too few that would be left.
    All of it is looked at again once the run is open.
    """
    home = folder / ACTIVE
    if not run_file(folder).is_file():
        return
    waiting = staged_in(home)
    if waiting is not None:
        raise request_open(waiting.id)
    record, newest = LabelRecord.read(home), newest_facts(home)
    if newest is None:
        raise ForgetError("Nothing was trained yet, so there is nothing to forget; train first.")
    # Where labels go by their rows, those that are left are known from the table alone.
    if record is None or read_run_folder(folder).is_label_free or not labels:
        return
    forgotten = VersionFacts.from_json(newest[1]).forgotten
    find_labels(labels, record.names, forgotten, deepen=deepen)
