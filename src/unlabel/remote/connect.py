"""A federation between organisations, seen from its active party.

It trains, forgets, audits and commits by the same code as one in a single process; only the way to
the parties differs, and it can break. Then another session is begun, all parties return to the last
version they share, and the verb is repeated from there.

A blind run that is trained needs nobody but for people who are new: it is opened from what the
label holder keeps, whether its hub runs or not, and a session is begun only when there is need.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from unlabel.align import Alignment, align
from unlabel.compat import run_file
from unlabel.config import RunConfig
from unlabel.config.loader import read_run_folder
from unlabel.data import ACTIVE, Table
from unlabel.errors import PartyLost, RunError, SettingsError, UnlabelError
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.forget import Transaction
from unlabel.forget.service import finish_interrupted
from unlabel.party import ActiveParty, describe, own_randomness
from unlabel.progress import Watch, watch_nothing
from unlabel.remote import imputation
from unlabel.remote.client import Notify, PartyClient, client_of, longer_calls
from unlabel.remote.greeting import expect_alike, greet
from unlabel.remote.imputation import Imputations, ImputingTransport
from unlabel.remote.json_log import logging_to
from unlabel.remote.kept_run import KeptRun, kept_by, read_rows
from unlabel.remote.kit import Kit
from unlabel.remote.lazy import LazyTransport
from unlabel.remote.party_home import keep_unsettled
from unlabel.remote.predicting import new_table, predict_new
from unlabel.remote.turns import command_turn
from unlabel.runfolder import write_config
from unlabel.train import Holdings
from unlabel.train.assembly import build_active
from unlabel.train.checks import place_of
from unlabel.train.epochs import keep
from unlabel.train.label_record import LabelRecord
from unlabel.train.loading import table_holdings
from unlabel.train.predictions import Predictions
from unlabel.wire import Transport

log = logging.getLogger("unlabel.federation")

T = TypeVar("T")

#: Where a kit remembers the table of its party.
DATA = "data"
#: How often in a row a verb is tried before it gives up.
TRIES = 10


class RemoteFederation(Federation):
    """A federation whose other parties are reached over a network, and that survives its failures.

    kit         of the active party
    client      begins sessions; its `notify` is given what is waited for
    alignment   the rows that all parties share
    lazy        the way to the parties where a session is begun only when there is need
    watch       is given how far a matching of ids has come
    losses      when each loss of a party was noticed, by a clock that only runs forward
    recoveries  seconds that each return to the last common version took
    resources   what is closed with the connection
    """

    is_remote = True

    def __init__(
        self,
        holdings: Holdings,
        active: ActiveParty,
        kit: Kit,
        client: PartyClient,
        alignment: Alignment,
        watch: Watch,
        lazy: LazyTransport | None = None,
    ) -> None:
        super().__init__(holdings, active, {}, kit.run)
        self.lazy = lazy
        if lazy is not None:
            lazy.greet = lambda: greet(self)
        self.kit = kit
        self.client = client
        self.alignment = alignment
        self.watch = watch
        self.losses: list[float] = []
        self.recoveries: list[float] = []
        self.resources = contextlib.ExitStack()
        self._is_open = True

    def with_recovery(self, act: Callable[[], T]) -> T:
        """Do something that parties take part in; if one gets lost, return and do it again.

        Within another verb the whole of that is done again.
        """
        if not self._is_open:
            raise RunError("This connection was closed; connect again.")
        if self.is_recovering:
            return act()
        self.is_recovering = True
        try:
            return _repeated(act, self._recover)
        finally:
            self.is_recovering = False

    def _recover(self, lost: PartyLost) -> None:
        """Begin another session, finish what was decided, and take all to the last version."""
        if self.lazy is not None and lost is self.lazy.failure:
            raise lost  # it was waited for long enough
        started = time.monotonic()
        self.losses.append(started)
        self.client.notify(
            f"{lost} Beginning another session from the last version all parties have."
        )
        log.warning("%s", lost)
        self.client.connect(lost.parties)  # raises where somebody stays away
        _repeated(self._return, lambda loss: self.client.connect(loss.parties))
        self.recoveries.append(time.monotonic() - started)

    def reach(self) -> None:
        """Begin a session, where none was needed so far."""
        if self.lazy is not None:
            self.lazy.connect()

    def _return(self) -> None:
        greet(self)
        if self.client.absent and not self.is_blind:  # which only a prediction allows
            imputation.expect_fit(self)
        else:
            finish_interrupted(Transaction(self.active))
        self.undecided = None
        self.refresh(afresh=True)

    def _predict(self, tables: Mapping[str, Any], data: str | None, part: str) -> Predictions:
        """Predict new people by their ids, or the run's own rows; see `Federation.predict`.

        tables  the active party's file of new people; the others find them in their own tables
        """
        if data is not None:
            raise SettingsError("A federation has tables; give --table active=FILE, not `data`.")
        self._expect_trained()
        predictions = self.predict_tables(tables) if tables else self._predict_own(part)
        return replace(predictions, without=self.client.absent)

    def predict_tables(self, tables: Mapping[str, Any]) -> Predictions:
        """Predict new people by the models as they are loaded."""
        return predict_new(self, new_table(self.config, tables), self.watch)

    def close(self) -> None:
        """End the session, and leave the kit to the next command."""
        if not self._is_open:
            return
        try:
            (self.active.carrier or self.active).transport.flush()
            # The mean embeddings that answer for a party that is down, where all agreed to it.
            if not imputation.drop_old(self) and self.kit.agreement.predict.missing == "without":
                imputation.refresh(self)
        finally:
            self.release()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # After a refusal the parties see the same as after success: a refused request is hidden.
        refused = isinstance(error, UnlabelError) and not isinstance(error, PartyLost)
        if error is None or refused:
            self.close()
        else:
            self.release()

    def release(self) -> None:
        """End the session as it stands, and leave the kit to the next command."""
        self._is_open = False
        self.resources.close()


def connect(
    folder: str | Path,
    *,
    resume: bool = False,
    recovering: bool = False,
    fewer: bool = False,
    notify: Notify = log.info,
    watch: Watch = watch_nothing,
    waits: bool = True,
) -> RemoteFederation:
    """Connect from the active party's kit; see `Federation.connect`. `waits`: for its turn."""
    kit = Kit.open(folder)
    kit.expect_active()
    config = kit.run_config(table_of(kit))
    kept = kept_by(kit, config)
    if kept is None:
        kit.expect_running()
    with contextlib.ExitStack() as stack:
        stack.enter_context(command_turn(kit, waits=waits))
        stack.enter_context(logging_to(kit.logs / "commands.log", "json", kit.name))
        means = None
        if fewer and kit.agreement.predict.missing == "without":
            means = imputation.read(kit.home, kit.digest) if kept is None else kept.means()
        client = client_of(kit, notify, watch, fewer=means is not None, waits=waits)
        stack.callback(client.close)
        if kept is None:
            federation = open_federation(kit, config, client, watch, means)
        else:
            federation = open_kept(kept, client, watch, means)
        imputation.expect_fit(federation)
        federation.with_recovery(
            lambda: federation.load_latest(resume=resume, recovering=recovering)
        )
        imputation.drop_old(federation)
        federation.resources = stack.pop_all()
        return federation


