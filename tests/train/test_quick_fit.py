"""A top is fitted quickly: by coins in place of random numbers, on one thread, and as exactly."""

from __future__ import annotations

import torch
from torch import nn

from unlabel.train.top_fit import one_thread, quick_dropout

CPU = torch.device("cpu")


def test_dropout_by_coins_keeps_half_and_doubles_it() -> None:
    part = nn.Dropout(0.5)
    with quick_dropout(part, CPU):
        torch.manual_seed(0)
        kept = part(torch.ones(1000, 37))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert abs(kept.mean().item() - 1) < 0.02
    beside = (kept[:, 1:] * kept[:, :-1]).mean().item()
    assert abs(beside - 1) < 0.04, "masks of neighbours are independent"


def test_dropout_by_coins_is_a_function_of_the_seed_and_ends_with_the_block() -> None:
    part = nn.Dropout(0.5)
    x = torch.ones(5, 100)
    with quick_dropout(part, CPU):
        masks = []
        for _ in range(2):
            torch.manual_seed(3)
            masks.append(part(x))
        assert torch.equal(*masks)
        assert torch.equal(part.eval()(x), x)
    assert "forward" not in vars(part)


def test_other_dropouts_stay_as_they_are() -> None:
    part = nn.Dropout(0.25)
    with quick_dropout(part, CPU):
        assert "forward" not in vars(part)


def test_gradients_pass_where_a_unit_was_kept() -> None:
    part = nn.Dropout(0.5)
    x = torch.ones(64, 8, requires_grad=True)
    with quick_dropout(part, CPU):
        kept = part(x)
    kept.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, kept.detach())


def test_one_thread_computes_inside_the_block_alone() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
