"""A federation whose other parties live in houses of their own.

It trains, forgets, audits and commits by the same code as one in a single process; only the way to
the parties differs, and that it can break. Then another job is started, all return to the last
version they share, and what was under way is done again from there.
"""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch

from unlabel._version import __version__
from unlabel.align import Alignment, align
from unlabel.align.psi import Watch, watch_nothing
from unlabel.configfile import read_run_config
from unlabel.data import ACTIVE
from unlabel.errors import PartyLost, RunError, SettingsError, UnlabelError
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.forget import Transaction
from unlabel.operate import standin
from unlabel.operate.courier import Courier, Said
from unlabel.operate.house import keep_unsettled, settled_encoding
from unlabel.operate.kit import Kit
from unlabel.operate.logs import logging_to
from unlabel.operate.predicting import new_table, predict_new
from unlabel.operate.standin import StandIns, StandInTransport
from unlabel.party import ActiveParty, describe, own_randomness
from unlabel.runfolder import write_config
from unlabel.train import Holdings, RunConfig
from unlabel.train.assembly import build_active
from unlabel.train.epochs import keep
from unlabel.train.loading import read_active, read_words, table_holdings
from unlabel.train.predictions import Predictions
from unlabel.wire import Description, Transport
from unlabel.wire.flare import FlareTransport
from unlabel.words import printable

log = logging.getLogger("unlabel.federation")

T = TypeVar("T")

#: Where a kit remembers the table of its party.
DATA = "data"
#: How often in a row a command is taken up again before it gives up.
TRIES = 10
#: A call about ids may take so many times as long as any other: much is to be computed.
ALIGNING = 10


class RemoteFederation(Federation):
    """A federation that is reached through an engine, and that survives its failures.

    courier     starts jobs and brings lines to the parties
    kit         of the active party
    alignment   the rows that all parties share
    notify      is told what is waited for
    watch       is told how far a matching of ids has come
    losses      when each loss of a party was noticed, by a clock that only runs forward
    recoveries  seconds that each return to the last common version took
    """

    is_remote = True

    def __init__(
        self,
        holdings: Holdings,
        active: ActiveParty,
        kit: Kit,
        courier: Courier,
        alignment: Alignment,
        *,
        notify: Said,
        watch: Watch,
    ) -> None:
        super().__init__(holdings, active, {}, kit.run)
        self.kit = kit
        self.courier = courier
        self.alignment = alignment
        self.notify = notify
        self.watch = watch
        self.losses: list[float] = []
        self.recoveries: list[float] = []
        self._resources = contextlib.ExitStack()
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
            for left in reversed(range(TRIES)):
                try:
                    return act()
                except PartyLost as lost:
                    self.losses.append(time.monotonic())
                    if not left:
                        raise
                    self.notify(
                        f"{lost} Starting another job from the last version all parties have."
                    )
                    log.warning("%s", lost)
                    self.reconnect(lost.parties)
        finally:
            self.is_recovering = False
        raise AssertionError("unreachable")

    def reconnect(self, lost: Sequence[str] = ()) -> None:
        """Start another job, finish what was decided, and take all to the last version.

        lost  who did not answer in the last one
        """
        started = time.monotonic()
        for left in reversed(range(TRIES)):
            self.courier.connect(lost)  # raises where somebody stays away
            try:
                expect_alike(describe(self.active.transport), self.kit.digest)
                if self.courier.absent:  # which only a prediction allows
                    standin.expect_fit(self, self.kit.home, self.courier.absent)
                else:
                    Transaction(self.active).recover()
                self.undecided = None
                self.refresh(afresh=True)
                break
            except PartyLost as again:
                if not left:
                    raise
                lost = again.parties
        self.recoveries.append(time.monotonic() - started)

    def _predict(self, tables: Mapping[str, Any], data: str | None, part: str) -> Predictions:
        """Predict new people by their ids, or the run's own rows; see `Federation.predict`.

        tables  the active party's file of new people; the others find them in their own tables
        """
        if data is not None:
            raise SettingsError("A federation has tables; give --table active=FILE, not `data`.")
        self._expect_trained()
        new = new_table(self.config, tables) if tables else None
        found = self._predict_own(part) if new is None else predict_new(self, new, self.watch)
        return replace(found, without=self.courier.absent)

    @contextlib.contextmanager
    def longer_calls(self) -> Iterator[None]:
        """Give calls about ids their time."""
        with _longer_calls(self.courier.transport):
            yield

    def keep_stand_ins(self) -> None:
        """Keep what stands in for a party that is down later, where all agreed to that."""
        goes_on = self.kit.agreement.predict.missing == "without"
        if not standin.drop_old(self, self.kit.home) and goes_on:
            aligned = self.alignment.digest
            standin.renew(self, self.kit.home, aligned, self.kit.digest, self.notify)

    def own(self, resources: contextlib.ExitStack) -> None:
        """Take over what is to be closed with the connection."""
        self._resources = resources

    def close(self) -> None:
        """End the job, and leave the kit to the next command."""
        if self._is_open:
            try:
                self.keep_stand_ins()
            finally:
                self._release()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Whether a request was kept must not show in what is done after a refusal.
        refused = isinstance(error, UnlabelError) and not isinstance(error, PartyLost)
        if error is None or refused:
            self.close()
        else:
            self._release()

    def _release(self) -> None:
        self._is_open = False
        self._resources.close()


