"""The same weights in every party, whatever lies between them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from federation.conftest import Running
from federation.small_houses import PARTIES, Course, local_config, run_course

from unlabel import Federation

EVENTS = ("trained", "hidden", "ascent")


@pytest.fixture(scope="module")
def encoded_course(
    running: Running, tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Course:
    """What the course of events makes of parties in one process that encode every message."""
    folder = tmp_path_factory.mktemp("encoded") / "run"
    federation = Federation.create(local_config(running.kits, tables), folder, encoded=True)
    return run_course(federation, {name: folder / name for name in PARTIES})


@pytest.mark.parametrize("way", ["encoded", "simulated", "provisioned"])
def test_every_way_to_the_parties_ends_in_the_same_weights(
    request: pytest.FixtureRequest, local_course: Course, way: str
) -> None:
    course: Course = request.getfixturevalue(f"{way}_course")
    assert tuple(course) == EVENTS
    for event in EVENTS:
        for party in PARTIES:
            found, expected = course[event][party], local_course[event][party]
            assert found.keys() == expected.keys()
            for name, tensor in expected.items():
                assert torch.equal(found[name], tensor), (event, party, name)


def test_the_course_moves_what_it_should(local_course: Course) -> None:
    """Else all ways would agree on nothing having happened."""
    trained, hidden, ascent = (local_course[event] for event in EVENTS)
    for party in PARTIES:
        weights = [name for name in trained[party] if name.endswith("weight") and "model" in name]
        assert weights
        for name in weights:
            assert torch.equal(hidden[party][name], trained[party][name]) == (party != "active")
            assert not torch.equal(ascent[party][name], hidden[party][name])
