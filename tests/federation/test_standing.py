"""Between organisations, too, `status` and `rollback` read no table: it may be away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.command_line import unlabel
from federation.course import weights
from federation.met_parties import connected
from small_parties import LABELS, animals, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.forget import ForgetSettings
from unlabel.remote.hub import Hub
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import free_port

OPENLY = ForgetSettings(
    method="ascent", visibility="open", allow_collapse=True, allow_disclosure=True
)


@dataclass
class Scene:
    """A federation that is trained, whose hub and partners run here."""

    kits: dict[str, Path]
    table: Path
    hub: Hub

    def homes(self) -> dict[str, Path]:
        return {name: Kit.read(kit).home for name, kit in self.kits.items()}


def scene_of(folder: Path, more: str = "") -> Iterator[Scene]:
    tables = write_tables(folder)
    text = animals(port=free_port())
    if more:  # a blind run has no training of its own
        text = "".join(line for line in text.splitlines(True) if "train:" not in line) + more
    kits = provisioned(folder, text, seed=0)
    with connected(kits, tables) as hub:
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.train()
        yield Scene(kits, tables[ACTIVE], hub)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield from scene_of(tmp_path)


@pytest.fixture
def blind_scene(tmp_path: Path) -> Iterator[Scene]:
    yield from scene_of(tmp_path, "bottoms: blind\nlabel_free: {objective: components}\n")


def at(scene: Scene) -> tuple[str, Path]:
    return "--federation", scene.kits[ACTIVE]


@pytest.mark.parametrize("visibility", ["open", "hidden"])
def test_status_and_rollback_work_while_the_table_is_away(scene: Scene, visibility: str) -> None:
    before = weights(scene.homes())
    with Federation.connect(scene.kits[ACTIVE]) as federation:
        if visibility == "open":
            federation.forget([LABELS[0]], settings=OPENLY)
        else:
            federation.forget([LABELS[0]])
        expected = federation.status()
    scene.table.rename(scene.table.with_suffix(".away"))
    assert unlabel("evaluate", *at(scene)).code == 1  # which needs it
    began = time.monotonic()
    found = unlabel("status", *at(scene), "--json").json
    assert time.monotonic() - began < 4.0
    assert found["parties"].keys() == expected.parties.keys()
    for name, stands in expected.parties.items():
        assert found["parties"][name]["staged"] == stands.staged
        assert found["parties"][name]["ledger"] == stands.ledger
        assert found["parties"][name]["versions"] == list(stands.versions)
    assert found["together"]
    assert unlabel("rollback", *at(scene)).code == 0
    assert not unlabel("status", *at(scene), "--json").json["parties"]["shop"]["staged"]
    scene.table.with_suffix(".away").rename(scene.table)
    # All are where they were, and go on.
    after = weights(scene.homes())
    for name in scene.kits:
        kept = after[name].keys() & before[name].keys()  # what is dropped silently has no optimiser
        assert kept
        assert all(after[name][each].equal(before[name][each]) for each in kept)
    with Federation.connect(scene.kits[ACTIVE]) as federation:
        assert LABELS[0] in federation.labels
        federation.forget([LABELS[1]], settings=OPENLY)
        federation.commit(force=True)


def test_who_gets_lost_meanwhile_is_waited_for(scene: Scene) -> None:
    """Each party's connection breaks once, and comes back."""
    for name in ("shop", "loan"):
        scene.hub.drop(scene.hub.members[name], "for a test")
    assert unlabel("status", *at(scene), "--json").json["together"]


def test_a_request_that_is_refused_before_anybody_is_asked_leaves_its_line_too(
    scene: Scene,
) -> None:
    sessions = scene.hub.epoch
    began = time.monotonic()
    assert unlabel("forget", *at(scene), "--label", "quagga").code == 1
    assert time.monotonic() - began < 1.0
    assert scene.hub.epoch == sessions  # nobody was asked
    log = scene.kits[ACTIVE] / "state/logs/commands.log"
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["command"], last["code"]) == ("ended", "forget", "unknown-label")
    assert "quagga" not in log.read_text()


def test_a_blind_run_stands_where_it_stands_without_anybody(blind_scene: Scene) -> None:
    for member in list(blind_scene.hub.members.values()):
        member.line.close()
    blind_scene.table.rename(blind_scene.table.with_suffix(".away"))
    found = unlabel("status", *at(blind_scene), "--json").json
    assert found["bottoms"] == "blind"
    assert found["parties"].keys() == {ACTIVE}
    assert unlabel("status", *at(blind_scene)).code == 0


def test_a_run_that_was_never_trained_is_answered_as_before(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    kits = provisioned(tmp_path, animals(port=free_port()), seed=0)
    with connected(kits, tables):
        found = unlabel("status", "--federation", kits[ACTIVE], "--json").json
        assert found["parties"]["shop"]["version"] is None
        assert unlabel("rollback", "--federation", kits[ACTIVE]).code == 1
