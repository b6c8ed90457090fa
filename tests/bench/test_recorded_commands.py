"""Commands of the records still run; where the bench is not installed the command says so."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from cli.command_line import unlabel
from unlabel_bench.command import app
from unlabel_bench.paper.page import command_of
from unlabel_bench.registry import BENCHES, FOLDERS

from unlabel import bench as shim
from unlabel.words import parse_settings

ROOT = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app)
#: The scoreboard measures nothing: it is made from the others.
RECORDS = [path for path in sorted((ROOT / "results").glob("*.json")) if path.stem != "scoreboard"]
#: Records of 0.9 whose commands name the method `people` or the option --listed of its covers, both
#: since removed.
REMOVED = (
    *("adult_people", "credit_default_blind_people", "credit_default_people"),
    "robustness_many_requests",
)
#: Records of the bench `people` of 0.9; what it measures now is something else, in another table.
RESHAPED = ("adult_people", "credit_default_people", "people")


def records(without: tuple[str, ...]) -> list[Path]:
    return [path for path in RECORDS if path.stem not in without]


@pytest.mark.parametrize("path", records(REMOVED), ids=lambda path: path.stem)
def test_a_recorded_command_is_one_that_its_bench_takes(path: Path) -> None:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for command in command_of(record).split(" && "):
        words = shlex.split(command)
        words = words[words.index("bench") + 1 :] if "bench" in words else words[3:]
        name, *rest = words
        if any(word.startswith("--") for word in rest) or name == "paper":
            COMMANDS.commands[name].make_context(name, rest)  # type: ignore[attr-defined]
        else:
            parse_settings(BENCHES.get(name).settings, rest)


@pytest.mark.parametrize("path", records(RESHAPED), ids=lambda path: path.stem)
def test_a_recorded_result_is_shown_as_a_table(path: Path) -> None:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    heads, *rows = BENCHES.get(record["bench"]).table(record)
    assert rows
    assert all(len(row) == len(heads) for row in rows)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_registers_benches(folder: str) -> None:
    package = f"unlabel_bench.{folder}."
    measured = [BENCHES.get(name).measure.__module__ for name in BENCHES.names()]
    assert any(module.startswith(package) for module in measured)


def test_the_old_name_of_the_module_runs_a_bench(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unlabel.bench", "paper-words", "which=overview"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["command"] == "python -m unlabel.bench paper-words which=overview"


def test_where_the_bench_is_not_installed_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = (
        "import sys, importlib.metadata as m\n"
        "m.entry_points = lambda **_: m.EntryPoints()\n"
        "from unlabel.cli import program\n"
        "program()"
    )
    for words in ([], ["list"], ["paper", "--list"]):
        done = subprocess.run(
            [sys.executable, "-c", hidden, "bench", *words],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "pip install ./bench" in done.stderr.replace("\n", " ")

    def missing(_: str) -> None:
        raise ModuleNotFoundError(name="unlabel_bench")

    monkeypatch.setattr(shim, "import_module", missing)
    assert shim.main(["training"]) == 2
    assert "pip install ./bench" in capsys.readouterr().err


def test_the_wheel_has_no_bench() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["setuptools"]["packages"]["find"]["where"] == ["src"]
    assert not list((ROOT / "src").rglob("unlabel_bench"))
    assert settings["project"]["dependencies"] == [
        name for name in settings["project"]["dependencies"] if "bench" not in name
    ]


def test_the_list_of_the_paper_runs() -> None:
    assert unlabel("bench", "paper", "--list").code == 0
