"""`unlabel federation demo`: three organisations on one machine, and what each would type."""

from __future__ import annotations

import json as plain_json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel.cli.interrupts import on_interrupt
from unlabel.cli.output import Json, make_table, messages, print_json, results, say
from unlabel.errors import RunError
from unlabel.files import write_atomically, writing

FORGOTTEN = "3"
EPOCHS = 10
KITS, SETTINGS = Path("kits"), "federation.yaml"
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
    Each is a process with a folder of its own: they connect over mutual TLS, find the images that
    all of them have, train, forget a digit, and sign what they did. Every command is shown before
    it runs.
    """
    from unlabel.data import ACTIVE
    from unlabel.remote.example import settings, write_tables
    from unlabel.remote.kit_files import AGREEMENT
    from unlabel.remote.local_cluster import free_port
    from unlabel.report.service import CERTIFICATE, REPORT

    began = time.monotonic()
    _remove_earlier(out)
    common = write_tables(out)
    write_atomically(out / SETTINGS, settings(free_port(), epochs=EPOCHS).encode())
    shell = Shell(out.resolve(), sys.stderr if json else None)
    # The parties are stopped on a polite kill too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with on_interrupt(INTERRUPTED):
        _run_commands(shell)
    signed = plain_json.loads((out / RUN / CERTIFICATE).read_bytes())["certificate"]
    facts = {
        "common": common,
        "forgotten": FORGOTTEN,
        "depth": signed["depth"],
        "signed": list(signed["parties"]),
        "report": str(out / RUN / REPORT),
        "certificate": str(out / RUN / CERTIFICATE),
        "keys": str(out / KITS / ACTIVE / AGREEMENT),
        "seconds": round(time.monotonic() - began, 1),
        "steps": {name: round(seconds, 1) for name, seconds in shell.seconds.items()},
        "folder": str(out),
    }
    if json:
        print_json(facts)
    else:
        results.print(_page(facts, out))


def _run_commands(shell: Shell) -> None:
    """Run one command after the other; the parties serve as long as they are needed."""
    from unlabel.data import ACTIVE
    from unlabel.remote.example import TABLES, tables_in
    from unlabel.remote.kit_files import AGREEMENT
    from unlabel.remote.local_cluster import LocalCluster
    from unlabel.report.service import CERTIFICATE

    kits = {name: shell.folder / KITS / name for name in TABLES}
    at_active = ("--federation", KITS / ACTIVE)
    shell.say("One person sets the federation up, and hands each organisation its kit.")
    shell.run("federation", "init", SETTINGS, "--out", KITS)
    shell.say("Each organisation starts its party: here all of them in the background.")
    for name, table in TABLES.items():
        words = ("party", "start", KITS / name, "--data", table, "--plain")
        shell.show(*words, after=f" > {KITS}/{name}.log &")
    began = time.monotonic()
    with LocalCluster(kits, tables_in(shell.folder)):
        shell.seconds["party start"] = time.monotonic() - began
        shell.say("All serve. The active party gives all further commands; the others answer.")
        shell.run("train", *at_active)
        shell.run("forget", *at_active, "--label", FORGOTTEN)
        for verb in ("audit", "commit", "purge", "certificate"):
            shell.run(verb, *at_active)
    shell.say("The parties have stopped; what is left are files.")
    shell.run("report", *at_active)
    shell.say("Every kit names all public keys, so each organisation can check the certificate.")
    shell.run("verify", RUN / CERTIFICATE, "--run", RUN, "--trust", KITS / ACTIVE / AGREEMENT)


@dataclass(frozen=True)
class Shell:
    """Shows commands and runs them.

    folder   in which they run, so that they read as a person would type them
    out      where their results go, if not to standard output
    seconds  what each took
    """

    folder: Path
    out: IO[str] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Print what comes next."""
        say(Text(f"\n{words}", style="bold"))

    def show(self, *words: object, after: str = "") -> str:
        """Print a command as it is typed."""
        command = f"unlabel {shlex.join(map(str, words))}{after}"
        say(Text(f"$ {command}", style="bold cyan"))
        return command

    def run(self, *words: object) -> None:
        """Run a command of this very program in its own process; raise where it fails."""
        messages.print()
        command = self.show(*words)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "unlabel", *map(str, words)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
        )
        name = "federation init" if words[0] == "federation" else str(words[0])
        self.seconds[name] = time.monotonic() - began
        if done.returncode:
            raise RunError(
                f"`{command}` ended with status {done.returncode} for the reason above; the "
                f"parties' output is in {self.folder / KITS}/*.log."
            )


def _remove_earlier(out: Path) -> None:
    """Remove what an earlier demonstration left, and nothing else."""
    from unlabel.remote.example import TABLES
    from unlabel.remote.kit import Kit

    if not out.exists():
        return
    ours = {SETTINGS, "keys.yaml", str(KITS), *TABLES.values()}
    if not out.is_dir() or {path.name for path in out.iterdir()} - ours:
        raise RunError(f"'{out}' holds something else than a demonstration; choose another --out.")
    for name in TABLES:
        kit = out / KITS / name
        if (kit / "state").is_dir():
            with Kit.read(kit).lock():  # raises where an earlier one still runs
                pass
    with writing(out):
        shutil.rmtree(out)


def _page(facts: dict[str, Any], out: Path) -> Group:
    rows = [["command", "seconds"]]
    rows += [[f"unlabel {name}", f"{seconds:.1f}"] for name, seconds in facts["steps"].items()]
    rows.append(["all", f"{facts['seconds']:.1f}"])
    signers = " and ".join((", ".join(facts["signed"][:-1]), facts["signed"][-1]))
    about = Text(
        f"Three organisations had {facts['common']} images in common, and none learned which "
        f"others another has. They trained one model, forgot the digit {FORGOTTEN}, and {signers} "
        f"signed; the certificate holds under the keys that every kit names."
    )
    where = Text(
        f"{facts['report']}\n    the audit as a page: open it in a browser\n"
        f"{facts['certificate']}\n    what every party signed\n"
        f"{out / KITS}\n    a folder a party, and what each was asked in PARTY.log\n"
        f"{out / SETTINGS}\n    all that had to be written"
    )
    return Group(
        make_table("What it took", rows),
        Panel(about, title="unlabel federation demo", title_align="left"),
        Panel(where, title="Where to look", title_align="left"),
    )
