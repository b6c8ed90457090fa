"""`unlabel party start`: the one command of a party's operator."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unlabel.cli.output import messages
from unlabel.errors import RunError

if TYPE_CHECKING:
    from unlabel.operate.asked import Asked
    from unlabel.operate.engine import Engine
    from unlabel.operate.kit import Kit
    from unlabel.operate.office import Office
    from unlabel.party import Policy

app = typer.Typer(help="Run a party of a federation.", no_args_is_help=True)

#: Seconds between two lines of the log-like view, where there is no terminal to draw on.
EVERY = 10.0


@app.callback()
def party() -> None:
    """Run a party of a federation."""


@app.command()
def start(
    kit: Annotated[Path, typer.Argument(help="Folder of the party's kit.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="The party's table: a CSV or Parquet file.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines in place of a live view, as for a log.")
    ] = False,
) -> None:
    """Take part in a federation: show the policy, then serve what it allows until interrupted."""
    from unlabel.operate.connect import table_of
    from unlabel.operate.kit import Kit
    from unlabel.operate.logs import logging_to

    opened = Kit.open(kit)
    with opened.lock(), logging_to(opened.logs / "party.log"):
        table = data.resolve() if data is not None else table_of(opened)
        if opened.is_active:
            _start_active(opened, table)
        else:
            _start_passive(opened, table, plain=plain)


def _start_active(kit: Kit, table: Path) -> None:
    """Run the engine's server; what commands do is shown where they are given."""
    from unlabel.align.normal import normalise_all
    from unlabel.align.psi import library
    from unlabel.operate.connect import keep_table
    from unlabel.operate.house import engine_of, settled_encoding
    from unlabel.operate.readiness import serving
    from unlabel.train.loading import read_active

    library()
    active = kit.run_config(table).active
    assert active is not None
    own = read_active(active, encoding=settled_encoding(kit.home))
    normalise_all(own.ids, kit.agreement.align, kit.party.id)  # its owner hears of ids that collide
    keep_table(kit, table)
    server = kit.agreement.server
    messages.print(
        f"Party active: the engine's server, on {server.host}:{server.port}. Commands "
        f"take `--federation {kit.folder}`."
    )
    ended = _until_signal()
    with _running(engine_of(kit)) as engine, serving(kit.state):
        messages.print("Serving. Stop with Ctrl-C.")
        while not ended.wait(0.25):
            _expect_well(engine)


def _start_passive(kit: Kit, table: Path, *, plain: bool) -> None:
    """Serve a passive party, and show what it is asked."""
    from unlabel.operate.connect import keep_table
    from unlabel.operate.house import engine_of, open_house
    from unlabel.operate.office import Office
    from unlabel.operate.readiness import serving

    house = open_house(kit, table)
    keep_table(kit, table)
    messages.print(policy_table(kit.name, kit.policy))
    for note in house.notes:
        messages.print(note)
    state = "aligned" if house.people.digest else "not aligned yet"
    messages.print(
        f"Party {kit.name}: {len(house.people.ids)} rows in its table, {state}; joins "
        f"{kit.agreement.server.host}:{kit.agreement.server.port}."
    )
    ended = _until_signal()
    office = Office(house.party, kit.links, kit.name)
    with _running(engine_of(kit)) as engine, contextlib.closing(office), serving(kit.state):
        messages.print("Serving. Stop with Ctrl-C.")
        view = Lines(house.asked) if plain or not messages.is_terminal else Drawn(house.asked)
        with view:

            def each() -> None:
                view.refresh(office, engine)
                _expect_well(engine)
                if ended.is_set():
                    office.close()

            office.serve(each)
    if house.party.transcript is not None:
        house.party.transcript.flush()
    messages.print("Stopped.")


def _until_signal() -> threading.Event:
    """Return an event that Ctrl-C and a polite kill set."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    return ended


@contextlib.contextmanager
def _running(engine: Engine) -> Iterator[Engine]:
    engine.told = lambda words: _say(Text(words, style="yellow"))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def _say(words: str | Text) -> None:
    """Tell the operator something; a party serves on where its log lies on a full disk."""
    with contextlib.suppress(OSError):
        messages.print(words, soft_wrap=True)


def _expect_well(engine: Engine) -> None:
    if engine.failed is not None:
        raise RunError(f"{engine.failed} Its log is '{engine.log_file}'.")


def policy_table(name: str, policy: Policy) -> Table:
    """Return what a party serves, as a table."""
    table = Table(title=f"Policy of {name}", title_justify="left", show_header=False)
    table.add_row("serves", ", ".join(policy.serves))
    for limit in vars(policy):
        if limit != "serves":
            table.add_row(limit.replace("_", " "), f"{getattr(policy, limit):,}")
    return table


class Drawn:
    """A live table of what was asked."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._live = Live(console=messages, auto_refresh=False)

    def __enter__(self) -> Drawn:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def refresh(self, office: Office, engine: Engine) -> None:
        """Draw the table anew."""
        self._live.update(asked_table(self._asked, office, engine), refresh=True)


class Lines:
    """A line now and then, where there is no terminal to draw on."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._said: dict[str, int] = {}
        self._next = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def refresh(self, *_: object) -> None:
        """Print what is new since the last line."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        now = {kind: count.times for kind, count in self._asked.counts.items()}
        if now != self._said:
            new = {k: n - self._said.get(k, 0) for k, n in now.items() if n > self._said.get(k, 0)}
            refused = sum(count.refused for count in self._asked.counts.values())
            sent = sum(count.sent for count in self._asked.counts.values())
            kinds = ", ".join(f"{kind} {times}" for kind, times in new.items())
            _say(
                f"{time.strftime('%H:%M:%S')} active asked: {kinds}; {sent:,} bytes sent in all, "
                f"{refused} refused"
            )
            self._said = now


def asked_table(asked: Asked, office: Office, engine: Engine) -> Group:
    """Return what was asked, by whom, in how many rows and bytes."""
    table = Table(title="Asked by: active", title_justify="left")
    table.add_column("request")
    for name in ("times", "rows", "bytes in", "bytes out", "refused"):
        table.add_column(name, justify="right")
    table.add_column("last")
    for kind, count in sorted(asked.counts.items(), key=lambda item: -item[1].last):
        figures = (count.times, count.rows, count.received, count.sent, count.refused)
        last = time.strftime("%H:%M:%S", time.localtime(count.last))
        table.add_row(kind, *(f"{figure:,}" for figure in figures), last)
    state = "running" if engine.is_alive() else "starting"
    foot = Text(f"engine {state}, restarted {engine.restarts} times; jobs served: {office.jobs}")
    refusals = [Text(line, style="red") for line in list(asked.refusals)[-3:]]
    return Group(table, *refusals, foot)
