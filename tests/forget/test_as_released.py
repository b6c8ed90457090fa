"""The control that follows the released code, against loops over samples in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from forget.one_piece import KEY, SEED, TRAIN, Kind, OnePiece, federation
from torch import Tensor
from unlabel_bench.methods.as_released import AsReleased

from unlabel.forget import ForgetSettings, plan
from unlabel.party import Stream


class Literal:
    """One process that does to a whole network what the released code does, loop by loop."""

    def __init__(self, net: OnePiece, method: AsReleased, labels: Sequence[int]) -> None:
        self.net, self.method, self.labels = net.train(), method, sorted(labels)
        self.top, *self.bottoms = (
            torch.optim.SGD(
                part.parameters(), method.lr, method.momentum, weight_decay=method.weight_decay
            )
            for part in (net.head, *net.bottoms)
        )

    def embed(self, x: Tensor) -> list[Tensor]:
        parts = x.split(self.net.widths, -1)
        return [bottom(part) for bottom, part in zip(self.net.bottoms, parts, strict=True)]

    def send(self, embeddings: list[Tensor], gradients: list[Tensor]) -> None:
        for optimiser, h, gradient in zip(self.bottoms, embeddings, gradients, strict=True):
            optimiser.zero_grad()
            (gradient * h).sum().backward()
            optimiser.step()

    def ascend(self, x: Tensor, y: list[int], draw: torch.Generator) -> None:
        embeddings = self.embed(x)
        self.top.zero_grad()
        mixed: list[list[Tensor]] = []
        kinds: list[int] = []
        for label in self.labels:
            ours = [i for i, each in enumerate(y) if each == label]
            for a, i in enumerate(ours):
                if len(self.labels) > 2 and len(ours) > 1:
                    mixed.append([h[i] for h in embeddings])
                    kinds.append(label)
                for j in ours[a + 1 :]:
                    for share in (0.25, 0.5, 0.75):
                        mixed.append([share * h[i] + (1 - share) * h[j] for h in embeddings])
                        kinds.append(label)
        back = kinds
        if len(self.labels) > 1:
            order = torch.randperm(len(kinds), generator=draw).tolist()
            mixed, kinds = [mixed[n] for n in order], [kinds[n] for n in order]
            back = [kinds[n] for n in order]
        received: list[list[Tensor]] = []
        for first in range(0, len(kinds), self.method.batch):
            some = slice(first, first + self.method.batch)
            leaves = [torch.stack(part).detach() for part in zip(*mixed[some], strict=True)]
            for leaf in leaves:
                leaf.requires_grad = True
            loss = -F.cross_entropy(self.net.head(torch.cat(leaves, 1)), torch.tensor(kinds[some]))
            loss.backward()
            self.top.step()
            received += [list(row) for row in zip(*[leaf.grad for leaf in leaves], strict=True)]
        gradients = [torch.zeros_like(h) for h in embeddings]
        for label in self.labels:
            ours = [i for i, each in enumerate(y) if each == label]
            rows = [row for row, each in zip(received, back, strict=True) if each == label]
            run = math.ceil(len(rows) / max(1, len(ours)))
            for a, i in enumerate(ours):
                for party, gradient in enumerate(gradients):
                    mine = [row[party] for row in rows[a * run : (a + 1) * run]]
                    if mine:
                        gradient[i] = torch.stack(mine).mean(0)
        self.send(embeddings, gradients)

    def recover(self, x: Tensor, y: list[int], draw: torch.Generator) -> None:
        embeddings = self.embed(x)
        leaves = [h.detach().clone() for h in embeddings]
        for label in sorted(set(y)):
            ours = [i for i, each in enumerate(y) if each == label]
            if len(ours) > 1:
                moved = torch.randperm(len(ours), generator=draw).tolist()
                shares = torch.rand(len(ours), 1, generator=draw)
                for i, other, share in zip(ours, moved, shares, strict=True):
                    for leaf, h in zip(leaves, embeddings, strict=True):
                        leaf[i] = (share * h[i] + (1 - share) * h[ours[other]]).detach()
        for leaf in leaves:
            leaf.requires_grad = True
        self.top.zero_grad()
        F.cross_entropy(self.net.head(torch.cat(leaves, 1)), torch.tensor(y)).backward()
        self.top.step()
        self.send(embeddings, [leaf.grad for leaf in leaves if leaf.grad is not None])


@pytest.mark.parametrize("kind", ["table", "image"])
@pytest.mark.parametrize(
    ("parties", "active_part", "forgotten"),
    [(2, False, (1,)), (1, True, (3,)), (3, False, (1, 4)), (2, False, (0, 1, 4))],
)
def test_it_does_what_the_released_loops_do(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    fed = federation(kind, parties, active_part)
    fed.train()
    method = AsReleased(lr=0.02, epochs=3, batch=4)
    settings = ForgetSettings(
        method=method, few_shot=6, retained=3, key=KEY, allow_collapse=True, measure_drift=False
    )
    samples = plan(fed, labels=list(forgotten), settings=settings).samples
    net = OnePiece(fed, kind)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, _ = net.scale(torch.arange(TRAIN))
    literal = Literal(net, method, forgotten)
    for epoch in range(method.epochs):
        draw = Stream(SEED, "as-released").generator(epoch)
        ends = (0, samples.forgotten, len(samples.labels))
        for first, last, step in zip(
            ends, ends[1:], (literal.ascend, literal.recover), strict=False
        ):
            order = first + torch.randperm(last - first, generator=draw)
            for some in [some for some in order.split(method.batch) if len(some) > 1]:
                step(x[samples.rows[some]], samples.labels[some].tolist(), draw)
    fed.forget(list(forgotten), settings=settings)
    net.expect_equal(fed, rtol=1e-4, atol=1e-5)
    # It is something that is compared: weights have moved, and the statistics have drifted.
    moved = {
        name for name, value in net.state_dict().items() if not torch.equal(value, before[name])
    }
    assert {"head.0.weight", "bottoms.0.1.running_mean"} <= moved


def test_at_rate_0_statistics_drift_and_nothing_else_moves() -> None:
    fed = federation("table", 2)
    fed.train()
    net = OnePiece(fed, "table")
    settings = ForgetSettings(method=AsReleased(lr=0.0, weight_decay=0.0), few_shot=6, key=KEY)
    outcome = fed.forget([1], settings=settings)
    assert outcome.result.control
    before = dict(net.state_dict())
    after = OnePiece(fed, "table").state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved
    assert all("running" in name or "num_batches" in name for name in moved)
