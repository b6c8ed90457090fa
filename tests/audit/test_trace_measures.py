"""What the new model still has of the old one: traces and echo, by hand and under maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from audit.observation_cases import GONE, NAMES, by_logits, knower, refitted, stranger
from torch import Tensor, nn

from unlabel.audit import Figure, Observation, ObservedRows
from unlabel.audit.layers import RIDGE, told_apart, whitened
from unlabel.audit.measures.divergence import Divergence, Entropy
from unlabel.audit.measures.echo import Echo
from unlabel.audit.measures.probing import LinearProbe, NearestProbe, NetworkProbe
from unlabel.audit.measures.relearning import Relearning
from unlabel.audit.measures.trace import OutputTrace, TopTrace, Trace
from unlabel.models.mlp import dense
from unlabel.models.tops import Top

SPAN = 6


def turned(*stretch: float) -> Tensor:
    """Return an invertible map whose directions are stretched so far."""
    draw = torch.Generator().manual_seed(len(stretch))
    sides = [torch.randn(SPAN, SPAN, dtype=torch.float64, generator=draw) for _ in range(2)]
    first, second = (torch.linalg.qr(side).Q for side in sides)
    sizes = torch.tensor([*stretch, *[1.0] * (SPAN - len(stretch))], dtype=torch.float64)
    chained: Tensor = first @ torch.diag(sizes) @ second
    return chained


#: Maps by party: of all, of one alone, and such that hide five directions of a party behind one.
MAPS: dict[str, Mapping[str, Tensor]] = {
    "each": {"party-0": turned(2.0, 0.3), "party-1": turned(0.1, 5.0, 0.7)},
    "one party": {"party-1": turned(3.0, 0.2)},
    "ill": {"party-0": turned(1e4, 1e-1), "party-1": turned(1e-4)},
    "small columns": {"party-0": torch.diag(torch.logspace(0, -6, SPAN, dtype=torch.float64))},
}


def mapped(seen: Observation, maps: Mapping[str, Tensor]) -> Observation:
    """Return a model whose parties send A h in place of h."""

    def send(part: ObservedRows) -> ObservedRows:
        sent = {
            party: x.double() @ maps[party] + 7 if party in maps else x
            for party, x in part.embeddings.items()
        }
        return replace(part, embeddings=sent)

    return replace(seen, train=send(seen.train), test=send(seen.test))


def beside(measure: Trace | OutputTrace | TopTrace, seen: Observation, old: Observation) -> Figure:
    return measure.beside(seen, (GONE,), {"original": [old], "forgotten": [seen]})


@pytest.mark.parametrize("name", MAPS)
def test_an_invertible_map_of_embeddings_changes_no_probe_no_cost_and_no_trace(name: str) -> None:
    old, new = knower(rows=200), stranger(rows=200)
    probes = [kind(draws=5, brief=True) for kind in (LinearProbe, NearestProbe, NetworkProbe)]
    for seen in (old, new):
        moved = mapped(seen, MAPS[name])
        for measure in (*probes, Relearning(steps=40, draws=3)):
            kept, other = (measure.measure(one, (GONE,)).value for one in (seen, moved))
            assert other == pytest.approx(kept, abs=1e-6), measure
        first, second = (beside(Trace(), one, old) for one in (seen, moved))
        assert second.value == pytest.approx(first.value, abs=1e-6)
        for party, one in first.detail["parties"].items():
            assert second.detail["parties"][party]["value"] == pytest.approx(one["value"], abs=1e-6)


@pytest.mark.parametrize("name", MAPS)
def test_whitened_rows_keep_their_distances_and_rows_told_apart_stay_where_they_are(
    name: str,
) -> None:
    part = knower(rows=200).train
    other = mapped(knower(rows=200), MAPS[name]).train
    flat = [whitened(one.joined())[0] for one in (part, other)]
    near = [torch.cdist(rows, rows) for rows in flat]
    torch.testing.assert_close(*near, rtol=0, atol=1e-3)
    apart = [told_apart(one.joined(), one.labels, [GONE])[0] for one in (part, other)]
    torch.testing.assert_close(*apart, rtol=0, atol=1e-3)


def test_whitened_rows_have_no_covariance_and_directions_without_variance_are_left_out() -> None:
    x = knower(rows=100).train.embeddings["party-0"]
    doubled = torch.cat([x, 2 * x[:, :2], torch.full_like(x[:, :1], 3.0)], 1)
    (flat,) = whitened(doubled)
    assert flat.shape == x.shape
    expected = np.eye(SPAN)
    np.testing.assert_allclose(np.cov(flat.numpy().T, bias=True), expected, atol=1e-8)


def test_the_old_direction_is_in_any_map_of_the_old_embeddings_and_not_in_other_rows() -> None:
    old = knower()
    same = beside(Trace(), mapped(old, MAPS["ill"]), old)
    assert same.value == pytest.approx(1.0, abs=1e-5)
    draw = torch.Generator().manual_seed(0)

    def noise(part: ObservedRows) -> ObservedRows:
        drawn = {p: torch.randn(x.shape, generator=draw) for p, x in part.embeddings.items()}
        return replace(part, embeddings=drawn)

    other = beside(Trace(), replace(old, train=noise(old.train), test=noise(old.test)), old)
    assert other.value == pytest.approx(0.0, abs=0.05)
    one_kept = mapped(old, {})
    one_kept.train.embeddings["party-1"] = noise(old.train).embeddings["party-1"]
    one_kept.test.embeddings["party-1"] = noise(old.test).embeddings["party-1"]
    parts = beside(Trace(), one_kept, knower()).detail["parties"]
    assert parts["party-0"]["value"] == pytest.approx(1.0, abs=1e-5)
    assert parts["party-1"]["value"] == pytest.approx(0.0, abs=0.05)


Rows = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def fitted(train: Tensor, y: Rows, *parts: Tensor) -> list[Rows]:
    """Return X w of the ridge whose penalty is that of whitened rows, |S^(1/2) w|^2, by numpy."""
    x = train.double().numpy()
    middle = x.mean(0)
    # The root of S is the triangle of X itself: |S^(1/2) w|^2 n = |(X - mean) w|^2.
    centred = x - middle
    rows = np.vstack([centred, np.sqrt(RIDGE) * centred])
    weights = np.linalg.lstsq(rows, np.concatenate([y - y.mean(), 0 * y]), rcond=None)[0]
    return [(part.double().numpy() - middle) @ weights for part in (train, *parts)]


def by_numpy(old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor], is_gone: Rows) -> float:
    before, tested = fitted(old[0], is_gone, old[1])
    _, told = fitted(new[0], before, new[1])
    left = ((tested - told - before.mean()) ** 2).sum()
    return float(1 - left / ((tested - tested.mean()) ** 2).sum())


def test_a_trace_is_that_of_least_squares_by_numpy() -> None:
    old, new = knower(rows=60), stranger(rows=60)
    is_gone = (old.train.labels == GONE).double().numpy()
    for party in ("party-0", "party-1"):
        sides = [(one.train.embeddings[party], one.test.embeddings[party]) for one in (old, new)]
        found = beside(Trace(), new, old).detail["parties"][party]["value"]
        assert found == pytest.approx(max(0.0, by_numpy(sides[0], sides[1], is_gone)), abs=1e-9)


def test_a_label_s_own_output_is_found_where_it_was_hidden_or_scaled_and_not_where_deleted() -> (
    None
):
    old = knower()

    def outputs(part: ObservedRows, factor: float, shift: float) -> ObservedRows:
        scores = part.scores.clone()
        scores[:, GONE] = factor * scores[:, GONE] + shift
        return replace(part, scores=scores, logits=scores)

    for factor, shift in ((1.0, 0.0), (0.01, -50.0), (-3.0, 2.0), (0.0, -10.0)):
        train, test = (outputs(part, factor, shift) for part in (old.train, old.test))
        value = beside(OutputTrace(), Observation(train, test, NAMES), old).value
        assert value == pytest.approx(1.0 if factor else 0.0, abs=1e-5)
    assert beside(OutputTrace(), old.masked([GONE]), old).value == pytest.approx(1.0, abs=1e-5)
    assert beside(OutputTrace(), refitted(old, 0), old).value == 0.0


def with_top(seen: Observation, head: nn.Module) -> Observation:
    return replace(seen, top=Top(head, "concat", len(NAMES)).eval())


def _first_layer(head: nn.Module) -> nn.Linear:
    return next(layer for layer in head.modules() if isinstance(layer, nn.Linear))


def test_a_top_that_keeps_half_of_its_hidden_units_gives_what_least_squares_find() -> None:
    torch.manual_seed(0)
    seen = knower(rows=200)
    old, fresh = (dense(2 * SPAN, 8, len(NAMES)) for _ in range(2))
    half = dense(2 * SPAN, 8, len(NAMES))
    half.load_state_dict(fresh.state_dict())
    layers = [_first_layer(one) for one in (old, half)]
    with torch.no_grad():
        for mine, its in zip(layers[1].parameters(), layers[0].parameters(), strict=True):
            mine[:4] = its[:4]
    before = with_top(seen, old)
    same, kept, none = (
        beside(TopTrace(), with_top(seen, one), before) for one in (old, half, fresh)
    )
    assert same.value == pytest.approx(1.0, abs=1e-5)
    assert (kept.value or 0.0) > (none.value or 0.0) + 0.05
    assert list(kept.detail["parties"]) == ["layer 1"]
    is_gone = (seen.train.labels == GONE).double().numpy()
    sides = [
        tuple(one[:-1](part.joined()).detach() for part in (seen.train, seen.test))
        for one in (old, half)
    ]
    assert kept.value == pytest.approx(by_numpy(sides[0], sides[1], is_gone), abs=1e-5)


def test_in_a_wide_layer_units_that_change_places_and_size_are_the_same_units() -> None:
    torch.manual_seed(0)
    seen, wide = knower(rows=200), 150
    old, fresh, moved = (dense(2 * SPAN, wide, len(NAMES)) for _ in range(3))
    places, sizes = torch.randperm(wide), torch.rand(wide) * 9 + 0.1
    first, other_first = (_first_layer(one) for one in (old, moved))
    with torch.no_grad():
        other_first.weight.copy_((first.weight * sizes[:, None])[places])
        other_first.bias.copy_((first.bias * sizes)[places])
    before = with_top(seen, old)
    same, other, none = (
        beside(TopTrace(), with_top(seen, one), before).value for one in (old, moved, fresh)
    )
    assert other == pytest.approx(same, abs=1e-5)
    assert (same or 0.0) > max(0.999, none or 0.0)


def test_a_linear_top_has_no_hidden_layer() -> None:
    seen = with_top(knower(rows=50), nn.Linear(2 * SPAN, len(NAMES)))
    found = beside(TopTrace(), seen, seen)
    assert (found.value, found.note) == (None, "There is no such layer.")


def echo(now: Observation, old: Observation, tops: list[Observation]) -> Figure:
    return Echo().beside(now, (GONE,), {"original": [old], "forgotten": [now], "refitted": tops})


def test_an_echo_by_hand() -> None:
    """Three rows; of three labels that stay one has the row's number, one 0 and one minus it.

    With o = (1, -1, 0) and t = (1, 1, -2), across each other, and z = 3 o / |o| - 4 t / |t|.
    """
    o, t = np.array([1.0, -1.0, 0.0]), np.array([1.0, 1.0, -2.0])

    def saying(numbers: Rows) -> Observation:
        x = torch.tensor(numbers)
        forgotten = torch.full_like(x, 50.0)
        return by_logits(torch.stack([x, 0 * x, forgotten, -x], 1) + 5, torch.full((3,), GONE))

    z = 3 * o / np.linalg.norm(o) - 4 * t / np.linalg.norm(t)
    old, top = saying(o), saying(t)
    assert echo(saying(z), old, [top]).value == pytest.approx(3 / 7)
    assert echo(saying(-z), old, [top]).value == pytest.approx(-3 / 7)
    # The share is of lengths, not of weights: how large the old scores were does not matter.
    assert echo(saying(z), saying(0.5 * o), [saying(9 * t)]).value == pytest.approx(3 / 7)


def test_noise_and_a_temperature_do_not_silence_the_old_model() -> None:
    old = knower()
    tops = [refitted(old, number) for number in range(5)]
    draw = torch.Generator().manual_seed(1)

    def changed(factor: float, noise: float) -> Observation:
        def change(part: ObservedRows) -> ObservedRows:
            drawn = torch.randn(part.scores.shape, generator=draw)
            scores = factor * part.scores + noise * part.scores.std() * drawn
            return replace(part, scores=scores, logits=scores)

        return replace(old, train=change(old.train), test=change(old.test)).masked([GONE])

    assert echo(old.masked([GONE]), old, tops).value == pytest.approx(1.0, abs=1e-6)
    assert echo(changed(1.5, 0.0), old, tops).value == pytest.approx(1.0, abs=1e-5)
    assert (echo(changed(1.0, 0.2), old, tops).value or 0.0) > 0.8
    for top in tops:
        assert echo(top, old, tops).value == pytest.approx(0.0, abs=0.1)
    assert echo(refitted(old, 9), old, tops).value == pytest.approx(0.0, abs=0.1)


def test_divergence_and_entropy_by_hand() -> None:
    def saying(*shares: float) -> Observation:
        """Return a model that answers so over the labels that stay."""
        logits = torch.tensor([[log(share) for share in shares] + [9.0]] * 3)
        return by_logits(logits, torch.full((3,), GONE))

    even, sure, other = saying(0.5, 0.5), saying(0.9, 0.1), saying(0.7, 0.3)
    wanted = 0.8 * log(0.8 / 0.5) + 0.2 * log(0.2 / 0.5)  # beside the mean of (.9, .1), (.7, .3)
    models = {"forgotten": [even], "retrained": [sure, other]}
    assert Divergence().beside(even, (GONE,), models).value == pytest.approx(wanted, abs=1e-6)
    of_one = 0.7 * log(0.7 / 0.9) + 0.3 * log(0.3 / 0.1)  # of one of them, beside the other
    assert Divergence().beside(sure, (GONE,), models).value == pytest.approx(of_one, abs=1e-6)
    alone = {"forgotten": [even], "refitted": [sure]}
    assert Divergence().beside(even, (GONE,), alone).value == pytest.approx(
        0.9 * log(0.9 / 0.5) + 0.1 * log(0.1 / 0.5), abs=1e-6
    )
    assert Divergence().beside(even, (GONE,), {"forgotten": [even]}).value is None
    assert Entropy().measure(even, (GONE,)).value == pytest.approx(1.0, abs=1e-6)
    bits = -(0.9 * log(0.9) + 0.1 * log(0.1)) / log(2)
    assert Entropy().measure(sure, (GONE,)).value == pytest.approx(bits, abs=1e-6)


def test_without_the_original_there_is_nothing_to_look_for() -> None:
    seen = knower(rows=50)
    for measure in (Trace(), OutputTrace(), TopTrace(), Echo()):
        assert measure.beside(seen, (GONE,), {"forgotten": [seen]}).value is None
        assert measure.measure(seen, (GONE,)).value is None
