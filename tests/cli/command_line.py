"""The command `unlabel` as the tests call it, and small things for it to work on."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from unlabel.cli.exits import ERROR, NOT_PASSED, USAGE
from unlabel.cli.main import main

QUICK = ("--data", "digits", "--model", "mlp", "--epochs", "1")


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object that standard output holds."""
        assert self.code == 0, self.err
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def sentence(self) -> str:
        """The message of a command that failed as it should, or could not be meant."""
        return self._sentence(ERROR, USAGE)

    @property
    def finding(self) -> str:
        """The message of a command that was carried out, and whose answer is no."""
        return self._sentence(NOT_PASSED)

    def _sentence(self, *codes: int) -> str:
        assert self.code in codes, (self.code, self.out, self.err)
        assert self.out == ""
        assert "Traceback" not in self.err
        errors = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, self.err
        assert self.err.rstrip("\n").endswith(errors[0])
        assert errors[0].endswith((".", "?"))
        return errors[0].removeprefix("Error: ")


def unlabel(*words: object) -> Outcome:
    """Run the command in this process; whatever is not an expected error passes through."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    before, sys.argv = sys.argv, ["unlabel", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    assert isinstance(code, int)
    return Outcome(code, out.getvalue(), err.getvalue())


def in_shell(*words: object, cwd: Path, file_limit: int | None = None) -> Outcome:
    """Run the installed command as a process of its own, which may write files of some size."""
    script = Path(sys.executable).with_name("unlabel")
    command = [str(script), *map(str, words)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    if file_limit is not None:
        # Python ignores the signal of the limit, so that the write fails as on a full disk.
        limited = (
            "import resource; from unlabel.cli.main import main; "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_limit}, {file_limit})); main()"
        )
        command = [sys.executable, "-c", limited, *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def address_of(server: subprocess.Popen[str]) -> str:
    """Return the address that a command says it listens on, once it does."""
    assert server.stderr is not None
    while line := server.stderr.readline():
        if said := re.search(r"https?://127\.0\.0\.1:\d+", line):
            return said.group().replace("127.0.0.1", "localhost")
    raise AssertionError("it ended before it listened")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that small trainings do not wait for a busy second core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _is_log(path: Path) -> bool:
    return path.name.startswith("commands.log") or (path.name == "logs" and path.is_dir())


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file under a folder, by path, and of every empty folder.

    What Python compiles of a user's module it keeps beside it; that is Python's. The log of
    commands has a line for each, also for one that is refused.
    """
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and not _is_log(path)
    }


@contextlib.contextmanager
def nothing_written(folder: Path) -> Iterator[None]:
    """Check that what happens inside leaves every file under a folder as it was."""
    before = contents(folder)
    yield
    assert contents(folder) == before


def user_module(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, text: str) -> None:
    """Write a user's module and stand in its folder; forget it when the test ends."""
    (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


@dataclass(frozen=True)
class Tables:
    """Two parties' tables of the same people, and what is true about them.

    labels  the label of every person, by id
    common  the ids that stand in both tables, in the order of the active party's
    """

    folder: Path
    config: Path
    guest: pd.DataFrame
    host: pd.DataFrame
    labels: dict[str, str]
    common: list[str]


CONFIG = """\
active:  {table: guest.csv, id: id, label: y, features: rest}
passive:
  - {name: host, table: host.csv, id: id}
align:   {method: plaintext}
model:   {bottom: mlp, top: linear}
train:   {epochs: 20, batch: 64, lr: 0.05, seed: 0, test: 0.2, validation: 0.1}
"""


def write_tables(folder: Path) -> Tables:
    """Write the breast cancer data as two tables that overlap in part, in different orders."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    rng = np.random.default_rng(0)
    people = len(data.target)
    ids = np.array([f"{number:03d}" for number in rng.permutation(people)])
    names = ["malignant", "benign"]
    labels = {i: names[y] for i, y in zip(ids.tolist(), data.target.tolist(), strict=True)}
    columns = [str(name).replace(" ", "_") for name in data.feature_names]
    everything = pd.DataFrame(data.data, columns=columns)
    everything.insert(0, "id", ids)
    guest = everything[["id", *columns[:10]]].iloc[rng.permutation(people)[:540]]
    guest = guest.assign(y=[labels[i] for i in guest["id"]])
    host = everything[["id", *columns[10:]]].iloc[rng.permutation(people)[:530]]
    guest.to_csv(folder / "guest.csv", index=False)
    host.to_csv(folder / "host.csv", index=False)
    (folder / "loans.yaml").write_text(CONFIG)
    there = set(host["id"])
    common = [i for i in guest["id"].tolist() if i in there]
    assert 450 < len(common) < 530
    return Tables(folder, folder / "loans.yaml", guest, host, labels, common)


def no_cuda() -> bool:
    """Return whether this machine has no CUDA device."""
    return not torch.cuda.is_available()
