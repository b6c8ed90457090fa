"""Relearning and resurfacing: gradients by autograd, counts by models built on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from audit.observation_cases import GONE, knower, stranger, top_of
from torch.nn.functional import cross_entropy

from unlabel.audit import Observation, ObservedRows
from unlabel.audit.classifiers import balanced, descend, head_inputs
from unlabel.audit.measures.relearning import Relearning
from unlabel.audit.measures.resurfacing import Resurfacing, _reconstruct


def test_a_step_is_that_of_autograd() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(2, 12, 4), torch.randint(0, 3, (2, 12))
    weights = balanced(labels, 3)
    head = torch.randn(2, 4, 3, requires_grad=True)
    loss = sum(
        (cross_entropy(x[n] @ head[n], labels[n], reduction="none") * weights[n]).sum()
        for n in range(2)
    )
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    assert head.grad is not None
    moved = next(descend(head.detach(), x, labels, weights, 1))
    torch.testing.assert_close(moved, head.detach() - head.grad)


def test_the_loss_falls_with_every_step_whatever_the_width() -> None:
    for width in (3, 300):
        torch.manual_seed(width)
        x = torch.randn(60, 1).expand(-1, width) + 0.01 * torch.randn(60, width)
        labels = (x[:, 0] > 0).long()
        (ready,) = head_inputs(x, labels, [1])
        assert ready[:, :-1].square().sum(1).mean() == pytest.approx(1.0, abs=0.05)
        start = torch.zeros(ready.shape[1], 2)
        heads = descend(start, ready, labels, torch.full((60,), 1 / 60), 50)
        losses = [float(cross_entropy(ready @ head, labels)) for head in heads]
        assert losses == sorted(losses, reverse=True)


def test_every_label_weighs_the_same() -> None:
    labels = torch.tensor([[0, 0, 0, 1], [1, 1, 2, 2]])
    weights = balanced(labels, 4)
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    torch.testing.assert_close(weights[0], torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]))
    torch.testing.assert_close(weights[1], torch.full((4,), 0.25))


def test_a_label_that_is_known_is_back_at_once_and_one_that_is_not_never() -> None:
    known = Relearning(steps=60).measure(knower(), (GONE,))
    blind = Relearning(steps=60).measure(stranger(), (GONE,))
    assert known.value is not None
    assert known.value < 20
    assert known.detail["samples"] == 1
    assert (blind.value, blind.detail["samples"]) == (None, None)
    assert blind.note == (
        "The label is not reached in 60 steps with 10 samples and not reached with all samples."
    )


def test_steps_are_counted_as_a_plain_loop_counts_them() -> None:
    """Ten rows a label are all there are, so that every draw takes the same."""
    seen = knower(rows=50)
    settings = Relearning(rows=10, retained=10, draws=1, steps=80, aim=0.95, back=0.9)
    found = settings.measure(seen, (GONE,))
    x, test = head_inputs(seen.train.joined(), seen.train.labels, [GONE], seen.test.joined())
    labels, truth = seen.train.labels, seen.test.labels
    stays = labels != GONE
    head = torch.zeros(x.shape[1], 5)
    for _ in range(80):
        grown = head.clone().requires_grad_()
        cross_entropy(x[stays] @ grown, labels[stays]).backward()
        assert grown.grad is not None
        head = head - grown.grad
    head[:, GONE] = 0
    steps = 0
    while True:
        steps += 1
        grown = head.clone().requires_grad_()
        cross_entropy(x @ grown, labels).backward()
        assert grown.grad is not None
        head = head - grown.grad
        right = (test @ head).argmax(1) == truth
        scores = [float(right[truth == GONE].double().mean()), 0.0]
        scores[1] = float(right[truth != GONE].double().mean())
        if min(scores) >= 0.9 * 0.95:
            break
    assert found.value == steps


def test_calling_everything_by_the_forgotten_name_does_not_count_as_back() -> None:
    """In training the label stands apart; in the test all rows lie where it did."""
    seen = knower(rows=100)

    def placed(part: ObservedRows, apart: bool) -> ObservedRows:
        side = torch.ones(len(part), 3)
        side[(part.labels != GONE) & apart] = -1.0
        return replace(part, embeddings={"p": side})

    for apart in (False, True):
        case = Observation(
            placed(seen.train, True), placed(seen.test, apart), ("a", "b", "c", "d", "e")
        )
        # One label that stays is enough here: all others go by its name.
        case = replace(
            case,
            train=replace(case.train, labels=torch.where(case.train.labels == GONE, GONE, 0)),
            test=replace(case.test, labels=torch.where(case.test.labels == GONE, GONE, 0)),
        )
        found = Relearning(steps=50, aim=1.0).measure(case, (GONE,))
        assert (found.value is not None) == apart


def test_a_linear_top_is_reconstructed_exactly() -> None:
    seen = knower()
    x, queries = head_inputs(seen.train.joined(), seen.train.labels, [GONE], seen.test.joined())
    head, fit = _reconstruct(x, seen.train.scores)
    torch.testing.assert_close(queries @ head, seen.test.scores, rtol=1e-3, atol=1e-3)
    assert fit == pytest.approx(1.0)


def test_a_masked_label_resurfaces_at_once_and_one_never_learned_does_not() -> None:
    masked = Resurfacing().measure(knower().masked([GONE]), (GONE,))
    blind = Resurfacing().measure(stranger(), (GONE,))
    assert masked.value == 1.0
    assert masked.detail["start"] == 1.0
    assert blind.value == 0.0
    assert len(blind.detail["curve"]) == 101


def test_a_label_hidden_by_too_large_others_comes_back_while_they_are_tuned() -> None:
    """The other labels' scores are lifted by a constant that more training takes back.

    Rows of the labels that stay are all called by one of them, so tuning lowers that one's bias,
    and the forgotten label's own score, never touched, stands out again.
    """
    seen = knower()
    top = top_of(400, knows=True)
    top[-1, 0] += 12.0

    def lifted(part: ObservedRows) -> ObservedRows:
        scores = torch.cat([part.joined(), torch.ones(len(part), 1)], 1) @ top
        return replace(part, logits=scores, scores=scores)

    hidden = Observation(lifted(seen.train), lifted(seen.test), seen.names)
    found = Resurfacing(steps=300).measure(hidden, (GONE,))
    assert found.detail["start"] < 0.1
    assert found.value is not None
    assert found.value > 0.5


@pytest.mark.parametrize("measure", [Relearning(), Resurfacing()])
def test_without_forgotten_rows_nothing_is_learned(measure: Relearning | Resurfacing) -> None:
    assert measure.measure(knower(rows=20), ()).value is None
