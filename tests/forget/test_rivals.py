"""Rival methods, as we read their papers, against one piece of plain autograd and cases by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from cli.command_line import one_thread
from forget.one_piece import Kind, descend, orders
from forget.test_baselines import Reference, every_setting, forget, one_label_and_two
from torch import Tensor, nn
from unlabel_bench.methods.collapse import Collapse, contrast
from unlabel_bench.methods.tilt import Tilt, similarity

from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here


def drawn_together(z: Tensor, labels: list[int], tau: float) -> Tensor:
    """Return the loss of `collapse`, pair by pair."""
    unit = z / z.norm(dim=1, keepdim=True)
    rows = range(len(labels))
    losses = []
    for i in rows:
        near = {k: (unit[i] @ unit[k] / tau).exp() for k in rows if k != i}
        total = torch.stack(list(near.values())).sum()
        same = [(near[k] / total).log() for k in near if labels[k] == labels[i]]
        losses.append(-torch.stack(same).mean() if same else z.sum() * 0)
    return torch.stack(losses).mean()


@every_setting
@one_label_and_two
def test_collapse_draws_labels_together_in_the_bottoms_and_then_trains_all(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    at.net.train()
    head = {name: value.clone() for name, value in at.net.head.state_dict().items()}
    weights = at.net.bottoms.parameters()
    optimiser = torch.optim.SGD(weights, lr=0.02, momentum=0.9, weight_decay=5e-4)
    for batch in orders(at.kept, 16, epochs=2):
        pairs = zip(at.net.bottoms, at.x[batch].split(at.net.widths, -1), strict=True)
        z = torch.cat([bottom(part) for bottom, part in pairs], 1)
        descend(optimiser, drawn_together(z, at.y[batch].tolist(), 0.3))
    for name, value in at.net.head.state_dict().items():
        assert torch.equal(value, head[name])  # the first phase is about features alone
    optimiser = at.sgd(0.01, 0.9, 5e-4)
    for batch in orders(at.kept, 16, first=2):
        descend(optimiser, at.loss(batch))
    at.forget(Collapse(collapse_epochs=2, collapse_lr=0.02, temperature=0.3, epochs=1, lr=0.01))
    at.net.expect_equal(at.fed, rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_row_a_label_has_nothing_to_draw_together() -> None:
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert contrast(z, torch.tensor([0, 1]), 0.1).item() == 0


@every_setting
@one_label_and_two
def test_tilt_gives_each_row_to_the_labels_that_resemble_its_own(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    beta, heat = 4.0, 0.5
    stay = [n for n in range(5) if n not in forgotten]
    assert isinstance(at.net.head, nn.Sequential)
    last = at.net.head[-1]
    assert isinstance(last, nn.Linear)
    w = last.weight.detach()
    w = w - w.mean(0)
    target = F.one_hot(at.y, 5).float()
    with torch.no_grad():
        p = at.net.eval()(at.x).softmax(1)
    for row in at.rows.tolist():
        label = int(at.y[row])
        alike = [math.exp(F.cosine_similarity(w[s], w[label], 0).item() / heat) for s in stay]
        tilted = [
            p[row, s].item() * math.exp(beta * a / sum(alike))
            for s, a in zip(stay, alike, strict=True)
        ]
        target[row] = 0
        target[row, stay] = torch.tensor([each / sum(tilted) for each in tilted])
    at.net.train()
    optimiser = at.sgd(0.02, 0.9, 5e-4)
    for batch in orders(at.every, 16, epochs=2):
        log_p = at.net(at.x[batch]).log_softmax(1)
        # KL to a target has the gradient of the cross entropy with it.
        descend(optimiser, -(target[batch] * log_p).sum(1).mean())
    at.forget(Tilt(beta=beta, temperature=heat, epochs=2, lr=0.02))
    at.net.expect_equal(at.fed)


def test_similarity_on_one_component_is_that_of_the_sign_along_it() -> None:
    # Along the first axis the weights are 3, 1 and -4 about their mean; the second is small.
    weights = torch.tensor([[3.0, 0.1], [1.0, -0.1], [-4.0, 0.0]])
    table = similarity(weights, [1, 2], 1.0, 1)
    e = math.exp(2)  # cosines +1 and -1
    assert table[:, 0].tolist() == pytest.approx([0, e / (e + 1), 1 / (e + 1)])
    assert table[0].tolist() == [0, 0, 0]


def test_no_tilt_is_the_renormalised_output() -> None:
    at = Reference("table", 2, False, (2,))
    with torch.no_grad():
        q = at.masked(at.net.eval()(at.x))
    target = F.one_hot(at.y, 5).float()
    target[at.rows] = q[at.rows]
    at.net.train()
    optimiser = at.sgd(0.02, 0.9, 5e-4)
    for batch in orders(at.every, 16):
        descend(optimiser, -(target[batch] * at.net(at.x[batch]).log_softmax(1)).sum(1).mean())
    forget(at.fed, at.forgotten, Tilt(beta=0, epochs=1, lr=0.02))
    at.net.expect_equal(at.fed)


@pytest.mark.parametrize("kind", [Collapse, Tilt])
def test_a_temperature_of_nothing_is_refused(kind: type[Collapse] | type[Tilt]) -> None:
    with pytest.raises(SettingsError, match="temperature"):
        kind(temperature=0)
