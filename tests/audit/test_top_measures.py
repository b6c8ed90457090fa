"""What the top still knows: ranks and the best edit, by hand and by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from audit.observation_cases import GONE, by_logits, knower, shifted, stranger
from sklearn.metrics import roc_auc_score

from unlabel.audit import Observation
from unlabel.audit.measures.rank import Rank
from unlabel.audit.measures.revival import Revival


def test_rank_is_the_area_of_scikit_learn_for_each_kind_of_score() -> None:
    torch.manual_seed(0)
    labels = torch.arange(300) % 4
    scores = torch.randn(300, 4) + torch.nn.functional.one_hot(labels, 4)
    found = Rank().measure(by_logits(scores, labels), (1, 2))
    exact = scores.double()
    expected = dict.fromkeys(("logit", "margin", "probability"), 0.0)
    for u in (1, 2):
        mine = (labels == u).numpy()
        rest = exact[:, [n for n in range(4) if n != u]].mean(1)
        kinds = (exact[:, u], exact[:, u] - rest, exact.softmax(1)[:, u])
        for kind, values in zip(expected, kinds, strict=True):
            expected[kind] += roc_auc_score(mine, values) / 2
    assert found.value == pytest.approx(expected["logit"])
    for kind, value in expected.items():
        got = found.detail["kinds"][kind]
        assert got["value"] == pytest.approx(value)
        assert got["low"] < value < got["high"]
    assert set(found.detail["labels"]) == {"1", "2"}


def test_a_score_that_ranks_upside_down_is_as_far_from_a_half() -> None:
    labels = torch.arange(40) % 4
    scores = torch.zeros(40, 4)
    scores[:, 1] = (labels == 1).float()
    assert Rank().measure(by_logits(scores, labels), (1,)).value == 1.0
    assert Rank().measure(by_logits(-scores, labels), (1,)).value == 0.0
    assert Rank().measure(by_logits(torch.zeros(40, 4), labels), (1,)).value == 0.5


def test_revival_by_hand() -> None:
    # Own margins of label 2: its rows -1 and -5, the others -2, -6 and -9.
    scores = torch.tensor(
        [[3.0, 0.0, 2.0], [5.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 6.0, 0.0], [9.0, 0.0, 0.0]]
    )
    seen = by_logits(scores, torch.tensor([2, 2, 0, 1, 1]))
    found = Revival().measure(seen, (2,))
    # Thresholds below -1, -5: 1/2 - 0, 1 - 1/3; the best lies between -5 and -6.
    assert found.value == pytest.approx(2 / 3)
    entry = found.detail["labels"]["2"]
    # In place of the score a constant: margins -3/2, -5/2 against -1, -3, -9/2; 1 - 1/3 too.
    assert entry["own"] == entry["constant"] == pytest.approx(2 / 3)
    assert entry["edit"] == "own"
    assert entry["bias"] == pytest.approx(5.5)
    assert entry["forgotten_accuracy"] == 1.0
    # Of the others the first is now called 2, the second is right, the third was always wrong.
    assert entry["retained_accuracy"] == pytest.approx(1 / 3)


def test_a_constant_can_be_the_better_edit_by_hand() -> None:
    # Its own score ranks upside down: margins -2 and -4 of its rows, -1 and -3 of the others.
    # From the mean of the others, 0 in every row: -1 and -1 of its rows, -4 and -6 of the others.
    scores = torch.tensor(
        [[1.0, -1.0, -1.0], [-1.0, 1.0, -3.0], [4.0, -4.0, 3.0], [-6.0, 6.0, 3.0]]
    )
    found = Revival().measure(by_logits(scores, torch.tensor([2, 2, 0, 1])), (2,))
    assert found.value == 1.0
    entry = found.detail["labels"]["2"]
    assert (entry["own"], entry["constant"], entry["edit"]) == (0.0, 1.0, "constant")
    assert entry["bias"] == pytest.approx(2.5)  # between 1 and 4 above the mean of the others
    assert (entry["forgotten_accuracy"], entry["retained_accuracy"]) == (1.0, 1.0)
    # The bias does what it says: the constant against the others, counted from their mean.
    assert (entry["bias"] > scores[:, :2].max(1).values).tolist() == [True, True, False, False]


@pytest.mark.parametrize("model", [knower(), stranger()])
def test_revival_does_not_change_with_a_constant_for_all_scores_of_a_row_nor_with_a_mask(
    model: Observation,
) -> None:
    found = Revival().measure(model, (GONE,))
    moved = Revival().measure(shifted(model, 7.0), (GONE,))
    assert moved.value == pytest.approx(found.value, abs=0.011)  # float32: a row may change places
    for kind in ("own", "constant"):
        one, other = (each.detail["labels"]["c"][kind] for each in (found, moved))
        assert one == pytest.approx(other, abs=0.011)
    assert Revival().measure(model.masked((GONE,)), (GONE,)) == found


@pytest.mark.parametrize("model", [knower(), stranger()])
def test_a_deleted_output_is_compared_like_for_like(model: Observation) -> None:
    stay = [n for n in range(5) if n != GONE]
    scores = model.test.scores.double()
    scores[:, stay] -= scores[:, stay].mean(1, keepdim=True)
    scores[:, GONE] = -10.0  # as `hidden` leaves it
    deleted = Revival().measure(by_logits(scores, model.test.labels), (GONE,)).detail["labels"]["2"]
    kept = Revival().measure(model, (GONE,)).detail["labels"]["c"]
    assert deleted["own"] == pytest.approx(deleted["constant"])
    assert deleted["value"] == pytest.approx(kept["constant"], abs=0.011)
    assert kept["value"] == max(kept["own"], kept["constant"])


def test_revival_is_the_best_of_all_edits_tried_one_by_one() -> None:
    torch.manual_seed(3)
    labels = torch.arange(200) % 5
    scores = torch.randn(200, 5) + torch.nn.functional.one_hot(labels, 5)
    found = Revival().measure(by_logits(scores, labels), (1, 4))
    stay = [0, 2, 3]
    best = []
    for u in (1, 4):
        gained = []
        rest = scores[:, stay].mean(1)
        for bias, own in product(np.linspace(-6, 6, 2001), (scores[:, u], rest)):
            edited = torch.full_like(scores, -1e4)
            edited[:, stay] = scores[:, stay]
            edited[:, u] = own + bias
            called = edited.argmax(1) == u
            mine, others = labels == u, torch.isin(labels, torch.tensor(stay))
            gained.append(float(called[mine].double().mean() - called[others].double().mean()))
        best.append(max(gained))
    assert found.value == pytest.approx(np.mean(best), abs=0.011)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_where_no_bias_helps_none_is_named() -> None:
    labels = torch.tensor([2, 2, 0, 1])
    scores = torch.tensor([[9.0, 0, 0], [9.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]])
    found = Revival().measure(by_logits(scores, labels), (2,))
    assert found.value == 0.0
    entry = found.detail["labels"]["2"]
    assert (entry["bias"], entry["forgotten_accuracy"], entry["retained_accuracy"]) == (None, 0, 1)


@pytest.mark.parametrize("measure", [Rank(), Revival()])
@pytest.mark.parametrize("labels", [(), (2,), (0, 1)])
def test_without_rows_of_both_kinds_a_figure_is_undefined(
    measure: Rank | Revival, labels: tuple[int, ...]
) -> None:
    seen = by_logits(torch.zeros(4, 3), torch.tensor([0, 0, 0, 0]))
    found = measure.measure(seen, labels)
    assert found.value is None
    assert "no test rows" in found.note
