"""Desks of small real runs, and browsers that are signed in to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serve.served import trained

from desk.browsers import PASSWORD, Browser, browsing, quick_hasher
from unlabel.desk.accounts import Accounts
from unlabel.desk.office import Desk
from unlabel.desk.place import Place
from unlabel.desk.settings import DeskSettings

MakeDesk = Callable[..., Desk]
MakeBrowser = Callable[..., Browser]

ROLES = {"ada": "caseworker", "cleo": "caseworker", "bert": "approver", "eve": "auditor"}


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives a trained run of a kind, made once."""
    made: dict[str, Path] = {}

    def template(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("templates") / kind
            trained(kind, made[kind])
        return made[kind]

    return template


@pytest.fixture
def make_desk(tmp_path: Path, templates: Callable[[str], Path]) -> Iterator[MakeDesk]:
    """Return what gives the desk of a fresh copy of a run, with accounts of every role."""
    desks: list[Desk] = []

    def make(kind: str = "blind", *, settings: DeskSettings | None = None, name: str = "") -> Desk:
        folder = tmp_path / (name or kind)
        if not folder.exists():
            shutil.copytree(templates(kind), folder)
        desk = Desk(Place.of(folder), settings)
        desk.accounts = Accounts(desk.store, hasher=quick_hasher())
        if not desk.accounts.all():
            for name, role in ROLES.items():
                desk.accounts.add(name, role, PASSWORD)
        desks.append(desk)
        return desk

    yield make
    for each in desks:
        each.close()


@pytest.fixture
def make_browser() -> Iterator[MakeBrowser]:
    """Return what gives a browser that is signed in to a desk, which works as long as the test."""
    with browsing() as make:
        yield make


@pytest.fixture
def ada(make_desk: MakeDesk, make_browser: MakeBrowser) -> Browser:
    """Return the browser of a caseworker at the desk of a blind run."""
    return make_browser(make_desk(), "ada")


@pytest.fixture
def planned(make_desk: MakeDesk, make_browser: MakeBrowser) -> Desk:
    """Return a desk with a request that is planned and has a demand attached."""
    desk = make_desk()
    ada = make_browser(desk, "ada")
    ada.receive(reference="2026/17")
    assert ada.at(1).state() == "planned"
    return desk
