"""A federation between organisations as far as `status` and `rollback` need it.

As of a run in a folder (`unopened`), no table is read, no rows are aligned and no model is built at
the label holder: the others are asked for their versions and ledgers, and told to return or to drop
what is staged. The label holder's part lies in its own versions, ledger and record of labels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from unlabel.align import Alignment
from unlabel.config import RunConfig
from unlabel.config.loader import read_run_folder
from unlabel.federation import Federation
from unlabel.progress import Watch, watch_nothing
from unlabel.remote.client import Notify, PartyClient, client_of
from unlabel.remote.connect import RemoteFederation, connect, table_of
from unlabel.remote.greeting import greet
from unlabel.remote.json_log import logging_to
from unlabel.remote.kit import Kit
from unlabel.remote.turns import command_turn
from unlabel.train.checks import checked_run
from unlabel.train.epochs import keep
from unlabel.train.label_record import LabelRecord
from unlabel.unopened import Stored, Unopened, stored_active

NO_ROWS = Alignment(np.array([], dtype=np.int64), "", "", 0, {}, {}, fresh=False)


class StandingFederation(Stored, RemoteFederation):
    """Parties that are reached over a session, and neither rows nor models here."""

    def __init__(
        self, kit: Kit, config: RunConfig, client: PartyClient, record: LabelRecord
    ) -> None:
        kept = read_run_folder(kit.run)
        config = replace(config, train=keep(config.train, kept.train))
        holdings, active = stored_active(config, kit.home, record, client.pipelined)
        super().__init__(holdings, active, kit, client, NO_ROWS, watch_nothing)

    def close(self) -> None:
        """End the session, and leave the kit to the next command."""
        self.release()


@contextlib.contextmanager
def connect_standing(
    folder: Path,
    *,
    resume: bool,
    recovering: bool,
    deciding: bool,
    notify: Notify,
    watch: Watch,
) -> Iterator[Federation]:
    """Connect for `status` or `rollback`, with the table only where these need it.

    resume, recovering, watch  as in `Federation.connect`
    deciding                   for `rollback`
    """
    kit = Kit.open(folder)
    kit.expect_active()
    config, record = kit.run_config(table_of(kit)), LabelRecord.read(kit.home)
    # Where predictions go on without a party, a decision computes the means that answer for it.
    computes = deciding and kit.agreement.predict.missing == "without"
    if record is not None and not computes:
        with contextlib.ExitStack() as stack:
            opened: Stored
            if config.bottoms == "blind":
                stack.enter_context(command_turn(kit, waits=True))
                opened = Unopened(checked_run(read_run_folder(kit.run)), kit.run, record)
            else:
                kit.expect_running()
                stack.enter_context(command_turn(kit, waits=True))
                stack.enter_context(logging_to(kit.logs / "commands.log", "json", kit.name))
                client = client_of(kit, notify, watch)
                stack.callback(client.close)
                opened = StandingFederation(kit, config, client, record)
            if opened.knows_enough(deciding=deciding):
                if isinstance(opened, StandingFederation):
                    opened.client.connect()
                    greet(opened)
                opened.with_recovery(
                    lambda: opened.load_latest(resume=resume, recovering=recovering)
                )
                yield opened
                return
    with connect(
        folder, resume=resume, recovering=recovering, notify=notify, watch=watch
    ) as federation:
        yield federation
