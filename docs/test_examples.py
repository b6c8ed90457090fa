"""The pages are true: every example in them runs, and every setting is named with its default.

A block that starts with a comment like `# federation.yaml` is written to that file. Python blocks
are run; so are the lines of console blocks that start with `$`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from unlabel.align import AlignSettings
from unlabel.audit import LEVELS, MEASURES
from unlabel.defend import DEFENCES, DefendSettings
from unlabel.forget import METHODS
from unlabel.models import ModelSettings, TextSettings
from unlabel.party import Policy, WatchSettings
from unlabel.train import ActiveTable, AuditSettings, PassiveTable, RunConfig, TrainSettings
from unlabel.wire import MESSAGES

ROOT = Path(__file__).parent.parent
#: The tutorial is run by tests/test_tutorial.py, which also reads what its commands print.
ELSEWHERE = {"tutorial.md"}
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ELSEWHERE),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# (\S+\.\w+)\n")


def write_tables(folder: Path) -> None:
    """Write the tables of the README: two organisations that know the same people."""
    found = load_breast_cancer(as_frame=True)
    x = found.data.rename(columns=lambda name: name.replace(" ", "_"))
    x.insert(0, "id", [f"p{i:04d}" for i in range(len(x))])
    guest = pd.concat([x.iloc[:, :11], found.target.rename("y")], axis=1)
    host = x[["id", *x.columns[11:]]].sample(frac=0.95, random_state=0)
    guest.to_csv(folder / "guest.csv", index=False)
    host.to_csv(folder / "host.csv", index=False)
    guest.drop(columns="y").head(30).to_csv(folder / "guest_new.csv", index=False)
    host.to_csv(folder / "host_new.csv", index=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_runs_as_written(page: Path, tmp_path: Path) -> None:
    write_tables(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = FILE.match(text)
        if named:
            target = (tmp_path / named[1]).resolve()
            assert target.is_relative_to(tmp_path.resolve()), f"{named[1]} lies elsewhere"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        commands: list[Any] = []
        if language == "python":
            commands = [[sys.executable, "-c", text]]
        elif language == "console":
            lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            commands = [["bash", "-c", line] for line in lines]
        for command in commands:
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command[-1]}\n{done.stderr}"


@pytest.mark.parametrize(
    "settings",
    [
        *(RunConfig, ActiveTable, PassiveTable, ModelSettings, TextSettings, TrainSettings, Policy),
        *(AlignSettings, DefendSettings, WatchSettings, AuditSettings),
    ],
)
def test_the_page_of_settings_names_every_one_with_its_default(settings: type[Any]) -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for field in fields(settings):
        lines = re.findall(rf"^\| `{field.name}` \| (.*?) \|", page, re.MULTILINE)
        assert lines, f"`{field.name}` is missing"
        default = field.default
        if isinstance(default, bool):
            assert str(default).lower() in lines
        elif isinstance(default, int | float):
            assert any(_is_number(line) and np.isclose(float(line), default) for line in lines)
        elif isinstance(default, str):
            assert default in lines


def _word(default: object) -> str:
    return default if isinstance(default, str) else f"{default:g}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+(e-?\d+)?", text) is not None


def test_the_messages_of_the_wire_are_all_explained() -> None:
    page = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
    assert [name for name in MESSAGES if f"`{name}`" not in page] == []


def test_the_page_of_forgetting_names_every_method() -> None:
    page = (ROOT / "docs" / "forgetting.md").read_text(encoding="utf-8")
    assert [name for name in METHODS.names() if f"| `{name}`" not in page] == []


def test_the_page_of_settings_names_every_defence_with_its_defaults() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name in DEFENCES.names():
        words = ", ".join(f"`{f.name}={_word(f.default)}`" for f in fields(DEFENCES.get(name)))
        assert f"| `{name}` | {words} |" in page


def test_the_page_of_the_audit_names_every_measure_and_level() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert [name for name in MEASURES.names() if f"`{name}`" not in page] == []
    assert [level for level in LEVELS if f"| `{level}` |" not in page] == []
