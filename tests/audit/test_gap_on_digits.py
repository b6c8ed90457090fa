"""On real digits: the gap between a model that knew a label and one that never saw it shows."""

from __future__ import annotations

import pytest
import torch

from unlabel.audit import Observation, observe, residual_knowledge
from unlabel.audit.measures.accuracy import ForgottenAccuracy
from unlabel.audit.measures.probing import LinearProbe
from unlabel.audit.measures.rank import Rank
from unlabel.audit.measures.revival import Revival
from unlabel.federation import Federation
from unlabel.models.tops import Top
from unlabel.train import Forgotten

LABELS = (3,)


def seen(seed: int, *, without: bool = False) -> Observation:
    federation = Federation.local("digits", parties=2, epochs=15, seed=seed)
    if without:
        federation.forgotten = Forgotten(labels=LABELS)
    federation.train()
    return observe(federation.active, federation.holdings.rows, federation.labels)


@pytest.fixture(scope="module")
def original() -> Observation:
    return seen(0)


@pytest.fixture(scope="module")
def retrained() -> list[Observation]:
    return [seen(seed, without=True) for seed in range(3)]


def test_a_probe_with_one_label_a_class_tells_original_and_retrained_apart(
    original: Observation, retrained: list[Observation]
) -> None:
    probe = LinearProbe()
    first = probe.measure(original, LABELS)
    others = [probe.measure(one, LABELS) for one in retrained]
    found = residual_knowledge(first, first, others)
    # It would be undefined were the two not three standard errors apart.
    assert found.value == pytest.approx(1.0)
    assert found.detail["difference"] > 3 * found.detail["difference_error"]
    assert found.detail["difference"] > 0.1


def test_a_probe_with_all_labels_does_not(
    original: Observation, retrained: list[Observation]
) -> None:
    probe = LinearProbe(per_label=0)
    first = probe.measure(original, LABELS)
    others = [probe.measure(one, LABELS) for one in retrained]
    assert residual_knowledge(first, first, others).value is None


def test_a_mask_hides_the_output_and_nothing_below(
    original: Observation, retrained: list[Observation]
) -> None:
    masked = original.masked(LABELS)
    assert ForgottenAccuracy().measure(masked, LABELS).value == 0.0
    for measure in (Rank(), Revival()):
        known = measure.measure(masked, LABELS)
        assert known.value is not None
        assert known.value > 0.95
        for one in retrained:
            never = measure.measure(one, LABELS)
            assert never.high is not None
            assert known.low is not None
            assert never.high < known.low


def test_lifting_a_mask_gives_the_scores_behind_it_to_the_last_digit() -> None:
    federation = Federation.local("digits", parties=2, epochs=1)
    federation.train()
    before = observe(federation.active, federation.holdings.rows, federation.labels)
    top = federation.active.top.module
    assert isinstance(top, Top)
    top.mute(LABELS)
    after = observe(federation.active, federation.holdings.rows, federation.labels)
    assert torch.equal(after.test.scores, before.test.scores)
    assert torch.equal(after.test.logits, before.masked(LABELS).test.logits)
