"""What a request says of its own privacy: no more than is so, whatever came before it."""

from __future__ import annotations

import math

import pytest
from cli.command_line import one_thread
from forget.one_piece import NAMES, federation
from forget.partner_view import watch

from unlabel.errors import SettingsError
from unlabel.forget import ForgetSettings
from unlabel.forget.methods.hidden import Hidden

__all__ = ["one_thread"]  # a fixture for every test here

QUICK = Hidden(steps=20, batch=32, lr=3e-2)


def test_labels_that_are_known_to_be_gone_are_no_longer_guessed() -> None:
    fed = federation(parties=2, epochs=2)
    fed.train()
    for forgotten in range(2):
        outcome = fed.forget(
            [forgotten], settings=ForgetSettings(method=QUICK, allow_collapse=True)
        )
        told = outcome.result.privacy
        assert told is not None
        left = len(NAMES) - forgotten
        assert told["labels"] == left
        assert told["best_guess"] == pytest.approx(1 / left)
        assert told["ln_labels"] == pytest.approx(math.log(left))
        outcome.commit(force=True)
    repeated = fed.forget(
        [0], settings=ForgetSettings(method=QUICK, allow_collapse=True, deepen=True)
    ).result.privacy
    assert repeated is not None
    assert repeated["labels"] == len(NAMES) - 1  # label 0 may be it, label 1 not


@pytest.mark.parametrize("noise", [-1.0, 1e-200, 1e-4, 1e7, math.inf, math.nan])
def test_noise_for_which_no_bound_can_be_computed_is_refused_before_anything_is_sent(
    noise: float,
) -> None:
    fed = federation(parties=2, epochs=1)
    watched = watch(fed)
    with pytest.raises(SettingsError, match=r"`noise`"):
        fed.forget([1], settings=ForgetSettings(method=Hidden(noise=noise)))
    assert watched.seen["passive-1"] == []
    for fine in (1e-3, 1e6):
        told = Hidden(noise=fine).account
        assert told is not None
        assert math.isfinite(told.information)
