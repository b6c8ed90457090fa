"""The loop around the steps: batches, early stopping, watchers, randomness."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from federations import small_holdings
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config import Policy
from unlabel.errors import PartyRefused, TrainingDiverged
from unlabel.train import Epoch, Evaluation, Training, Watcher, assemble, batches, evaluate


@given(count=st.integers(2, 200), size=st.integers(2, 50), epoch=st.integers(1, 5))
def test_an_epoch_visits_every_row_once_and_never_a_single_row_alone(
    count: int, size: int, epoch: int
) -> None:
    rows = torch.arange(100, 100 + count)
    found = list(batches(rows, size, seed=1, epoch=epoch))
    assert sorted(torch.cat(found).tolist()) == rows.tolist()
    assert all(2 <= len(batch) <= size + 1 for batch in found)


def test_epochs_come_in_different_orders_and_the_same_seed_repeats_them() -> None:
    rows = torch.arange(50)
    first, repeated, other, reseeded = (
        torch.cat(list(batches(rows, 8, seed=seed, epoch=epoch)))
        for seed, epoch in ((1, 1), (1, 1), (1, 2), (2, 1))
    )
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other)
    assert not torch.equal(first, reseeded)


def test_evaluation_of_a_case_worked_by_hand() -> None:
    logits = torch.tensor([[2.0, 0, 0], [0, 2.0, 0], [2.0, 0, 0], [0, 0, 2.0]])
    found = Evaluation.of(logits, torch.tensor([0, 1, 1, 0]), 3)
    assert found.accuracy == 0.5
    assert found.per_label_accuracy == (0.5, 0.5, None)
    assert found.confusion == ((1, 0, 1), (1, 1, 0), (0, 0, 0))
    e2 = float(torch.tensor(2.0).exp())
    right, wrong = e2 / (e2 + 2), 1 / (e2 + 2)
    expected = -(2 * torch.tensor(right).log() + 2 * torch.tensor(wrong).log()) / 4
    assert found.loss == pytest.approx(float(expected))


def test_early_stopping_returns_all_parties_to_the_best_epoch(tmp_path: Path) -> None:
    holdings = small_holdings(2, epochs=60, patience=3, lr=0.3, schedule="constant")
    active, _ = assemble(holdings, folder=tmp_path)
    progress = Training(active, holdings.rows, holdings.config.train, labels=4).run()
    accuracies = [epoch.validation_accuracy for epoch in progress.history]
    best = max(a for a in accuracies if a is not None)
    assert len(accuracies) < 60
    assert accuracies.index(best) == len(accuracies) - 1 - 3
    assert evaluate(active, holdings.rows.validation, 4).accuracy == best
    reopened, _ = assemble(holdings, folder=tmp_path)
    assert len(reopened.versions.common()) == 1
    reopened.versions.restore(reopened.versions.common()[-1])
    assert evaluate(reopened, holdings.rows.validation, 4).accuracy == best


def test_early_stopping_depends_on_validation_rows_only_never_on_test_rows(tmp_path: Path) -> None:
    histories = []
    for run, shift in (("a", 0), ("b", 1)):
        holdings = small_holdings(2, epochs=8, patience=2)
        holdings.labels[holdings.rows.test] = (holdings.labels[holdings.rows.test] + shift) % 4
        active, _ = assemble(holdings, folder=tmp_path / run)
        found = Training(active, holdings.rows, holdings.config.train, labels=4).run()
        histories.append([(e.loss, e.validation_accuracy) for e in found.history])
    assert histories[0] == histories[1]


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    holdings = small_holdings(2)

    class Count(Watcher):
        steps = 0

        def stepped(self, rows: int, loss: torch.Tensor, correct: torch.Tensor) -> None:
            self.steps += 1

    counts = []
    for _ in range(2):
        active, _ = assemble(holdings, folder=tmp_path)
        watcher = Count()
        Training(active, holdings.rows, holdings.config.train, labels=4, watchers=[watcher]).run()
        counts.append(watcher.steps)
    assert counts == [8, 0]


def test_training_leaves_the_callers_random_numbers_alone() -> None:
    holdings = small_holdings(2, bottom="small_models:dropout_bottom")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    active, _ = assemble(holdings)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    assert torch.equal(torch.rand(3), expected)


def test_a_rate_that_diverges_is_named_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    holdings = small_holdings(2, lr=1e30, schedule="constant")
    active, _ = assemble(holdings, folder=tmp_path)
    with pytest.raises(TrainingDiverged, match=r"`lr`"):
        Training(active, holdings.rows, holdings.config.train, labels=4).run()
    # Where all began is kept, and nothing that was learned since.
    assert {path.name for path in tmp_path.rglob("*.json")} == {"000000.json"}


def test_gradients_that_a_party_finds_too_large_are_a_divergence_and_other_refusals_are_not() -> (
    None
):
    holdings = small_holdings(2)
    for policy, expected, code in (
        (Policy(max_gradient_norm=1e-9), TrainingDiverged, "not-finite"),
        (Policy(serves=("Describe", "Prepare", "Embed")), PartyRefused, "policy"),
    ):
        active, passives = assemble(holdings)
        for party in passives.values():
            party.guard.policy = policy
        with pytest.raises(expected) as stopped:
            Training(active, holdings.rows, holdings.config.train, labels=4).run()
        assert stopped.value.code == code


def test_watchers_hear_of_every_epoch_with_validation_figures() -> None:
    heard: list[Epoch] = []

    class Listen(Watcher):
        def epoch_ended(self, epoch: Epoch, history: object) -> None:
            heard.append(epoch)

    holdings = small_holdings(1, epochs=3)
    active, _ = assemble(holdings)
    Training(active, holdings.rows, holdings.config.train, labels=4, watchers=[Listen()]).run()
    assert [epoch.epoch for epoch in heard] == [1, 2, 3]
    assert all(epoch.validation_accuracy is not None for epoch in heard)
    assert heard[0].lr > heard[-1].lr
