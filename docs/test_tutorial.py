"""The tutorial is true: from an empty folder every command works as written and says what it shows.

A block that begins with a comment like `# federation.yaml` is written to that file. In a console
block a line that starts with `$` is a command; the lines under it are found in what it prints, in
that order, from their beginning. Shares in percent may differ by a few points from one processor
to another; all else is the same.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli.command_line import Outcome, in_shell, one_thread, unlabel

from unlabel.cli.exits import DONE, ERROR, NOT_PASSED

__all__ = ["one_thread"]  # a fixture for every test here

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# (\S+\.\w+)\n")
SHARE = re.compile(r"(\d+\.\d) %")
#: How far a share may lie from the one on the page, in points.
POINTS = 6.0


def steps(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines shown under it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def plain(line: str) -> str:
    """Return a line with single blanks, the two kinds of upright lines of a table as one."""
    return " ".join(line.replace("┃", "│").split())


def shows(printed: str, wanted: str) -> bool:
    """Return whether a printed line begins as a line on the page does."""
    here, there = plain(printed), plain(wanted)
    head = SHARE.split(there)
    # Odd pieces are shares; what stands between them must be the same.
    pattern = "".join(
        r"(\d+\.\d) %" if index % 2 else re.escape(piece) for index, piece in enumerate(head)
    )
    match = re.match(pattern, here)
    return match is not None and all(
        abs(float(share) - float(shown)) <= POINTS
        for share, shown in zip(match.groups(), head[1::2], strict=True)
    )


def missing(printed: str, shown: list[str]) -> list[str]:
    """Return the lines of the page that a command did not print in their order."""
    lines, absent = printed.splitlines(), []
    for wanted in shown:
        found = next((n for n, line in enumerate(lines) if shows(line, wanted)), None)
        if found is None:
            absent.append(wanted)
        else:
            del lines[: found + 1]
    return absent


def run(command: str, folder: Path, alone: bool) -> Outcome:
    """Run a command of the page: in a shell, or where that adds nothing in this process."""
    words = shlex.split(command)
    if words[0] == "unlabel":
        return in_shell(*words[1:], cwd=folder) if alone else unlabel(*words[1:])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_every_command_works_as_written_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bottoms", raising=False)
    verbs = set()
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language != "console":
            named = FILE.match(text)
            assert named, f"what is the reader to do with this?\n{text}"
            (tmp_path / named[1]).write_text(text)
            continue
        for command, shown in steps(text):
            verb = shlex.split(command)[1]
            # The first training stands for what only a shell can show: that the installed command
            # finds the reader's own module in the folder where it is called.
            done = run(command, tmp_path, alone=verb == "train" and verb not in verbs)
            verbs.add(verb)
            refused = any(line.startswith("Error: ") for line in shown)
            said = f"$ {command}\n{done.out}\n{done.err}"
            no = NOT_PASSED if verb == "verify" else ERROR
            assert done.code == (no if refused else DONE), said
            # Results and messages are two streams, which a terminal shows as one.
            assert missing(done.err, missing(done.out, shown)) == [], said
            assert "Traceback" not in said
    # From a newcomer's tables to a certificate that holds, and back.
    assert {"train", "predict", "forget", "audit", "report", "commit", "purge"} <= verbs
    assert {"certificate", "verify", "ledger", "rollback"} <= verbs
    assert (tmp_path / "runs/bank/report.html").stat().st_size > 10_000


def test_a_page_that_shows_what_is_not_printed_is_found() -> None:
    printed = "┃ home ┃ 97.0 % ┃ 30 ┃\n┃ gold ┃ 99.9 % ┃ 31 ┃\nCommitted request 0f."
    assert missing(printed, ["│ home │ 99.5 % │ 30 │", "Committed request"]) == []
    for wrong in ("│ home │ 50.0 % │", "│ home │ 97.0 % │ 31 │", "│ away │", "Dropped"):
        assert missing(printed, [wrong]) == [wrong]
    assert missing(printed, ["Committed request", "│ home │"]) == ["│ home │"]
