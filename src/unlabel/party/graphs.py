"""CUDA graphs: a model's forward and backward pass replayed as one launch each.

A graph records the kernels of one pass for one shape of batch and replays them without Python,
where a small model on a fast GPU spends most of its time. The arithmetic is the same.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from unlabel.errors import SettingsError

#: Batches of one shape before a graph is recorded: recording costs as much as dozens of steps.
SIGHTS = 8


class Replay:
    """Runs a model's passes through graphs, for up to `shapes` shapes of batch it meets often.

    Batches of another shape, such as the last of an epoch, run without a graph.
    """

    def __init__(self, module: nn.Module, shapes: int = 1) -> None:
        self._module = module
        self._shapes = shapes
        self._graphs: dict[torch.Size, nn.Module] = {}
        self._met: Counter[torch.Size] = Counter()

    def __call__(self, x: Tensor) -> Tensor:
        """Return the model's output; autocast, if any, is the caller's."""
        if x.shape not in self._graphs and len(self._graphs) < self._shapes:
            self._met[x.shape] += 1
            if self._met[x.shape] > SIGHTS:
                self._graphs[x.shape] = self._capture(x)
        out: Tensor = self._graphs.get(x.shape, self._module)(x)
        return out

    def _capture(self, x: Tensor) -> nn.Module:
        # Capture runs on a stream of its own, and PyTorch would warn of that at every step.
        if hasattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch"):
            torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
        # Capture runs the model a few times; what that does to running statistics is undone.
        before = {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        call = nn.Sequential(self._module)  # capture changes its `forward`, not the model's
        with torch.random.fork_rng(devices=[x.device]):
            try:
                captured = torch.cuda.make_graphed_callables(call, (x.detach().clone(),))
            except RuntimeError as error:
                raise SettingsError(
                    f"This model cannot run as a CUDA graph ({str(error).splitlines()[0]}); "
                    f"set `graphs` to false."
                ) from error
        for name, buffer in self._module.named_buffers():
            buffer.data.copy_(before[name])
        return captured if isinstance(captured, nn.Module) else self._module