def open_kept(
    kept: KeptRun, client: PartyClient, watch: Watch, means: Imputations | None = None
) -> RemoteFederation:
    """Build the active party of a run that needs nobody; who is needed later is called then.

    means  that answer for parties that are down
    """

    def start() -> None:
        kept.kit.expect_running()
        client.connect()

    inner: Transport = client.pipelined
    if means is not None:
        inner = ImputingTransport(inner, means, lambda: client.absent)
    lazy = LazyTransport(inner, start)
    known = [kept.base.widths[party] for party in lazy.parties]
    return _built(
        *(kept.kit, kept.config, kept.rows, kept.alignment, kept.record),
        *(lazy, client, watch),
        known=known,
    )


def open_federation(
    kit: Kit,
    config: RunConfig,
    client: PartyClient,
    watch: Watch,
    means: Imputations | None = None,
) -> RemoteFederation:
    """Connect to the parties, find the common rows, and build the active party.

    means  that answer for parties that are down
    """

    def retry(lost: PartyLost) -> None:
        client.notify(f"{lost} Trying again.")
        client.connect()

    def assemble() -> RemoteFederation:
        transport: Transport = client.pipelined
        if means is not None:
            transport = ImputingTransport(transport, means, lambda: client.absent)
        expect_alike(describe(transport), kit.digest)
        return _assembled(kit, config, transport, client, watch)

    client.connect()  # raises where somebody stays away
    return _repeated(assemble, retry)


def _assembled(
    kit: Kit, config: RunConfig, transport: Transport, client: PartyClient, watch: Watch
) -> RemoteFederation:
    assert config.active is not None
    rows = read_rows(kit, config)
    with longer_calls(client.transport):
        alignment = align(
            transport, rows.ids, config.align, folder=kit.home, watch=watch, column=config.active.id
        )
    record = LabelRecord.read(kit.home)
    return _built(kit, config, rows, alignment, record, transport, client, watch)


def _built(
    kit: Kit,
    config: RunConfig,
    rows: Table,
    alignment: Alignment,
    record: LabelRecord | None,
    transport: Transport,
    client: PartyClient,
    watch: Watch,
    known: Sequence[int] = (),
) -> RemoteFederation:
    """Build the active party over its rows.

    known  widths of the others' embeddings, where they need not be asked
    """
    kept = read_run_folder(kit.run) if run_file(kit.run).exists() else None
    if kept is not None:
        # The epochs that `auto` stood for when the run began, whatever it would stand for now; and
        # where the agreement names no signing keys, those that were met first.
        trust = config.trust or kept.trust
        config = replace(config, train=keep(config.train, kept.train), trust=trust)
    holdings = table_holdings(config, {ACTIVE: rows.take(alignment.positions)}, record)
    with own_randomness(torch.device("cpu")):
        place = place_of(holdings.config.train)
        active = build_active(holdings, transport, place, folder=kit.home, known=known)
    keep_unsettled(rows.encoding, kit.home)
    kit.use_signing_key()
    if kept is None:
        holdings.bind(kit.home)
    if kept is None or kept.trust != config.trust:
        write_config(kit.run, holdings.config if kept is None else replace(kept, trust=trust))
    lazy = transport if isinstance(transport, LazyTransport) else None
    return RemoteFederation(holdings, active, kit, client, alignment, watch, lazy)


def _repeated(act: Callable[[], T], after: Callable[[PartyLost], None]) -> T:
    """Do something until no party gets lost in it, `TRIES` times at most; `after` each loss."""
    for _ in range(TRIES - 1):
        try:
            return act()
        except PartyLost as lost:
            after(lost)
    return act()


def keep_table(kit: Kit, table: Path) -> None:
    """Remember where the party's table lies."""
    kit.prepare()
    write_atomically(kit.state / DATA, f"{table.resolve()}\n".encode(), mode=OWNER_ONLY)


def table_of(kit: Kit) -> Path:
    """Return where the party's table lies, as it was last started."""
    try:
        return Path((kit.state / DATA).read_text(encoding="utf-8").strip())
    except OSError as error:
        raise RunError(
            f"Kit '{kit.folder}' knows no table yet; run `unlabel party start {kit.folder} --data "
            f"TABLE` first.",
            code="no-table",
        ) from error
