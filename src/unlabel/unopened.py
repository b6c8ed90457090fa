"""A run in one folder, opened for where it stands: no table is read and no model is built.

What parties have, have staged and remember lies in versions, ledgers and `labels.safetensors`.
`status` and `rollback` need no more, so that they take as long with a million rows as with ten:

    status    read as it stands
    rollback  of an open request; of a silent one, a rename of what was staged beside it

Messages, transactions and checks of ledgers and weights are those of every opening. A table that
has changed meanwhile goes unnoticed here; whatever would work on it notices.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Features
from unlabel.errors import CheckpointError, PartyRefused, refusal_of
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY
from unlabel.forget import Transaction
from unlabel.party import (
    ActiveParty,
    Bottom,
    CheckpointStore,
    Learner,
    PassiveParty,
    Place,
    Stream,
)
from unlabel.party.policy import require
from unlabel.party.versions import Versions
from unlabel.progress import Watch
from unlabel.runfolder import finish_swap, read_config_of
from unlabel.train import Holdings, VersionFacts
from unlabel.train.assembly import served_policy
from unlabel.train.beginning import with_numbers
from unlabel.train.checks import checked_run
from unlabel.train.label_record import UNKNOWN, LabelRecord
from unlabel.wire import Done, LocalTransport, Message, Restore, Transport

#: In place of models whose sizes only tables tell: nothing is computed with them.
PLACE = Place(torch.device("cpu"))


def open_standing(
    folder: str | Path,
    *,
    resume: bool = False,
    recovering: bool = False,
    deciding: bool = False,
    watch: Watch | None = None,
) -> Federation:
    """Open a run for `status` or `rollback`, with its tables only where these are needed.

    resume, recovering, watch  as in `Federation.open`
    deciding                   for `rollback`
    """
    path = Path(folder)
    finish_swap(path)
    record = LabelRecord.read(path / ACTIVE)
    if record is not None:
        unopened = Unopened(checked_run(read_config_of(path)), path, record)
        if unopened.knows_enough(deciding=deciding):
            unopened.load_latest(resume=resume, recovering=recovering)
            return unopened
    return Federation.open(folder, resume=resume, recovering=recovering, watch=watch)


def stored_active(
    config: RunConfig, home: Path, record: LabelRecord, transport: Transport
) -> tuple[Holdings, ActiveParty]:
    """Return what an active party has of its run without a table, and that party with its files.

    home  its own folder
    """
    config = replace(config, train=with_numbers(config, record.rows))
    unknown = torch.full((len(record.people),), UNKNOWN)
    holdings = Holdings(config, {}, unknown, record.names, np.array([], dtype=str), record.rows)
    active = ActiveParty(
        labels=unknown,
        names=record.names,
        top=Learner(nn.Linear(1, 1), config.train, stream=_stream(config), place=PLACE),
        widths=(),
        transport=transport,
    )
    active.versions = StoredVersions(
        active, CheckpointStore(home, party=ACTIVE, model=None, mode=OWNER_ONLY)
    )
    return holdings, active


class Stored(Federation):
    """A federation whose active party is opened as `stored_active` does."""

    def knows_enough(self, *, deciding: bool) -> bool:
        """Whether `status`, or `rollback` if `deciding`, needs nothing that only tables know.

        Labels that an exact run forgot by number have no name without its table. A silent rollback
        buries once more what was forgotten before, and the rows of whole labels stand in the table;
        and its stand-in must lie there, as it does since version 0.8.
        """
        transaction = Transaction(self.active)
        store, numbers = transaction.store, transaction.store.versions()
        try:
            has_labels = bool(numbers and transaction.facts(numbers[-1]).forgotten.labels)
            staged = transaction.staged()
        except CheckpointError:
            return True  # opening says what is wrong
        if has_labels and self.config.is_label_free:
            return False
        if staged is None or not staged.silent or not deciding:
            return True
        return not has_labels and store.staged.versions() == store.unchanged.versions()

    def _take_embeddings(self) -> None:
        """Leave kept embeddings where they lie."""

    def _take_up(self, facts: VersionFacts) -> None:
        """Go on with what a version has forgotten; names stay those of the record."""
        self.forgotten = facts.forgotten


class Unopened(Stored):
    """Parties with their versions and ledgers, and neither rows nor models: see the head."""

    def __init__(self, config: RunConfig, folder: Path, record: LabelRecord) -> None:
        config = replace(config, train=with_numbers(config, record.rows))
        names = [name for name in config.party_names() if name != ACTIVE]
        passives = {name: StoredParty(name, config, folder / name) for name in names}
        # The top of a blind run works with embeddings that are kept, and asks nobody.
        asked = LocalTransport({} if config.bottoms == "blind" else passives)
        holdings, active = stored_active(config, folder / ACTIVE, record, asked)
        super().__init__(holdings, active, passives, folder)


class StoredVersions(Versions):
    """The active party's versions, which are read and compared but go into no model."""

    def _load(self, tensors: dict[str, Tensor]) -> None:
        """Leave the tensors, whose hash was compared, where they lie."""


class StoredParty(PassiveParty):
    """A passive party with its folder alone."""

    def __init__(self, name: str, config: RunConfig, home: Path) -> None:
        empty = Features(torch.empty(0, 1))
        bottom = Bottom(nn.Linear(1, 1), empty, config.train, stream=_stream(config), place=PLACE)
        super().__init__(
            name,
            bottom,
            width=1,
            policy=served_policy(config, name),
            store=CheckpointStore(home, party=name, model=None),
        )

    def handle(self, message: Message) -> Message:
        """Answer a message; a version to return to is read and compared, and goes into no model."""
        return self._compare(message) if isinstance(message, Restore) else super().handle(message)

    def _compare(self, message: Restore) -> Message:
        version, digest = message.version, message.digest
        store = self.required_store().store_with(version)
        other = f"its version {version} is not the one that was saved with the others'."
        try:
            require(not digest or store.digest(version) == digest, other, "checkpoint")
            store.load(version)
        except (PartyRefused, CheckpointError) as error:
            return self._refuse(message, str(error), refusal_of(error))
        return Done(message.step)


def _stream(config: RunConfig) -> Stream:
    return Stream(config.train.seed, "unopened")
