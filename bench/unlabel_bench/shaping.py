"""Verbs for all parties that only methods of the bench need: synthetic inputs, Fisher sums."""

from __future__ import annotations

import torch
from torch import Tensor

from unlabel.errors import CheckpointError, ForgetError
from unlabel.forget.work import Objective, Work
from unlabel.wire import InputRule, SyntheticInputs


def make_inputs(
    work: Work,
    rows: Tensor | None = None,
    *,
    noise: int = 0,
    rule: InputRule,
    rate: float,
    decay: float = 0.0,
) -> Tensor:
    """Have every party make synthetic inputs; return their rows in table `synthetic`."""
    active = work.active
    rows = torch.empty(0, dtype=torch.int64) if rows is None else rows
    if active.bottom is not None:
        try:
            active.bottom.make_inputs(rows, noise, rule=rule, rate=rate, decay=decay)
        except CheckpointError as error:
            raise ForgetError(f"The active party can make no inputs: {error}") from error
    active.transport.ask(
        SyntheticInputs(0, work.request.id, rows, noise, rule, float(rate), float(decay))
    )
    first = len(active.labels)
    return torch.arange(first, first + (len(rows) or noise), device=active.device)


def move_inputs(work: Work, rows: Tensor, objective: Objective) -> None:
    """Move the synthetic inputs, and no weights, one step."""
    work.active.move_inputs(rows, work.next_step(), objective)


def accumulate_fisher(
    work: Work, rows: Tensor, objective: Objective, *, sum_name: str, weight: float = 1.0
) -> None:
    """Have all parties add up how much each of their weights matters to an objective."""
    work.active.accumulate_fisher(
        rows, work.next_step(), objective, sum_name=sum_name, weight=float(weight)
    )
