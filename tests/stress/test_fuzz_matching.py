"""The judge of answers about ids finds what is wrong with each, and nothing where nothing is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from stress.fuzz_matching import IDS, matching_wrongs
from stress.fuzz_messages import ROWS
from unlabel.config import Policy
from unlabel.wire import Aligned, Common, Done, Match, Matched, Message, Offer, Offered

POLICY = Policy(max_ids=12, min_common=2, max_new=3)


def points(count: int) -> Tensor:
    """Return so many different points, sorted."""
    rows = [[2, *[0] * 31, number] for number in range(count)]
    return torch.tensor(rows, dtype=torch.uint8).view(count, 33)


def shown() -> Tensor:
    """Return an id in the clear, as long as a point, among points."""
    data = points(ROWS)
    data[-1] = torch.tensor(list(IDS[0].encode().ljust(33)), dtype=torch.uint8)
    return data


OWN = points(ROWS)


@pytest.mark.parametrize(
    ("request_", "answer", "wrong"),
    [
        (Match(0, "main", points(5)), Matched(0, OWN, points(5)), None),
        (Match(0, "new", points(1)), Matched(0, OWN, points(1)), None),
        (Offer(0, "new"), Offered(0, OWN), None),
        (Match(0, "main", points(1)), Matched(0, OWN, points(1)), "too many ids or too few"),
        (Match(0, "main", points(13)), Matched(0, OWN, points(13)), "too many ids or too few"),
        (Match(0, "new", points(4)), Matched(0, OWN, points(4)), "too many ids or too few"),
        (Match(0, "main", points(5)), Matched(0, OWN, points(4)), "more or less than it was asked"),
        (Match(0, "synthetic", points(5)), Matched(0, OWN, points(5)), "a table it does not have"),
        (Match(0, "main", points(5)), Matched(0, OWN[1:], points(5)), "fewer ids than it has"),
        (Offer(0, "main"), Offered(0, OWN[:-1]), "fewer ids than it has"),
        (Offer(0, "main"), Offered(0, OWN.flip(0)), "an order of its own"),
        (Offer(0, "main"), Offered(0, shown()), "showed an id"),
        (Match(0, "main", OWN[:5]), Matched(0, shown(), OWN[:5]), "showed an id"),
        (Match(0, "main", points(2), 0, 3), Matched(0, OWN[:0], points(2)), None),
        (Match(0, "main", points(2), 3, 0), Matched(0, OWN, points(2)), None),
        (Match(0, "main", points(2), 9, 9), Matched(0, OWN, points(2)), "too many ids or too few"),
        (Match(0, "main", points(2), 0, 3), Matched(0, OWN, points(2)), "before all it was asked"),
        (Common(0, "main", OWN, OWN[:5], 0, 1), Done(0), None),
        (Common(0, "main", OWN, OWN), Done(0), "where nothing is to come"),
        (Common(0, "main", OWN, OWN), Aligned(0, ROWS, ""), "rows that nobody shares"),
    ],
)
def test_a_wrong_answer_is_named(request_: Message, answer: Message, wrong: str | None) -> None:
    result = list(matching_wrongs(request_, answer, POLICY, known=True))
    assert (wrong is None) == (result == [])
    assert wrong is None or any(wrong in each for each in result)


def test_a_party_without_ids_has_nothing_to_say_about_them() -> None:
    result = list(matching_wrongs(Offer(0, "main"), Offered(0, OWN), POLICY, known=False))
    assert result == ["matched ids it does not have"]
