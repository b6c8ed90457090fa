"""What the predictions give away: each figure by hand, or by an independent implementation."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch
from audit.observation_cases import by_logits
from sklearn.metrics import roc_auc_score
from torch.nn.functional import one_hot

from unlabel.audit import Observation, ObservedRows
from unlabel.audit.measures.accuracy import ForgottenAccuracy
from unlabel.audit.measures.destination import Destination
from unlabel.audit.measures.likelihood import Likelihood, log_odds
from unlabel.audit.measures.membership import Membership, attack_success, entropy, sides


def calling(called: list[int], truth: list[int], count: int = 5) -> Observation:
    return by_logits(one_hot(torch.tensor(called), count) * 5.0, torch.tensor(truth))


def test_forgotten_accuracy_by_hand() -> None:
    found = ForgottenAccuracy().measure(calling([3, 1, 3, 0], [3, 3, 3, 0]), (3,))
    assert found.value == pytest.approx(2 / 3)
    assert found.detail == {"rows": 3, "training": pytest.approx(2 / 3)}
    assert ForgottenAccuracy().measure(calling([0], [0]), (3,)).value is None


# --- where samples go ---------------------------------------------------------------------------


def test_all_to_one_wrong_label_is_zero_and_everywhere_alike_is_one() -> None:
    one = Destination().measure(calling([4] * 8, [3] * 8), (3,))
    even = Destination().measure(calling([0, 1, 2, 4] * 2, [3] * 8), (3,))
    assert (one.value, one.low, one.high) == (0.0, 0.0, 0.0)
    assert one.detail["largest"] == {"name": "4", "share": 1.0}
    assert even.value == pytest.approx(1.0)


def test_where_samples_go_by_hand() -> None:
    found = Destination().measure(calling([0, 0, 1, 1, 2], [3, 3, 3, 3, 2]), (3,))
    assert found.value == pytest.approx(log(2) / log(4))
    assert found.detail["shares"] == {"0": 0.5, "1": 0.5, "2": 0.0, "3": 0.0, "4": 0.0}


def test_with_one_label_left_there_is_nothing_to_spread_over() -> None:
    found = Destination().measure(calling([0, 0], [1, 1], 2), (1,))
    assert found.value is None
    assert "only one way" in found.note
    assert found.detail["shares"] == {"0": 1.0, "1": 0.0}


# --- the paper's attack -------------------------------------------------------------------------


def overfitted(seed: int = 0) -> Observation:
    """Return a model that is surer of training rows than of test rows."""
    random = torch.Generator().manual_seed(seed)

    def part(rows: int, sure: float) -> ObservedRows:
        labels = torch.arange(rows) % 4
        logits = one_hot(labels, 4) * sure + torch.randn(rows, 4, generator=random)
        return ObservedRows(labels, logits, logits, {})

    return Observation(part(400, 6.0), part(200, 2.0), tuple("abcd"))


def test_membership_is_the_attack_on_entropies() -> None:
    seen = overfitted()
    forgotten = seen.train.labels == 1
    h = entropy(seen.train.logits)
    expected = attack_success(h[~forgotten], entropy(seen.test.logits), h[forgotten])
    found = Membership().measure(seen, (1,))
    assert found.value == pytest.approx(expected)
    assert found.value is not None
    assert found.value > 0.8
    for who in ("members", "strangers", "forgotten"):
        assert sum(found.detail["entropies"][who]) == pytest.approx(1.0)


def test_of_many_members_the_same_ten_thousand_are_drawn() -> None:
    values = torch.arange(12_000).float()
    labels = torch.arange(12_000) % 12
    members, forgotten = sides(values, labels, [0])
    assert len(members) == 10_000
    assert torch.equal(members, sides(values, labels, [0])[0])
    assert forgotten.tolist() == list(range(0, 12_000, 12))
    assert not torch.isin(members, forgotten).any()
    assert len(members.unique()) == 10_000


# --- rows of one label --------------------------------------------------------------------------


def test_log_odds_are_exact_where_probabilities_are_not() -> None:
    """softmax of float32 rounds to 1 beyond a difference of 17; the log-odds do not."""
    scores = torch.tensor([[80.0, 0.0, 0.0], [0.0, -70.0, 1.0]])
    found = log_odds(scores, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([80 - log(2), -70 - np.log(1 + np.e)])


def test_likelihood_is_the_area_of_scikit_learn_label_by_label() -> None:
    seen = overfitted()
    expected = []
    for label in (1, 3):
        train, test = seen.train.of([label]), seen.test.of([label])
        phi = torch.cat([log_odds(part.scores, part.labels) for part in (train, test)])
        expected.append(roc_auc_score([1] * len(train) + [0] * len(test), phi))
    found = Likelihood().measure(seen, (1, 3))
    assert found.value == pytest.approx(np.mean(expected))
    assert found.low is not None
    assert found.high is not None
    assert found.low < np.mean(expected) < found.high


def test_an_overfitted_model_gives_its_rows_away_and_one_that_generalises_does_not() -> None:
    seen = overfitted()
    same = Observation(seen.test, seen.test, seen.names)
    assert (Likelihood().measure(seen, (1,)).value or 0) > 0.95
    found = Likelihood().measure(same, (1,))
    assert found.value == pytest.approx(0.5)
    attacks = Likelihood().measure(seen, (1,)).detail["attacks"]
    assert set(attacks) == {"log-odds", "entropy", "confidence"}
    assert attacks["log-odds"]["found"] > 0.5
    assert found.detail["attacks"]["log-odds"]["found"] <= 0.05


@pytest.mark.parametrize("measure", [Membership(), Likelihood(), Destination()])
def test_without_forgotten_rows_a_figure_is_undefined_and_says_why(
    measure: Membership | Likelihood | Destination,
) -> None:
    found = measure.measure(overfitted(), ())
    assert found.value is None
    assert found.note
