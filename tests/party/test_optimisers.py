"""The optimisers of all parties: PyTorch's own steps, without what PyTorch wraps around them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn, optim

from unlabel.party.optimisers import SGD, Adam, AdamW

Kind = Callable[..., optim.Optimizer]

#: Both ways to train, then a request, an audit and a learner's return; tells who was imported.
PROGRAM = """
import sys
import numpy as np
import unlabel as ul
from unlabel.config import OptimiserSettings
from unlabel.party.learner import Learner, Place
from unlabel.party.randomness import Stream
import torch

x = np.random.default_rng(0).normal(size=(120, 4))
ids = [f"p{row}" for row in range(len(x))]
bank = {"id": ids, "y": np.where(x[:, 0] > 0.4, "a", np.where(x[:, 2] > 0, "b", "c"))}
tables = {"bank": bank | {"b": x[:, 1]}, "shop": {"id": ids, "s": x[:, 0], "t": x[:, 2]}}
for bottoms in ("blind", "supervised"):
    federation = ul.Federation.from_frames(tables, label="y", id="id", bottoms=bottoms)
    federation.train()
    federation.forget(labels=["a"])
    federation.audit()
for name in ("sgd", "adam"):
    settings = OptimiserSettings(optimiser=name)
    module, place = torch.nn.Linear(2, 2), Place(torch.device("cpu"))
    learner = Learner(module, settings, stream=Stream(0, "shop"), place=place)
    module(torch.ones(1, 2)).sum().backward()
    learner.descend(0)
    learner.load_state(learner.state())
    assert any(key.startswith("optimiser/") for key in learner.state())
print("torch._dynamo" in sys.modules)
"""


def test_no_process_waits_for_a_compiler_that_it_does_not_use() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "settings"),
    [
        (SGD, optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (Adam, optim.Adam, {"weight_decay": 0.01}),
        (AdamW, optim.AdamW, {"weight_decay": 0.01}),
    ],
)
def test_steps_are_those_of_pytorch_bit_for_bit(
    ours: Kind, theirs: Kind, settings: dict[str, float]
) -> None:
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(8, 5, generator=random) for _ in range(6)]
    ends, start = [], nn.Linear(5, 3).state_dict()
    for kind in (ours, theirs):
        module = nn.Linear(5, 3)
        module.load_state_dict(start)
        optimiser = kind(module.parameters(), lr=0.1, fused=True, **settings)
        for rows in inputs:
            optimiser.zero_grad()
            module(rows).square().sum().backward()
            optimiser.step()
        ends.append(module.state_dict())
    for name, values in ends[0].items():
        assert torch.equal(values, ends[1][name])
        assert not torch.equal(values, start[name])


def test_making_an_optimiser_leaves_its_step_as_it_is() -> None:
    steps = [kind.__dict__["step"] for kind in (SGD, Adam, AdamW)]
    for kind in (SGD, Adam, AdamW):
        kind([torch.zeros(1)], lr=0.1)
    assert [kind.__dict__["step"] for kind in (SGD, Adam, AdamW)] == steps
