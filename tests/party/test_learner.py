"""A model and its optimiser, as a process begins with them."""

from __future__ import annotations

import subprocess
import sys

#: Makes, moves, keeps and restores learners, and prints whether that imported the compiler.
PROGRAM = """
import sys, torch
from unlabel.config import OptimiserSettings
from unlabel.party.learner import Learner, Place
from unlabel.party.randomness import Stream

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
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout == "False\n"
