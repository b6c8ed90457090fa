"""Every example of README, CONTRIBUTING and docs/ runs as it is written.

A block that starts with a comment like `# run.yaml` is written to that file. Python blocks are run;
so are the lines of console blocks that start with `$`. The files of CONTRIBUTING go into a copy of
src/, which its commands then use.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import unlabel_bench.registry  # noqa: F401  (its methods, where its entry points are not installed)
from cli.command_line import one_thread, unlabel

__all__ = ["one_thread"]  # a fixture for every test here

ROOT = Path(__file__).parent.parent
#: Run by docs/test_tutorial.py and tests/federation/test_operations_page.py, which also read what
#: the commands print.
ELSEWHERE = {"tutorial.md", "operations.md"}
PAGES = [
    *(ROOT / "README.md", ROOT / "results" / "README.md"),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ELSEWHERE),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# (\S+\.\w+)\n")


def write_tables(folder: Path) -> None:
    """Write the tables of the README: a bank, which has the labels, and a shop."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(900, 6))
    kinds = np.array(["boat", "car", "home"])
    loans = kinds[(x[:, :3] + 0.3 * draw.normal(size=(900, 3))).argmax(1)]
    customer = [f"C-{10000 + number}" for number in range(900)]
    bank = {"customer": customer, "loan": loans, "income": x[:, 0], "age": x[:, 3]}
    shop = {"customer": customer, "visits": x[:, 1], "spent": x[:, 2], "returns": x[:, 4]}
    pd.DataFrame(bank).to_csv(folder / "bank.csv", index=False)
    pd.DataFrame(shop).sample(frac=0.9, random_state=0).to_csv(folder / "shop.csv", index=False)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that several pages train alike."""
    return tmp_path_factory.mktemp("trained")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_runs_as_written(
    page: Path, tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        write_file(block, tmp_path)
        if language == "python":
            run_python(block)
        for line in commands(language, block):
            run_command(line, trained)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_what_a_contributor_adds_in_one_file_is_used_by_the_command_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "unlabel", tmp_path / "src" / "unlabel")
    blocks = BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    added = [write_file(block, tmp_path) for language, block in blocks if language == "python"]
    folders = {str(path.relative_to(tmp_path / "src" / "unlabel").parent) for path in added if path}
    assert folders == {
        *("models", "data/sources", "audit/measures", "forget/methods", "party/objectives"),
    }
    ruff = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml")]
    assert (
        subprocess.run([*ruff, *(str(path) for path in added if path)], check=False).returncode == 0
    )
    lines = [line for language, block in blocks for line in commands(language, block)]
    program = f"""
import shlex, sys
from unlabel.cli.main import main
for line in {lines!r}:
    sys.argv = shlex.split(line)
    print("$", line, flush=True)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    for name in ("tiny", "wine", '"leftover"', "uniform"):
        assert name in done.stdout
    paths = ("forget/test_disclosure.py", "bench/test_related_work.py")
    tests = [str(ROOT / "tests" / path) for path in (*paths, "bench/test_comparison_figures.py")]
    words = ("-p", "no:cacheprovider", "-k", "uniform or table or unnamed", "-rA")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *tests],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT / "bench")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"One file does not suffice for the tests:\n{done.stdout[-4000:]}"
    assert "exactly_what_it_says[forgotten0-uniform]" in done.stdout


def write_file(block: str, folder: Path) -> Path | None:
    """Write a block that begins with the name of a file to that file."""
    named = FILE.match(block)
    if named is None:
        return None
    target = (folder / named[1]).resolve()
    assert target.is_relative_to(folder.resolve()), f"{named[1]} lies elsewhere"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block)
    return target


def commands(language: str, block: str) -> list[str]:
    """Return the commands of a console."""
    lines = block.splitlines() if language == "console" else []
    return [line[2:] for line in lines if line.startswith("$ ")]


def run_python(block: str) -> None:
    """Run a block as a notebook would; nothing that it prints may show weights."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "<page>", "exec"), {"__name__": "page"})
    assert "tensor(" not in printed.getvalue(), "a weight is printed"


def run_command(line: str, trained: Path) -> None:
    """Run a command in this process; a training that another page had is not done again."""
    words = shlex.split(line)
    assert words[0] == "unlabel", line
    kept = trained / hashlib.sha256(line.encode()).hexdigest()
    shared = words[1:3] == ["train", "--data"]
    if shared and kept.is_dir():
        shutil.copytree(kept, words[words.index("--out") + 1])
        return
    outcome = unlabel(*words[1:])
    assert outcome.code == 0, f"{line}\n{outcome.out[-2000:]}\n{outcome.err}"
    if shared:
        shutil.copytree(words[words.index("--out") + 1], kept)
