"""How the command `unlabel` starts: it imports what a command needs, and no more."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import pytest
from cli.command_line import unlabel

from unlabel import __version__
from unlabel.cli.main import COMMANDS, FILES, load

#: What takes long to import, and what only some commands need.
HEAVY = (
    *("torch", "numpy", "pandas", "sklearn", "scipy", "nvflare", "pydantic", "yaml"),
    *("cryptography", "safetensors", "unlabel_bench", "unlabel.train", "unlabel.federation"),
)
#: Files of the command line that import none of it: all but those of the benches.
LIGHT = (
    *("main", "start", "interrupts", "output", "progress", "data", "methods", "party"),
    *("federation", "federation_demo", "demo", "target", "deprecated", "exits", "train"),
    *("evaluate", "predict", "forget", "audit", "decide", "status", "certificate"),
    *("slots", "verify"),
)


def start(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=60,
    )


def imported(*words: str) -> tuple[str, set[str]]:
    """Return what `python -m unlabel` prints, and every module that it imports."""
    done = start("-X", "importtime", "-m", "unlabel", *words)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return done.stdout, {line.rpartition("|")[2].strip() for line in lines}


def of_packages(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return sorted(m for m in modules if any(m == p or m.startswith(f"{p}.") for p in packages))


def test_the_version_is_answered_before_any_library_is_imported() -> None:
    out, modules = imported("--version")
    assert out == f"unlabel {__version__}\n"
    assert "unlabel.cli.start" in modules
    assert of_packages(modules, (*HEAVY, "typer", "rich")) == []


def test_the_help_imports_none_of_the_commands() -> None:
    out, modules = imported("--help")
    assert all(f"│ {name} " in out for name in COMMANDS)
    assert "typer" in modules
    assert of_packages(modules, HEAVY) == []
    files = {FILES.get(name, name) for name in COMMANDS}
    assert of_packages(modules, tuple(f"unlabel.cli.{file}" for file in files)) == []


def test_files_of_the_command_line_import_nothing_heavy_before_they_are_asked_to() -> None:
    names = ", ".join(f"unlabel.cli.{file}" for file in LIGHT)
    # A module that the tests hide stands there as None.
    program = f"import sys, {names}; print(*(name for name, m in sys.modules.items() if m))"
    done = start("-c", program)
    assert done.returncode == 0, done.stderr
    assert of_packages(set(done.stdout.split()), HEAVY) == []


def test_the_version_takes_at_most_twice_as_long_as_importing_typer_and_rich() -> None:
    seconds: dict[tuple[str, ...], list[float]] = {}
    for _ in range(7):
        for words in (("-m", "unlabel", "--version"), ("-c", "import typer, rich")):
            began = time.perf_counter()
            assert start(*words).returncode == 0
            seconds.setdefault(words, []).append(time.perf_counter() - began)
    own, libraries = (statistics.median(each) for each in seconds.values())
    assert own <= 2.0 * libraries


def test_the_tree_answers_the_version_too() -> None:
    found = unlabel("--version")
    assert (found.code, found.out, found.err) == (0, f"unlabel {__version__}\n", "")


def test_the_table_has_every_command_once_and_the_first_line_of_its_own_help() -> None:
    assert list(COMMANDS) == [
        *("demo", "train", "evaluate", "predict", "serve", "export"),
        *("desk", "account"),
        *("forget", "slots", "methods", "audit"),
        *("commit", "rollback", "purge", "recover", "status", "ledger", "report"),
        *("certificate", "verify", "keys", "federation", "party", "data", "bench"),
    ]
    for name, about in COMMANDS.items():
        command = load(name)
        assert command.name == name
        assert command.help.splitlines()[0] == about


def test_a_command_that_is_not_there_is_a_wrong_command_line_with_the_nearest_one() -> None:
    found = unlabel("trian")
    assert (found.code, found.out) == (2, "")
    assert "No such command 'trian'. Did you mean 'train'?" in found.err


@pytest.mark.parametrize(
    ("typed", "expected"), [("unlabel tra", "train"), ("unlabel data fe", "fetch")]
)
def test_a_shell_completes_commands(typed: str, expected: str) -> None:
    done = start(
        *("-m", "unlabel"),
        _UNLABEL_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(typed.count(" ")),
    )
    assert (done.stdout.split(), done.stderr) == ([expected], "")
