"""The same weights in every party, whatever lies between them."""

from __future__ import annotations

import pytest
import torch
from federation.course import Course
from small_parties import PARTIES

EVENTS = ("trained", "hidden", "ascent")


@pytest.mark.parametrize(
    "way",
    [
        "encoded",
        "unpipelined",
        "provisioned",
        "flare",
        pytest.param("simulated", marks=pytest.mark.long),
    ],
)
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
                # In another process a sum may begin at another address, and round otherwise.
                torch.testing.assert_close(found[name], tensor, rtol=1e-6, atol=1e-8)


def test_the_course_moves_what_it_should(local_course: Course) -> None:
    """Else all ways would agree on nothing having happened."""
    trained, hidden, ascent = (local_course[event] for event in EVENTS)
    for party in PARTIES:
        weights = [name for name in trained[party] if name.endswith("weight") and "model" in name]
        assert weights
        for name in weights:
            assert torch.equal(hidden[party][name], trained[party][name]) == (party != "active")
            assert not torch.equal(ascent[party][name], hidden[party][name])
