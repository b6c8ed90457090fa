"""A label with one, two or three rows can be forgotten after training, like any other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from cli.command_line import one_thread
from forget.partner_view import expect_same_view, view, watch

from unlabel.errors import ForgetError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.forget.methods.hidden import Hidden

__all__ = ["one_thread"]  # a fixture for every test here

RARE = "rare"


def trained(rare: int) -> Federation:
    """Return a run of 240 people of three labels, and so few of a fourth."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(240) % 3, np.full(rare, 3)])
    x = rng.normal(0, 2, (4, 5))[y] + rng.normal(0, 1, (len(y), 5))
    ids = [f"C-{number}" for number in range(len(y))]
    labels = np.array(["boat", "car", "home", RARE])[y]
    frames = {
        "bank": pd.DataFrame({"id": ids, "loan": labels, "a": x[:, 0], "b": x[:, 1]}),
        "shop": pd.DataFrame({"id": ids, "c": x[:, 2], "d": x[:, 3], "e": x[:, 4]}),
    }
    fed = Federation.from_frames(frames, label="loan")
    fed.train()
    return fed


@pytest.mark.parametrize("rare", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_it_is_forgotten_audited_and_committed_and_partners_cannot_tell(rare: int) -> None:
    views = []
    for label in (RARE, "car"):
        fed = trained(rare)
        number = fed.labels.index(label)
        theirs = (fed.holdings.labels == number).nonzero()[:, 0]
        assert len(theirs) == (rare if label == RARE else 80)
        assert (fed.active.logits(theirs).argmax(1) == number).any()
        watched = watch(fed)
        outcome = fed.forget([label])
        assert not outcome.result.failed
        assert not outcome.result.control
        assert (outcome.result.retained_accuracy.after or 0) > 0.95
        verdict = fed.audit(demand="none")
        assert verdict.request == outcome.result.request
        outcome.commit(force=True)
        assert (fed.active.logits(torch.arange(240 + rare)).argmax(1) != number).all()
        assert fed.forgotten.labels == (number,)
        views.append(view(fed, watched))
    expect_same_view(views[0], views[1], f"{rare} rows and 80")


def test_few_public_samples_cannot_teach_a_label_that_has_none() -> None:
    fed = trained(1)
    for label in (RARE, "car"):
        with pytest.raises(ForgetError, match="The public set has no sample of label 'rare'"):
            fed.forget([label], settings=ForgetSettings(method=Hidden(samples="public")))
