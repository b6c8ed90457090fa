"""The tutorial is true: from an empty folder every command works as written and says what it shows.

A block that begins with a comment like `# federation.yaml` is written to that file. In a console
block a line that starts with `$` is a command, and under it stands what it prints (see
`console_pages`).
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
from cli.console_pages import BLOCK, missing, steps

from unlabel.cli.exits import DONE, ERROR, NOT_PASSED

__all__ = ["one_thread"]  # a fixture for every test here

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
FILE = re.compile(r"^# (\S+\.\w+)\n")


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
    assert missing(printed, ["┃ home ... 30 ┃", "Committed ... 0f."]) == []
    for wrong in (
        "│ home │ 50.0 % │",
        "Committed ... 1f",
        "│ home │ 97.0 % │ 31 │",
        "│ away │",
        "Dropped",
    ):
        assert missing(printed, [wrong]) == [wrong]
    assert missing(printed, ["Committed request", "│ home │"]) == ["│ home │"]
