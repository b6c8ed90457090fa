"""A process may die at any moment of a label-free run: going on leads to the same weights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from blind_runs import (
    TESTS,
    blind_run,
    cells,
    differences,
    kept_in,
    passives_of,
    state_of,
    without,
)
from cli.command_line import one_thread
from forget import crashing

from unlabel import Federation
from unlabel.config import FitSettings
from unlabel.errors import UnlabelError

__all__ = ["one_thread"]  # a fixture for every test here

LABEL = "beech"
LABELS = cells()
REFERENCE = without(LABELS, (LABELS == LABEL).nonzero()[0])
KINDS = {
    "blind": {"objective": "components", "active_part": False, "fit": FitSettings(epochs=1)},
    "blind-views": {"objective": "contrast", "views": 1},
    "tuned": {"kind": "tuned", "objective": "contrast"},
}
SOME = [
    "blind",
    pytest.param("blind-views", marks=pytest.mark.long),
    pytest.param("tuned", marks=pytest.mark.long),
]


def begun(kind: str, folder: Path, *, train: bool) -> Path:
    blind_run(LABELS, folder, train=train, **KINDS[kind])  # type: ignore[arg-type]
    return folder


def die(jobs: dict[str, Path], out: Path) -> dict[str, list[tuple[str, Path]]]:
    """Kill a process at every moment of verbs on runs; return when, and what it left."""
    words = [str(word) for verb, run in jobs.items() for word in (run, verb, out / verb)]
    command = [sys.executable, crashing.__file__, LABEL, *words]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    deaths = {}
    for verb in jobs:
        moments = json.loads((out / verb / "moments.json").read_text())
        firsts = {state: moment for moment, state in reversed(moments)}
        deaths[verb] = [(m, out / verb / f"{state:03d}") for state, m in sorted(firsts.items())]
    return deaths


@pytest.mark.long
@pytest.mark.parametrize("kind", SOME)
def test_a_training_that_dies_at_any_moment_goes_on_to_the_same_weights(
    kind: str, tmp_path: Path
) -> None:
    run = begun(kind, tmp_path / "run", train=False)
    whole = Federation.open(shutil.copytree(run, tmp_path / "whole"), resume=True)
    whole.train()
    deaths = die({"train": run}, tmp_path / "deaths")["train"]
    assert len(deaths) > 10
    for moment, folder in deaths:
        try:
            federation = Federation.open(folder, resume=True)
            federation.train()
        except UnlabelError as error:
            raise AssertionError(f"{moment} ({folder.name}): {error}") from error
        assert equal(federation, whole), moment
    assert differences(Federation.open(folder), whole) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", SOME)
def test_a_request_that_dies_at_any_moment_ends_in_the_old_model_or_the_exact_one(
    kind: str, tmp_path: Path
) -> None:
    run = begun(kind, tmp_path / "run", train=True)
    old, exact = Federation.open(run), blind_run(REFERENCE, **KINDS[kind])  # type: ignore[arg-type]
    jobs = {"forget": run}
    for verb in ("commit", "rollback", "purge"):
        jobs[verb] = Path(shutil.copytree(run, tmp_path / verb))
        crashing.run_verb(Federation.open(jobs[verb]), "forget", LABEL)
    Federation.open(jobs["purge"]).commit()
    partners = passives_of(old)
    for verb, deaths in die(jobs, tmp_path / "deaths").items():
        assert len(deaths) >= 5, verb
        for moment, folder in deaths:
            expect_whole(folder, f"{verb}, {moment}", old, exact)
            if kind != "tuned":
                kept = {name: kept_in(folder / name) for name in old.passives}
                assert kept == partners, f"{verb}, {moment}: a partner's folder changed"


def expect_whole(folder: Path, when: str, old: Federation, exact: Federation) -> None:
    """Recover a run; check that it is one of the two, and that going on leads to the second."""
    try:
        Federation.open(folder, recovering=True).recover()
        federation = Federation.open(folder)
    except UnlabelError as error:
        raise AssertionError(f"{when} ({folder.name}): {error}") from error
    ends = [equal(federation, old), equal(federation, exact)]
    assert ends in ([True, False], [False, True]), when
    assert federation.labels == (old.labels if ends[0] else exact.labels), when
    if federation.status().staged:
        federation.commit()
    elif ends[0]:
        crashing.run_verb(federation, "forget", LABEL)
        federation.commit()
    federation.purge()
    federation.refresh(afresh=True)  # from the files
    assert differences(federation, exact) == [], when


def equal(one: Federation, other: Federation) -> bool:
    first, second = state_of(one), state_of(other)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
