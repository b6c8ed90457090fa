"""Figures of predictions: against cases worked by hand, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.train import Evaluation

# Five rows of two labels; the difference of the logits is the score of the second label.
SCORES = [-2.0, 1.0, 0.5, 1.0, 3.0]
TRUTH = [0, 0, 1, 1, 1]


def two_labels(scores: list[float], truth: list[int], **how: float) -> Evaluation:
    logits = torch.stack([torch.zeros(len(scores)), torch.tensor(scores)], 1)
    return Evaluation.of(logits, torch.tensor(truth), 2, **how)  # type: ignore[arg-type]


def test_two_labels_worked_by_hand() -> None:
    found = two_labels(SCORES, TRUTH)
    # Of 2 x 3 pairs the second label's row is higher in 3 + 1 (3.0 beats two, 1.0 and 0.5 beat
    # -2), equal in one (1.0 and 1.0), lower in one (0.5 and 1.0): (4 + 1/2) / 6.
    assert found.auc == pytest.approx(4.5 / 6)
    # From the top: 3.0 (1 of 1 right), 1.0 (2 of 3), 0.5 (3 of 4), each a third of the recall.
    assert found.average_precision == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert found.threshold_confusion == ((1, 1), (0, 3)) == found.confusion
    # F1: 2 / (2 + 0 + 1) of the first, 6 / (6 + 1 + 0) of the second.
    assert found.macro_f1 == pytest.approx((2 / 3 + 6 / 7) / 2)
    assert found.accuracy == found.accuracy_all == 0.8


def test_a_higher_threshold_predicts_the_second_label_less_often() -> None:
    # Probabilities of the second label: 0.12, 0.73, 0.62, 0.73, 0.95.
    assert two_labels(SCORES, TRUTH, threshold=0.7).threshold_confusion == ((1, 1), (1, 2))
    assert two_labels(SCORES, TRUTH, threshold=0.9).threshold_confusion == ((2, 0), (2, 1))
    assert two_labels(SCORES, TRUTH, threshold=0.1).threshold_confusion == ((0, 2), (0, 3))
    # What is predicted without a threshold stays what it was.
    assert two_labels(SCORES, TRUTH, threshold=0.9).confusion == ((1, 1), (0, 3))


def test_three_labels_worked_by_hand() -> None:
    logits = torch.eye(3)[torch.tensor([0, 0, 1, 1, 1, 2])]
    found = Evaluation.of(logits, torch.tensor([0, 0, 0, 1, 2, 2]), 3)
    # Label 0: 4 / (4 + 0 + 1); label 1: 2 / (2 + 2 + 0); label 2: 2 / (2 + 0 + 1).
    assert found.macro_f1 == pytest.approx((4 / 5 + 2 / 4 + 2 / 3) / 3)
    assert (found.auc, found.average_precision, found.threshold_confusion) == (None, None, None)


def test_figures_are_of_the_labels_that_stay() -> None:
    logits = torch.eye(3)[torch.tensor([0, 0, 1, 1, 1, 2])]
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    found = Evaluation.of(logits, labels, 3, forgotten=[2])
    assert found.forgotten == (2,)
    assert found.stay == (0, 1)
    assert (found.accuracy, found.accuracy_all) == (3 / 4, 4 / 6)
    stay = Evaluation.of(logits[:4, :2], labels[:4], 2)
    assert (found.auc, found.average_precision) == (stay.auc, stay.average_precision)
    assert found.threshold_confusion == stay.confusion == ((2, 1), (0, 1))
    assert found.macro_f1 == stay.macro_f1
    assert found.per_label_accuracy == (2 / 3, 1.0, 0.5)
    expected = torch.nn.functional.cross_entropy(logits[:4], labels[:4]).item()
    assert found.loss == expected


def test_nothing_is_made_up_where_a_part_has_one_label_only() -> None:
    found = two_labels([1.0, 2.0], [1, 1])
    assert (found.auc, found.average_precision, found.macro_f1) == (None, None, None)
    assert found.threshold_confusion == ((0, 0), (0, 2))
    left_out = Evaluation.of(torch.eye(2), torch.tensor([0, 1]), 2, forgotten=[0])
    assert (left_out.auc, left_out.macro_f1, left_out.threshold_confusion) == (None, None, None)
    assert left_out.accuracy == 1.0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(-6, 6), st.booleans()), min_size=2, max_size=30))
def test_ranks_agree_with_scikit_learn_ties_and_all(rows: list[tuple[int, bool]]) -> None:
    scores, truth = [float(score) for score, _ in rows], [int(kind) for _, kind in rows]
    found = two_labels(scores, truth)
    if len(set(truth)) == 1:
        assert found.auc is None
        return
    assert found.auc == pytest.approx(metrics.roc_auc_score(truth, scores))
    assert found.average_precision == pytest.approx(metrics.average_precision_score(truth, scores))


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_confusion_and_macro_f1_agree_with_scikit_learn(
    count: int, seed: int, left_out: bool
) -> None:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(20, count)))
    labels = torch.from_numpy(rng.integers(0, count, 20))
    found = Evaluation.of(logits, labels, count, forgotten=[0] if left_out else [])
    truth, predicted = labels.numpy(), logits.argmax(1).numpy()
    every = metrics.confusion_matrix(truth, predicted, labels=range(count))
    assert found.confusion == tuple(map(tuple, every.tolist()))
    kept = truth != 0 if left_out else truth >= 0
    seen = (set(truth[kept]) | set(predicted[kept])) - ({0} if left_out else set())
    expected = metrics.f1_score(
        truth[kept], predicted[kept], labels=sorted(seen), average="macro", zero_division=0
    )
    assert found.macro_f1 == pytest.approx(expected)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth[kept], predicted[kept]))


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_confusion_at_a_threshold_agrees_with_scikit_learn(threshold: float) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=50))
    truth = [int(score + noise > 0) for score, noise in zip(scores, scores.roll(7), strict=True)]
    found = two_labels(scores.tolist(), truth, threshold=threshold)
    called = torch.sigmoid(scores.float().double()) > threshold
    expected = metrics.confusion_matrix(truth, called.int().numpy(), labels=[0, 1])
    assert found.threshold_confusion == tuple(map(tuple, expected.tolist()))


def test_a_federation_judges_by_the_labels_that_stay() -> None:
    fed = Federation.local("digits", parties=2, model="mlp", epochs=3)
    fed.train()
    before = fed.evaluate()
    assert before.forgotten == ()
    assert before.accuracy == before.accuracy_all
    fed.forget([3], settings=ForgetSettings(method="renormalise")).commit(force=True)
    found = fed.evaluate()
    assert found.forgotten == (3,)
    assert found.accuracy == found.accuracy_on(n for n in range(10) if n != 3)
    assert found.accuracy_all == found.accuracy_on(range(10))
    assert found.accuracy_all < found.accuracy
    with pytest.raises(SettingsError):
        fed.evaluate(threshold=0.3)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_probability(threshold: float) -> None:
    with pytest.raises(SettingsError, match=r"`threshold`"):
        two_labels(SCORES, TRUTH, threshold=threshold)
