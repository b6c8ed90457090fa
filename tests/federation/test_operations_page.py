"""The runbook is true: over three parties that run, its commands do what stands under them.

Ports aside every line is as written. `unlabel party start` goes to the background, as to a terminal
of its own; a party's health is asked again until it is what the page says, since others take a
moment to notice.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import Outcome, one_thread, unlabel
from cli.console_pages import BLOCK, missing, steps
from small_parties import animals, write_tables
from typer.core import TyperGroup
from typer.main import get_command

from unlabel.cli.main import app
from unlabel.remote.local_cluster import await_serving, free_port

__all__ = ["one_thread"]  # a fixture for every test here

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / name).read_text("utf-8") for name in ("docs/operations.md", "deploy/README.md")
}
RUNBOOK = PAGES["docs/operations.md"]
#: The blocks that do not run, by their first words, and why.
NOT_RUN = {
    "pip install": "the tests run what is installed",
    "pip install --upgrade": "the same",
    "policy:": "a line of party.yaml, not a command",
    "cp deploy/systemd/unlabel-party@.service": "needs systemd and a container daemon",
}
#: Seconds that a party may take to say or to notice something.
SOON = 60.0
STATUS = re.compile(r"\s+# status (\d+)$")


def blocks(text: str) -> list[tuple[str, str, str]]:
    """Return every block of a page: the heading above it, its language and its text."""
    found = []
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        heading = section.partition("\n")[0]
        found += [(heading, language, block) for language, block in BLOCK.findall(section)]
    assert len(found) == len(BLOCK.findall(text)), "a comment in a block reads like a heading"
    return found


# --- short: what stands there can be meant -----------------------------------------------------


def called(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words of a line name, and the words that are left for it."""
    command: Any = get_command(app)
    while isinstance(command, TyperGroup) and words:
        context = command.make_context(command.name, words[:1])
        _, command, words = command.resolve_command(context, words)
    return command, words


def unknown_options(line: str) -> list[str]:
    """Return the options of a line that its command does not have."""
    command, words = called(shlex.split(line, comments=True)[1:])
    known = {name for parameter in command.params for name in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in known]


def test_every_block_runs_or_is_listed_and_every_command_exists() -> None:
    idle = [
        block for text in PAGES.values() for _, kind, block in blocks(text) if kind != "console"
    ]
    named = {max((n for n in NOT_RUN if block.startswith(n)), key=len) for block in idle}
    assert named == set(NOT_RUN)
    shown = [
        line for _, kind, block in blocks(RUNBOOK) if kind == "console" for line, _ in steps(block)
    ]
    commands = [STATUS.sub("", line) for line in shown if line.startswith("unlabel ")]
    for command in commands:
        verb, words = called(shlex.split(command)[1:])
        verb.make_context(verb.name, words)  # raises where it cannot be meant
    inline = [line for text in PAGES.values() for line in re.findall(r"`(unlabel [^`]+)`", text)]
    assert {line: bad for line in inline if (bad := unknown_options(line))} == {}
    verbs = {tuple(command.split()[1:3]) for command in commands}
    party = ("start", "health", "stop", "backup", "restore", "repair")
    federation = ("show", "request", "renew", "install", "revoke")
    assert {("party", verb) for verb in party} | {("federation", v) for v in federation} <= verbs


def test_an_option_that_is_not_there_is_found() -> None:
    assert unknown_options("unlabel party health KIT --sometimes") == ["--sometimes"]
    with pytest.raises(Exception, match="No such command"):
        called(["party", "wealth"])


# --- long: it does what stands under it --------------------------------------------------------


@dataclass
class Site:
    """A folder in which the page's commands are given, and the parties that were started there."""

    folder: Path
    parties: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, line: str, shown: list[str]) -> None:
        """Give a command, and compare how it ends and what it prints with the page."""
        status = STATUS.search(line)
        wanted, command = int(status[1]) if status else 0, STATUS.sub("", line)
        if command.startswith("unlabel party start "):
            self._start(command, shown)
            return
        done = self._done(command)
        deadline = time.monotonic() + SOON
        while " party health " in command and not _fits(done, wanted, shown):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
            done = self._done(command)
        assert _fits(done, wanted, shown), f"$ {line}\n[{done.code}]\n{done.out}\n{done.err}"

    def _done(self, command: str) -> Outcome:
        if command.startswith("unlabel "):
            return unlabel(*shlex.split(command)[1:])
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def _start(self, command: str, shown: list[str]) -> None:
        words = shlex.split(command)[1:]
        printed = self.folder / f"terminal-{len(self.parties)}.log"
        with printed.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "unlabel", *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            )
        self.parties.append(process)
        await_serving(process, self.folder / words[2], printed, seconds=SOON)
        deadline = time.monotonic() + SOON
        while missing(printed.read_text("utf-8"), shown):
            assert time.monotonic() < deadline, f"$ {command}\n{printed.read_text('utf-8')}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End what still runs."""
        for party in self.parties:
            with contextlib.suppress(ProcessLookupError):
                party.send_signal(signal.SIGTERM)
        for party in self.parties:
            party.wait(timeout=SOON)


def _fits(done: Outcome, status: int, shown: list[str]) -> bool:
    """Return whether a command ended as the page says; its two streams are one at a terminal."""
    assert "Traceback" not in done.err, done.err
    return done.code == status and missing(done.err, missing(done.out, shown)) == []


def keep_a_version_of_its_own(folder: Path) -> None:
    """Have the shop keep version 7, as releases before the check of numbers could be made to."""
    versions = folder / "kits/shop/state/shop/versions"
    (description,) = versions.glob("*.json")
    text = description.read_text("utf-8").replace('"version": 2', '"version": 7')
    (versions / "000007.json").write_text(text, encoding="utf-8")
    shutil.copy(description.with_suffix(".safetensors"), versions / "000007.safetensors")


#: What has gone wrong where a section begins, by its heading.
GONE_WRONG: dict[str, Callable[[Path], None]] = {
    "A version that nobody else has": keep_a_version_of_its_own
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    (tmp_path / "federation.yaml").write_text(animals())
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_runbook_holds_over_three_parties_that_run(site: Site) -> None:
    pytest.importorskip("prometheus_client")
    ports = {number: str(free_port()) for number in ("8002", "9100")}

    def here(text: str) -> str:
        return re.sub("|".join(ports), lambda found: ports[found[0]], text)

    (site.folder / "federation.yaml").write_text(here(animals()))
    site.run("unlabel federation init federation.yaml --out kits", [])
    wrong = dict(GONE_WRONG)
    for heading, language, block in blocks(RUNBOOK):
        if language != "console":
            continue
        if heading in wrong:
            wrong.pop(heading)(site.folder)
        for line, shown in steps(here(block)):
            site.run(line, shown)
    assert wrong == {}
    assert [party.poll() for party in site.parties[:-3]] == [0] * (len(site.parties) - 3)
    assert [party.poll() for party in site.parties[-3:]] == [None] * 3
