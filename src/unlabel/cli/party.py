"""`unlabel party start`: the one command of a party's operator."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unlabel.cli.operate import backup, health, restore, stop
from unlabel.cli.output import make_table, messages, say
from unlabel.cli.repair import repair
from unlabel.errors import UsageError, unknown

if TYPE_CHECKING:
    from unlabel.config import Policy
    from unlabel.remote.kit import Kit
    from unlabel.remote.metrics import Address
    from unlabel.remote.party_home import PartyHome
    from unlabel.remote.request_stats import RequestStats

app = typer.Typer(help="Run a party of a federation.", no_args_is_help=True)
app.command()(health)
app.command()(stop)
app.command()(repair)
app.command()(backup)
app.command()(restore)

#: Seconds between two lines of the log-like view, where there is no terminal to draw on.
EVERY = 10.0


@app.command()
def start(
    kit: Annotated[Path, typer.Argument(help="Folder of the party's kit.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="The party's table: a CSV, Parquet or Arrow file.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines in place of a live view, as for a log.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there."),
    ] = None,
    metrics_anywhere: Annotated[
        bool, typer.Option("--metrics-anywhere", help="Allow metrics on other hosts than this one.")
    ] = False,
    log_format: Annotated[
        str, typer.Option("--log-format", help="Lines of the party's log: text, or json.")
    ] = "text",
) -> None:
    """Take part in a federation: show the policy, then serve what it allows until interrupted."""
    from unlabel.remote.cautions import cautions
    from unlabel.remote.connect import table_of
    from unlabel.remote.json_log import FORMATS, logging_to
    from unlabel.remote.kit import Kit
    from unlabel.remote.metrics import Address

    address = None if metrics is None else Address.of(metrics, anywhere=metrics_anywhere)
    if log_format not in FORMATS:
        raise UsageError(unknown("log format", log_format, FORMATS))
    opened = Kit.open(kit)
    for sentence in cautions(opened):
        say(f"WARNING: {sentence}")
    with opened.lock(), logging_to(opened.logs / "party.log", log_format, opened.name):
        table = data.resolve() if data is not None else table_of(opened)
        if opened.is_active:
            _start_active(opened, table, address)
        else:
            _start_passive(opened, table, address, plain=plain)


def _start_active(kit: Kit, table: Path, metrics: Address | None) -> None:
    """Be where the others meet; progress is shown by the commands themselves."""
    from unlabel.align.normal import normalise_all
    from unlabel.align.psi import library
    from unlabel.remote.connect import keep_table
    from unlabel.remote.party_home import settled_encoding
    from unlabel.train.label_record import LABELS
    from unlabel.train.tables import read_active

    library()
    config = kit.run_config(table)
    active = config.active
    assert active is not None
    # Its owner may have cleared what was forgotten.
    blank = config.is_label_free or (kit.home / LABELS).exists()
    rows = read_active(active, encoding=settled_encoding(kit.home), blank_labels=blank)
    normalise_all(rows.ids, kit.agreement.align, kit.party.id)  # raises where ids collide
    keep_table(kit, table)
    server = kit.agreement.server
    say(
        f"Party active: the others meet here, on {server.host}:{server.port}. Commands take "
        f"`--federation {kit.folder}`."
    )
    _serve(kit, None, metrics, plain=True)


def _start_passive(kit: Kit, table: Path, metrics: Address | None, *, plain: bool) -> None:
    """Serve a passive party, and show what it is asked."""
    from unlabel.remote.connect import keep_table
    from unlabel.remote.describe import in_words, role_of
    from unlabel.remote.party_home import open_party

    home = open_party(kit, table)
    keep_table(kit, table)
    messages.print(_policy_table(kit.name, home.party.guard.policy))
    if home.party.label_free is not None:
        say(in_words(role_of(kit)))
    for note in home.notes:
        say(note)
    state = "aligned" if home.people.digest else "not aligned yet"
    say(
        f"Party {kit.name}: {len(home.people.ids)} rows in its table, {state}; joins "
        f"{kit.agreement.server.host}:{kit.agreement.server.port}."
    )
    _serve(kit, home, metrics, plain=plain)
    if home.party.transcript is not None:
        home.party.transcript.flush()
    say("Stopped.")


def _serve(kit: Kit, home: PartyHome | None, metrics: Address | None, *, plain: bool) -> None:
    """Serve until Ctrl-C, a polite kill or a request to stop."""
    from unlabel.remote.carriers import carrier_of
    from unlabel.remote.operated import Operated, operating, stopping
    from unlabel.remote.request_stats import RequestStats
    from unlabel.remote.serving_note import serving

    stats = RequestStats() if home is None else home.stats
    party = None if home is None else home.party
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping(ended))
        carrier = stack.enter_context(carrier_of(kit, party, _notice))
        refresh = stack.enter_context(_view(stats, carrier.state, plain=plain))
        rows = (lambda: 0) if home is None else (lambda: home.rows)
        operated = Operated(kit, ended, carrier.contact, stats, rows)
        stack.enter_context(operating(operated, metrics))
        stack.enter_context(serving(kit.state))
        say("Serving. Stop with Ctrl-C.")

        def each() -> None:
            refresh()
            operated.turn()
            if ended.is_set():
                carrier.close()

        carrier.serve(each)


def _notice(words: str) -> None:
    """Print what an operator should know."""
    _print(Text(words, style="yellow"))


def _print(words: str | Text) -> None:
    """Print something; a party serves on where its log lies on a full disk."""
    with contextlib.suppress(OSError):
        say(words)


def _policy_table(name: str, policy: Policy) -> Table:
    table = Table(title=f"Policy of {name}", title_justify="left", show_header=False)
    table.add_row("serves", ", ".join(policy.serves))
    for limit, value in vars(policy).items():
        if limit != "serves":
            shown = ("no", "yes")[value] if isinstance(value, bool) else f"{value:,}"
            table.add_row(limit.replace("_", " "), shown)
    return table


@contextlib.contextmanager
def _view(
    stats: RequestStats, state: Callable[[], str], *, plain: bool
) -> Iterator[Callable[[], None]]:
    """Yield what shows the requests anew: in a live table, or in lines without a terminal."""
    if plain or not messages.is_terminal:
        yield _Lines(stats).refresh
        return
    with Live(console=messages, auto_refresh=False) as live:
        yield lambda: live.update(_stats_table(stats, state()), refresh=True)


class _Lines:
    """A line every `EVERY` seconds in which there were requests."""

    def __init__(self, stats: RequestStats) -> None:
        self._stats = stats
        self._printed: dict[str, int] = {}
        self._next = 0.0

    def refresh(self) -> None:
        """Print what is new since the last line."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        counts = dict(self._stats.counts)  # which the party's own thread adds to
        times = {kind: count.times for kind, count in counts.items()}
        new = {kind: number - self._printed.get(kind, 0) for kind, number in times.items()}
        if any(new.values()):
            kinds = ", ".join(f"{kind} {number}" for kind, number in new.items() if number)
            _print(
                f"{time.strftime('%H:%M:%S')} active asked: {kinds}; "
                f"{sum(count.sent for count in counts.values()):,} bytes sent in all, "
                f"{sum(count.refused for count in counts.values())} refused"
            )
            self._printed = times


def _stats_table(stats: RequestStats, state: str) -> Group:
    """Return what was asked, in how many rows and bytes, the newest kind first."""
    rows = [["request", "times", "rows", "bytes in", "bytes out", "refused", "last"]]
    for kind, count in sorted(stats.counts.items(), key=lambda item: -item[1].last):
        figures = (count.times, count.rows, count.received, count.sent, count.refused)
        last = time.strftime("%H:%M:%S", time.localtime(count.last))
        rows.append([kind, *(f"{figure:,}" for figure in figures), last])
    refusals = [Text(line, style="red") for line in list(stats.refusals)[-3:]]
    return Group(make_table("Requests of the active party", rows), *refusals, Text(state))
