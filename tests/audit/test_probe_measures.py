"""What embeddings still know: probes, by closed forms, scikit-learn and models built on purpose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from audit.observation_cases import GONE, knower, stranger
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from unlabel.audit.classifiers import (
    RIDGE,
    nearest_calls,
    network_calls,
    ridge_calls,
)
from unlabel.audit.intervals import share_interval
from unlabel.audit.layers import told_apart
from unlabel.audit.measures.probing import (
    LinearProbe,
    NearestProbe,
    NetworkProbe,
    Probe,
    chosen_rows,
)
from unlabel.errors import SettingsError

PROBES = (LinearProbe, NearestProbe, NetworkProbe)


def data(rows: int, width: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 3
    x = torch.randn(rows, width, generator=random, dtype=torch.float64)
    x[:, :3] += 2 * torch.nn.functional.one_hot(labels, 3)
    return x, labels, torch.randn(50, width, generator=random, dtype=torch.float64)


@pytest.mark.parametrize(("rows", "width"), [(60, 5), (9, 40), (21, 21), (20, 21)])
def test_the_ridge_is_that_of_scikit_learn_with_many_rows_or_few(rows: int, width: int) -> None:
    x, labels, test = data(rows, width)
    y = 2 * np.eye(3)[labels] - 1

    def with_constant(part: torch.Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.column_stack([part.numpy(), np.ones(len(part))])

    theirs = Ridge(alpha=RIDGE * rows, fit_intercept=False).fit(with_constant(x), y)
    expected = theirs.predict(with_constant(test)).argmax(1)
    assert ridge_calls(x, labels, test, 3).tolist() == expected.tolist()


def test_the_nearest_by_cosine_is_that_of_scikit_learn() -> None:
    x, labels, test = data(30, 6)
    theirs = KNeighborsClassifier(1, metric="cosine").fit(x, labels)
    assert nearest_calls(x, labels, test, 3, near=1).tolist() == theirs.predict(test).tolist()


def test_networks_side_by_side_are_the_networks_one_by_one() -> None:
    draws = [data(24, 6, seed) for seed in (1, 2, 3)]
    test = draws[0][2]
    together = network_calls(
        torch.stack([x for x, _, _ in draws]), torch.stack([y for _, y, _ in draws]), test, 3
    )
    for n, (x, labels, _) in enumerate(draws):
        alone = network_calls(x[None], labels[None], test, 3)[0]
        assert (together[n] == alone).double().mean() > 0.97
    own = network_calls(draws[0][0][None], draws[0][1][None], draws[0][0], 3)[0]
    assert (own == draws[0][1]).all()


def test_a_network_learns_what_no_linear_probe_can() -> None:
    x = torch.tensor([[0.0, 0], [1, 1], [0, 1], [1, 0]]).repeat(10, 1) * 2 - 1
    labels = torch.tensor([0, 0, 1, 1]).repeat(10)
    assert (network_calls(x[None], labels[None], x, 2)[0] == labels).all()
    assert (ridge_calls(x.double(), labels, x.double(), 2) == labels).double().mean() <= 0.75


def test_rows_are_chosen_at_random_and_as_many_of_each_label() -> None:
    labels = torch.tensor([0] * 50 + [1] * 50 + [2] * 2)
    first, repeated, other = (chosen_rows(labels, 5, seed) for seed in (0, 0, 1))
    assert labels[first].bincount().tolist() == [5, 5, 2]
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other)
    often = torch.cat([chosen_rows(labels, 5, seed) for seed in range(500)]).bincount()
    assert (often[:100] > 20).all()
    assert (often[100:] == 500).all()


@pytest.mark.parametrize("kind", PROBES)
def test_a_probe_finds_a_label_that_is_known_and_not_one_that_is_not(kind: type[Probe]) -> None:
    known = kind().measure(knower(), (GONE,))
    blind = kind().measure(stranger(), (GONE,))
    assert known.value is not None
    assert blind.value is not None
    assert known.value > 0.95
    # Its rows lie on four other centres: one sample of it on one of them draws what lies there.
    assert blind.value < 0.3
    for found in (known, blind):
        assert set(found.detail["parties"]) == {"party-0", "party-1"}
        assert [point["shots"] for point in found.detail["curve"]] == [1, 2, 5, 10, 50, "all"]
        assert found.low is not None
        assert found.high is not None
        assert found.low <= (found.value or 0.0) <= found.high


def test_a_value_is_the_mean_over_draws_worked_out_one_by_one() -> None:
    seen = knower(rows=60)
    asked = seen.test.of([GONE]).joined()
    x, queries = told_apart(seen.train.joined(), seen.train.labels, [GONE], asked)
    hits = []
    for draw in range(7):
        rows = chosen_rows(seen.train.labels, 2, draw)
        called = ridge_calls(x[rows], seen.train.labels[rows], queries, 5)
        hits.append(float((called == GONE).double().mean()))
    found = LinearProbe(per_label=2, draws=7).measure(seen, (GONE,))
    assert found.value == pytest.approx(np.mean(hits))
    assert found.detail["draws"] == 7


def test_one_party_alone_is_what_detail_says_of_it() -> None:
    seen = knower(rows=100)
    every = NearestProbe(draws=5).measure(seen, (GONE,))
    alone = NearestProbe(draws=5, party="party-1").measure(seen, (GONE,))
    assert every.detail["parties"]["party-1"]["value"] == alone.value


def test_large_tables_are_probed_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = LinearProbe(per_label=0).measure(knower(), (GONE,))
    monkeypatch.setattr("unlabel.audit.measures.probing.LARGE", 10)
    assert LinearProbe(per_label=0).measure(knower(), (GONE,)).value == exact.value


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"`per_label`"):
        LinearProbe(per_label=-1)
    with pytest.raises(SettingsError, match=r"'party-3'"):
        LinearProbe(party="party-3").measure(knower(rows=20), (GONE,))
    assert LinearProbe().measure(knower(rows=20), ()).value is None


def test_draws_that_agree_are_no_reason_to_be_sure() -> None:
    found = LinearProbe(per_label=10, draws=6).measure(knower(rows=100), (GONE,))
    assert found.value == 1.0
    assert (found.low, found.high) == share_interval(20, 20)
