"""Runs that the tests of serving share: trained once, copied for each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from forget.crashing import run_verb

from serve.served import LABEL, trained
from unlabel import Federation

MakeRun = Callable[..., Path]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    return {}


@pytest.fixture
def a_run(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    templates: dict[tuple[str, bool], Path],
) -> MakeRun:
    """Return what gives a trained run of a kind, with a request staged where that is wanted."""

    def make(kind: str = "blind", *, staged: bool = False) -> Path:
        if (kind, staged) not in templates:
            template = tmp_path_factory.mktemp("runs") / kind
            if staged:
                shutil.copytree(make(kind), template)
                run_verb(Federation.open(template), "forget", LABEL)
            else:
                trained(kind, template)
            templates[kind, staged] = template
        folder = tmp_path / f"{kind}-{staged}"
        if not folder.exists():
            shutil.copytree(templates[kind, staged], folder)
        return folder

    return make