def connect(
    folder: str | Path,
    *,
    resume: bool = False,
    recovering: bool = False,
    fewer: bool = False,
    notify: Said = log.info,
    watch: Watch = watch_nothing,
) -> RemoteFederation:
    """Connect to a federation from the kit of its active party.

    resume, recovering  as in `Federation.open`
    fewer               go on without parties that are down, where all agreed to that
    notify              is told what is waited for
    watch               is told how far an alignment has come
    """
    kit = Kit.open(folder)
    kit.expect_active()
    config = kit.run_config(table_of(kit))
    if not kit.is_running():
        raise RunError(
            f"The active party does not run; start it with `unlabel party start {folder}`, and let "
            f"it run while commands are given."
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(kit.lock("command"))
        stack.enter_context(logging_to(kit.logs / "commands.log"))
        agreed = kit.agreement
        goes_on = agreed.predict.missing == "without"
        kept = standin.read(kit.home, kit.digest) if fewer and goes_on else None
        courier = Courier(
            kit.admin,
            kit.links,
            agreed.passive,
            timeout=agreed.timeout,
            said=notify,
            fewer=kept is not None,
        )
        stack.callback(courier.close)
        federation = _opened(kit, config, courier, notify, watch, kept)
        if courier.absent:
            standin.expect_fit(federation, kit.home, courier.absent)
        federation.with_recovery(
            lambda: federation.load_latest(resume=resume, recovering=recovering)
        )
        standin.drop_old(federation, kit.home)
        federation.own(stack.pop_all())
        return federation


@contextlib.contextmanager
def connected(folder: str | Path, **options: Any) -> Iterator[RemoteFederation]:
    """Connect as `Federation.connect` does; this name goes with version 0.8."""
    warnings.warn(
        "connected(kit) goes with version 0.8; write Federation.connect(kit).",
        DeprecationWarning,
        stacklevel=3,
    )
    if "said" in options:
        options["notify"] = options.pop("said")
    federation = connect(folder, **options)
    with federation:
        yield federation


def _opened(
    kit: Kit,
    config: RunConfig,
    courier: Courier,
    notify: Said,
    watch: Watch,
    kept: StandIns | None = None,
) -> RemoteFederation:
    """Meet the parties, find the common rows, and build the active party."""
    for left in reversed(range(TRIES)):
        courier.connect()  # which has waited long enough where it says that somebody is lost
        try:
            return _assembled(kit, config, courier, notify, watch, kept)
        except PartyLost as lost:
            if not left:
                raise
            notify(f"{lost} Trying again.")
    raise AssertionError("unreachable")


def _assembled(
    kit: Kit,
    config: RunConfig,
    courier: Courier,
    notify: Said,
    watch: Watch,
    kept: StandIns | None,
) -> RemoteFederation:
    transport: Transport = courier.transport
    if kept is not None:
        transport = StandInTransport(courier.transport, kept, lambda: courier.absent)
    expect_alike(describe(transport), kit.digest)
    assert config.active is not None
    settled = settled_encoding(kit.home)
    own = read_words(config, ACTIVE, read_active(config.active, encoding=settled))
    with _longer_calls(courier.transport):
        found = align(
            transport, own.ids, config.align, folder=kit.home, watch=watch, column=config.active.id
        )
    if (kit.run / "config.yaml").exists():
        # The epochs that `auto` stood for when the run began, whatever it would stand for now.
        config = replace(config, train=keep(config.train, read_run_config(kit.run).train))
    holdings = table_holdings(config, {ACTIVE: own.take(found.positions)})
    with own_randomness(torch.device("cpu")):
        active = build_active(holdings, transport, holdings.config.train.place(), folder=kit.home)
    keep_unsettled(own.encoding, kit.home)
    if not (kit.run / "config.yaml").exists():
        write_config(kit.run, holdings.config)
    return RemoteFederation(holdings, active, kit, courier, found, notify=notify, watch=watch)


@contextlib.contextmanager
def _longer_calls(transport: FlareTransport) -> Iterator[None]:
    timeout = transport.timeout
    transport.timeout = timeout * ALIGNING
    try:
        yield
    finally:
        transport.timeout = timeout


def expect_alike(described: Mapping[str, Description], agreed: str) -> None:
    """Raise where a party runs other software, or under another agreement."""
    own = _release(f"unlabel {__version__}")
    for party, told in described.items():
        if _release(told.software) != own:
            raise RunError(
                f"Party '{party}' runs {printable(told.software[:40]) or 'an older release'}, and "
                f"this is unlabel {__version__}; upgrade the older side."
            )
        if told.agreed != agreed:
            raise RunError(
                f"Party '{party}' works under agreement {told.agreed[:12] or 'none'}, and this kit "
                f"under {agreed[:12]}; take the kits of one `unlabel federation init`."
            )


def _release(software: str) -> tuple[str, ...]:
    """Return what must be the same on both sides: all but the last number of a version."""
    return tuple(software.split(".")[:2])


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
            f"TABLE` first."
        ) from error
