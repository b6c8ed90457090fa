"""`unlabel federation demo`: three organisations on one machine, and what each would type."""

from __future__ import annotations

import json as plain_json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn

import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel.cli.interrupts import on_interrupt
from unlabel.cli.output import Json, make_table, messages, print_json, results
from unlabel.errors import RunError
from unlabel.files import write_atomically, writing

FORGOTTEN = "3"
EPOCHS = 10
KITS, SETTINGS, KEYS = Path("kits"), "federation.yaml", "keys.yaml"
RUN = KITS / "active" / "state" / "run"
INTERRUPTED = "Interrupted; the parties have stopped, and the same command starts over."


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the tables, the kits and the run.")] = Path(
        "runs/federation-demo"
    ),
    json: Json = False,
) -> None:
    """Run three organisations on this machine, from their tables to a certificate; two minutes.

    One of them knows which digit each image shows, one holds the left halves and one the right.
    Each is a process with a folder of its own: they meet over mutual TLS, find the images that
    all of them have, train, forget a digit, and sign what they did. Every command is shown before
    it runs.
    """
    from unlabel.operate.example import settings, write_tables
    from unlabel.operate.neighbours import free_port
    from unlabel.report.service import CERTIFICATE, REPORT

    began = time.monotonic()
    _make_room(out)
    common = write_tables(out)
    write_atomically(out / SETTINGS, settings(free_port(), epochs=EPOCHS).encode())
    stage = Stage(out.resolve(), sys.stderr if json else None)
    with on_interrupt(INTERRUPTED), _ending_on_request():
        _play(stage)
    signed = plain_json.loads((out / RUN / CERTIFICATE).read_bytes())["certificate"]
    found = {
        "common": common,
        "forgotten": FORGOTTEN,
        "level": signed["depth"]["level"],
        "signed": list(signed["parties"]),
        "report": str(out / RUN / REPORT),
        "certificate": str(out / RUN / CERTIFICATE),
        "keys": str(out / KEYS),
        "seconds": round(time.monotonic() - began, 1),
        "steps": {name: round(taken, 1) for name, taken in stage.seconds.items()},
        "folder": str(out),
    }
    if json:
        print_json(found)
    else:
        results.print(_page(found, out))


def _play(stage: Stage) -> None:
    """Give the commands one after the other; the parties serve as long as they are needed."""
    import yaml

    from unlabel.data import ACTIVE
    from unlabel.operate.example import TABLES
    from unlabel.operate.kit import Kit
    from unlabel.report.service import CERTIFICATE
    from unlabel.signing import Signer

    kits = {name: KITS / name for name in TABLES}
    at_active = ("--federation", kits[ACTIVE])
    stage.say("One person sets the federation up, and hands each organisation its kit.")
    stage.run("federation", "init", SETTINGS, "--out", KITS)
    stage.say("Each organisation starts its party: elsewhere in earnest, here in the background.")
    with stage.parties(kits):
        stage.say("All serve. The rest is up to the active party; the others only answer.")
        stage.run("train", *at_active)
        stage.run("forget", *at_active, "--label", FORGOTTEN)
        stage.run("audit", *at_active)
        stage.run("commit", *at_active)
        stage.run("purge", *at_active)
        stage.run("certificate", *at_active)
    stage.say("The parties have stopped; what is left are files.")
    stage.run("report", *at_active)
    stage.say(f"Each organisation tells its public key (unlabel federation show): {KEYS}.")
    keys = {name: Signer(Kit.read(stage.folder / kit).home).public for name, kit in kits.items()}
    write_atomically(stage.folder / KEYS, yaml.safe_dump({"trust": keys}).encode())
    stage.run("verify", RUN / CERTIFICATE, "--run", RUN, "--trust", KEYS)


@dataclass(frozen=True)
class Stage:
    """Where commands are shown and run.

    folder   in which they run, so that they read as a person would type them
    out      where their results go, if not to standard output
    seconds  what each took
    """

    folder: Path
    out: IO[str] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Say what comes next."""
        messages.print(Text(f"\n{words}", style="bold"), soft_wrap=True)

    def show(self, *words: object, after: str = "") -> str:
        """Show a command as it is typed."""
        line = f"unlabel {shlex.join(map(str, words))}{after}"
        messages.print(Text(f"$ {line}", style="bold cyan"), soft_wrap=True)
        return line

    def run(self, *words: object) -> None:
        """Run a command of this very program in its own process; raise where it fails."""
        messages.print()
        line = self.show(*words)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "unlabel", *map(str, words)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
        )
        self._took(" ".join(map(str, words[:2])) if words[0] == "federation" else words[0], began)
        if done.returncode:
            raise RunError(
                f"`{line}` ended with status {done.returncode}, as said above; the parties' own "
                f"words are in {self.folder / KITS}/*.log."
            )

    @contextmanager
    def parties(self, kits: dict[str, Path]) -> Iterator[None]:
        """Start the parties, and stop them afterwards, whatever happens."""
        from unlabel.operate.example import TABLES
        from unlabel.operate.neighbours import Neighbours

        for name, kit in kits.items():
            after = f" > {KITS}/{name}.log &"
            self.show("party", "start", kit, "--data", TABLES[name], "--plain", after=after)
        began = time.monotonic()
        with Neighbours(
            {name: self.folder / kit for name, kit in kits.items()},
            {name: self.folder / table for name, table in TABLES.items()},
        ):
            self._took("party start", began)
            yield

    def _took(self, step: object, began: float) -> None:
        self.seconds[str(step)] = time.monotonic() - began


@contextmanager
def _ending_on_request() -> Iterator[None]:
    """Leave in order on a polite kill too: the parties are not to outlive the demonstration."""

    def leave(*_: object) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _make_room(out: Path) -> None:
    """Remove what an earlier demonstration left, and nothing else."""
    from unlabel.operate.example import TABLES
    from unlabel.operate.kit import Kit

    if not out.exists():
        return
    own = {SETTINGS, KEYS, str(KITS), *TABLES.values()}
    if not out.is_dir() or {path.name for path in out.iterdir()} - own:
        raise RunError(f"'{out}' holds something else than a demonstration; choose another --out.")
    for name in TABLES:
        kit = out / KITS / name
        if (kit / "state").is_dir():
            with Kit.read(kit).lock():  # raises where an earlier one still runs
                pass
    with writing(out):
        shutil.rmtree(out)


def _page(found: dict[str, Any], out: Path) -> Group:
    rows = [["command", "seconds"]]
    rows += [[f"unlabel {name}", f"{taken:.1f}"] for name, taken in found["steps"].items()]
    rows.append(["all", f"{found['seconds']:.1f}"])
    signers = " and ".join((", ".join(found["signed"][:-1]), found["signed"][-1]))
    about = Text(
        f"Three organisations had {found['common']} images in common, and none told another which "
        f"others it has. They trained one model, forgot the digit {FORGOTTEN}, and {signers} "
        f"signed; the certificate holds under the keys that each of them told."
    )
    where = Text(
        f"{found['report']}\n    the audit as a page: open it in a browser\n"
        f"{found['certificate']}\n    what every party signed\n"
        f"{out / KITS}\n    a folder a party, and what each was asked in PARTY.log\n"
        f"{out / SETTINGS}\n    all that had to be written"
    )
    return Group(
        make_table("What it took", rows),
        Panel(about, title="unlabel federation demo", title_align="left"),
        Panel(where, title="Where to look", title_align="left"),
    )
