"""On real digits: the gap between a model that knew a label and one that never saw it shows."""

from __future__ import annotations

import pytest
import torch

from unlabel.audit import Observation, observe
from unlabel.audit.measures.accuracy import ForgottenAccuracy
from unlabel.audit.measures.probing import LinearProbe
from unlabel.audit.measures.trace import OutputTrace, Trace
from unlabel.audit.spread import RECORDED
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


def spreads_away(
    measure: LinearProbe, original: Observation, retrained: list[Observation]
) -> tuple[float, list[float]]:
    """Return how far the original lies from retrained models, and each of these from the others."""
    values = [measure.measure(one, LABELS).value for one in (original, *retrained)]
    first, *others = (float(value) for value in values if value is not None)
    spread = RECORDED["probe-linear"]
    apart = [spread.away(value, [*others[:n], *others[n + 1 :]]) for n, value in enumerate(others)]
    return spread.away(first, others), apart


def test_a_probe_with_one_label_a_class_tells_original_and_retrained_apart(
    original: Observation, retrained: list[Observation]
) -> None:
    distance, apart = spreads_away(LinearProbe(), original, retrained)
    assert distance > max(map(abs, apart))


def test_a_probe_with_all_labels_does_not(
    original: Observation, retrained: list[Observation]
) -> None:
    distance, apart = spreads_away(LinearProbe(per_label=0), original, retrained)
    assert max(map(abs, (distance, *apart))) < 1


def test_a_mask_hides_the_output_and_nothing_below(
    original: Observation, retrained: list[Observation]
) -> None:
    masked = original.masked(LABELS)
    assert ForgottenAccuracy().measure(masked, LABELS).value == 0.0
    models = {"original": [original], "mask": [masked], "retrained": retrained}
    for measure in (OutputTrace(), Trace()):
        assert measure.beside(masked, LABELS, models).value == pytest.approx(1.0, abs=1e-4)
        for one in retrained:
            assert (measure.beside(one, LABELS, models).value or 0.0) < 0.95


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
