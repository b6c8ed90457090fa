"""Top models, and how the parties' embeddings are joined before them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from unlabel.config import Combine
from unlabel.errors import ModelError, SettingsError, unknown, why
from unlabel.models.estimators import EstimatorHead
from unlabel.models.mlp import dense
from unlabel.models.registry import TOPS, build_top, predicting

#: What is added to the logit of a muted label.
MUTED = -10_000.0


@TOPS.register("linear")
def linear(inputs: int, labels: int) -> nn.Module:
    """Build one linear layer."""
    return nn.Linear(inputs, labels)


@TOPS.register("mlp")
def mlp(inputs: int, labels: int) -> nn.Module:
    """Build one hidden layer with dropout."""
    return dense(inputs, 512, labels, dropout=0.5)


@TOPS.register("fc3")
def fc3(inputs: int, labels: int) -> nn.Module:
    """Build three fully connected layers with dropout, as in VGG."""
    return dense(inputs, 512, 512, labels, dropout=0.5)


@TOPS.register("fc4")
def fc4(inputs: int, labels: int) -> nn.Module:
    """Build four fully connected layers, each narrower than the one before."""
    return dense(inputs, 256, 128, 64, labels)


class Top(nn.Module):
    """The active party's model: joins the embeddings H_1 .. H_K and gives the logits F(H).

    concat  H = [H_1 | ... | H_K]
    sum     H = H_1 + ... + H_K, for embeddings of one width

    A label that is muted gets a logit lowered by 10000, whatever the head says.
    """

    muted: Tensor

    def __init__(self, head: nn.Module, combine: Combine, labels: int) -> None:
        super().__init__()
        self.head = head
        self.combine = combine
        self.register_buffer("muted", torch.zeros(labels))

    @property
    def passes_gradients(self) -> bool:
        """Whether it is trained by gradients and passes them on, and not fitted to embeddings."""
        return not isinstance(self.head, EstimatorHead)

    def mute(self, labels: Sequence[int]) -> None:
        """Suppress the outputs of labels; it hides them and forgets nothing."""
        self.muted[list(labels)] = MUTED

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return the logits."""
        return self.unmuted(embeddings) + self.muted

    def unmuted(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return what the head says."""
        logits: Tensor = self.head(self.joined(embeddings))
        return logits

    def joined(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return what the head reads, H."""
        parts = list(embeddings)
        return torch.cat(parts, dim=1) if self.combine == "concat" else torch.stack(parts).sum(0)


def join_top(
    name: str,
    widths: Sequence[int],
    labels: int,
    combine: Combine = "concat",
    code: Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> Top:
    """Build the top model over embeddings of the given widths; see `build_top`.

    >>> join_top("linear", [4, 3], labels=2).head
    Linear(in_features=7, out_features=2, bias=True)
    """
    if combine not in get_args(Combine):
        raise SettingsError(unknown("way to combine embeddings", combine, get_args(Combine)))
    if combine == "sum" and len(set(widths)) > 1:
        raise ModelError(f"Embeddings of widths {list(widths)} cannot be summed; use 'concat'.")
    inputs = sum(widths) if combine == "concat" else widths[0]
    top = Top(build_top(name, inputs, labels, code, settings=settings), combine, labels)
    _check_logits(name, top, widths, labels)
    return top


def _check_logits(name: str, top: Top, widths: Sequence[int], labels: int) -> None:
    embeddings = [torch.zeros(2, width, requires_grad=True) for width in widths]
    fails = f"Top model '{name}' fails on embeddings of widths {list(widths)}"
    try:
        with torch.no_grad():
            # Adding what is muted would stretch logits of another shape.
            out: object = top.eval().unmuted(embeddings)
    except Exception as error:  # the user's code may raise anything
        raise ModelError(f"{fails} ({why(error)}).") from error
    finally:
        top.train()
    got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
    if got != [2, labels]:
        raise ModelError(
            f"Top model '{name}': expected logits of shape [2, {labels}] for 2 rows but got {got}."
        )
    if not top.passes_gradients:
        return
    try:
        copy.deepcopy(top).train()(embeddings).float().sum().backward()
    except Exception as error:
        raise ModelError(f"{fails} in a step of training ({why(error)}).") from error
    if any(part.grad is None for part in embeddings):
        raise ModelError(f"Top model '{name}' passes no gradients on to the embeddings.")


def last_layer(top: nn.Module, widths: Sequence[int]) -> nn.Linear | None:
    """Return the linear layer whose output the logits are; None where there is none.

    It is found by looking at what layers give for embeddings of these widths, since a model may
    name its layers in any order.
    """
    outputs: list[tuple[nn.Linear, Tensor]] = []
    hooks = [
        part.register_forward_hook(lambda layer, _, out: outputs.append((layer, out)))
        for part in top.modules()
        if isinstance(part, nn.Linear)
    ]
    like = next(chain(top.parameters(), top.buffers()))  # a fitted top has no parameters
    try:
        with predicting(top):
            logits = top([like.new_ones(2, width) for width in widths])
    finally:
        for hook in hooks:
            hook.remove()
    muted = top.muted if isinstance(top, Top) else torch.zeros_like(logits[0])
    for layer, out in reversed(outputs):
        if out.shape == logits.shape and torch.equal(out + muted, logits):
            return layer
    return None
