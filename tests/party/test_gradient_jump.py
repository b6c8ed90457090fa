"""A passive party that compares gradients with the last ones."""

from __future__ import annotations

import pytest
import torch
from federations import small_holdings

from unlabel.config import Policy
from unlabel.errors import PartyRefused, SettingsError
from unlabel.party.policy import Guard
from unlabel.train import assemble
from unlabel.wire import BeginRequest, Gradients, Prepare


def take(guard: Guard, norm: float) -> None:
    values = torch.zeros(4, 2)
    values[0, 0] = norm
    guard.check_gradients(Gradients(0, values), torch.zeros(4, 2))


def test_gradients_far_above_the_median_of_the_last_are_refused() -> None:
    guard = Guard(Policy(max_gradient_jump=10.0))
    for norm in (1.0, 3.0, 2.0, 2.0, 9.0, 2.0, 2.0, 50.0):
        take(guard, norm)  # the first eight are compared with none
    take(guard, 20.0)
    with pytest.raises(PartyRefused):
        take(guard, 20.1)
    take(guard, 0.0)


def test_what_is_refused_does_not_become_usual() -> None:
    guard = Guard(Policy(max_gradient_jump=10.0))
    for _ in range(8):
        take(guard, 1.0)
    for _ in range(40):
        with pytest.raises(PartyRefused):
            take(guard, 11.0)


def test_after_zeros_nothing_is_a_jump_and_without_the_setting_never() -> None:
    for policy, norms in ((Policy(max_gradient_jump=2.0), 0.0), (Policy(), 1e-6)):
        guard = Guard(policy)
        for _ in range(10):
            take(guard, norms)
        take(guard, 99.0)


def test_a_training_and_a_request_begin_without_a_history() -> None:
    _, passives = assemble(small_holdings(1))
    party = passives["passive-1"]
    party.guard = Guard(Policy(max_gradient_jump=10.0))
    begin = BeginRequest(0, "abc", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0)
    for message in (Prepare(0, torch.arange(8), 4), begin):
        for _ in range(8):
            take(party.guard, 1.0)
        party.handle(message)
        take(party.guard, 90.0)
        party.guard.forget_norms()


@pytest.mark.parametrize("jump", [-1.0, 0.5, 1.0, float("inf"), float("nan")])
def test_a_jump_that_cannot_be_is_refused(jump: float) -> None:
    with pytest.raises(SettingsError, match="max_gradient_jump"):
        Policy(max_gradient_jump=jump)
