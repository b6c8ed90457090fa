"""What the predictions give away: each figure by hand, or by an independent implementation."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch
from audit.seen_cases import by_logits
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from torch.nn.functional import one_hot

from unlabel.audit import Part, Seen, attack_success, entropy
from unlabel.audit.destination import Destination
from unlabel.audit.forgotten_accuracy import ForgottenAccuracy
from unlabel.audit.likelihood import Likelihood, likelihood_ratio, log_odds
from unlabel.audit.membership import Membership, sides
from unlabel.errors import DataError


def calling(called: list[int], truth: list[int], count: int = 5) -> Seen:
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


def overfitted(seed: int = 0) -> Seen:
    """Return a model that is surer of training rows than of test rows."""
    random = torch.Generator().manual_seed(seed)

    def part(rows: int, sure: float) -> Part:
        labels = torch.arange(rows) % 4
        logits = one_hot(labels, 4) * sure + torch.randn(rows, 4, generator=random)
        return Part(labels, logits, logits, {})

    return Seen(part(400, 6.0), part(200, 2.0), tuple("abcd"))


def test_membership_is_the_attack_on_entropies() -> None:
    seen = overfitted()
    gone = seen.train.labels == 1
    h = entropy(seen.train.logits)
    expected = attack_success(h[~gone], entropy(seen.test.logits), h[gone])
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
    same = Seen(seen.test, seen.test, seen.names)
    assert (Likelihood().measure(seen, (1,)).value or 0) > 0.95
    found = Likelihood().measure(same, (1,))
    assert found.value == pytest.approx(0.5)
    attacks = Likelihood().measure(seen, (1,)).detail["attacks"]
    assert set(attacks) == {"log-odds", "entropy", "confidence"}
    assert attacks["log-odds"]["found"] > 0.5
    assert found.detail["attacks"]["log-odds"]["found"] <= 0.05


def test_the_likelihood_ratio_is_that_of_two_normals() -> None:
    random = torch.Generator().manual_seed(0)
    shadows = torch.randn(16, 5, generator=random)
    inside = torch.stack([torch.randperm(16, generator=random) < 8 for _ in range(5)], 1)
    target = torch.randn(5, generator=random)
    for shared in (False, True):
        found = likelihood_ratio(target, shadows, inside, shared=shared)
        spreads = []
        for mask in (inside, ~inside):
            columns = [shadows[mask[:, n], n].double().numpy() for n in range(5)]
            own = [column.std() for column in columns]
            spreads.append([np.sqrt(np.mean(np.square(own)))] * 5 if shared else own)
        expected = []
        for n in range(5):
            densities = [
                norm.logpdf(float(target[n]), shadows[mask[:, n], n].double().mean(), spread[n])
                for mask, spread in zip((inside, ~inside), spreads, strict=True)
            ]
            expected.append(densities[0] - densities[1])
        assert found.tolist() == pytest.approx(expected, rel=1e-6)


def test_shadow_models_find_members_that_a_single_threshold_cannot() -> None:
    """Rows differ in how hard they are by much more than membership moves them."""
    random = torch.Generator().manual_seed(1)
    hard = 10 * torch.randn(400, generator=random)
    inside = torch.rand(65, 400, generator=random) < 0.5
    phi = hard + 2.0 * inside + 0.5 * torch.randn(65, 400, generator=random)
    member = inside[0].numpy()
    ratio = likelihood_ratio(phi[0], phi[1:], inside[1:]).numpy()
    assert roc_auc_score(member, ratio) > 0.98
    assert roc_auc_score(member, phi[0].numpy()) < 0.65


def test_too_few_shadow_models_or_wrong_shapes_are_refused() -> None:
    shadows, target = torch.zeros(4, 3), torch.zeros(3)
    inside = torch.tensor([[True, True, True]] * 3 + [[False] * 3])
    with pytest.raises(DataError, match="outside of at least 2 but found 1; train more"):
        likelihood_ratio(target, shadows, inside)
    with pytest.raises(DataError, match=r"\[models, 3\] but got \[4, 3\] and \[3, 3\]"):
        likelihood_ratio(target, shadows, inside[:3])


@pytest.mark.parametrize("measure", [Membership(), Likelihood(), Destination()])
def test_without_forgotten_rows_a_figure_is_undefined_and_says_why(
    measure: Membership | Likelihood | Destination,
) -> None:
    found = measure.measure(overfitted(), ())
    assert found.value is None
    assert found.note
