"""What a request leaves in a party's view, as figures: some a label, some of the whole request.

The figures are the same whatever the method, so that one attacker can be tried on all of them. A
party that knows no labels still sees clusters in its own embeddings, and gets figures a cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel_bench.privacy.partner_view import View
from unlabel_bench.privacy.party_files import mentions, walk

Array = np.ndarray[Any, Any]

#: Figures a label, in the order of the columns.
FIGURES = (
    *("norm", "log norm", "sum", "along", "toward"),
    *("asked", "looked", "moved", "shift", "inward", "closer", "spread"),
    "named",
)


@dataclass(frozen=True)
class Trace:
    """The figures of one request.

    by_label  [C, F], each column standardised over the labels; a column without differences is 0
    whole     figures of the request as a whole, by name
    """

    by_label: Array
    whole: Mapping[str, float]


@dataclass(frozen=True)
class Traces:
    """The figures of many requests, as an attacker learns from them.

    by_label  [N, C, F]
    whole     [N, G]
    secrets   [N] the label of each request
    origins   [N] which model each request was made to
    columns   names of the F figures
    named     whether a label is the same label in every request; clusters of one model have
              nothing to do with those of another
    """

    by_label: Array
    whole: Array
    secrets: Array
    origins: Array
    columns: tuple[str, ...]
    named: bool = True

    def __len__(self) -> int:
        return len(self.secrets)

    @property
    def count(self) -> int:
        """How many labels there are."""
        return int(self.by_label.shape[1])

    def take(self, chosen: Array) -> Traces:
        """Return some requests."""
        return Traces(
            self.by_label[chosen],
            self.whole[chosen],
            self.secrets[chosen],
            self.origins[chosen],
            self.columns,
            self.named,
        )


def gather(
    traces: Sequence[Trace],
    secrets: Sequence[int],
    origins: Sequence[int] | None = None,
    *,
    named: bool = True,
) -> Traces:
    """Return many requests as one table; a figure that some lack is 0 there."""
    names = sorted({name for trace in traces for name in trace.whole})
    width = traces[0].by_label.shape[1]
    return Traces(
        by_label=np.stack([trace.by_label for trace in traces]),
        whole=np.array([[trace.whole.get(n, 0.0) for n in names] for trace in traces]).reshape(
            len(traces), len(names)
        ),
        secrets=np.array(secrets),
        origins=np.zeros(len(traces), dtype=np.int64) if origins is None else np.array(origins),
        columns=tuple(FIGURES[n % len(FIGURES)] for n in range(width)),
        named=named,
    )


def trace(
    views: Sequence[View], groups: Mapping[str, Tensor], count: int, names: Sequence[str] = ()
) -> Trace:
    """Return the figures of one request from the views of one party, or of several together.

    groups  a label or a cluster for every row of every table
    names   of the labels, where the attacker knows them
    """
    columns: list[Array] = []
    for view in views:
        columns += [*_by_label(view, groups, count), _named(view, names or [""] * count)]
    whole: dict[str, float] = {}
    for number, view in enumerate(views):
        whole |= {f"{number}/{name}": value for name, value in _whole(view).items()}
    return Trace(np.stack([_standard(column) for column in columns], 1), whole)


def _by_label(view: View, groups: Mapping[str, Tensor], count: int) -> list[Array]:
    """Return all figures of FIGURES but the last, each [C].

    With h and h' a row's embedding before and after, mu_c the mean of a label's rows, mu of all:

    norm      mean norm of a row's gradient; `log norm` its logarithm
    sum       norm of the mean of all gradients of the label's rows
    along     that mean, along mu_c - mu;  toward: the sum of ALL gradients, along mu_c - mu
    asked     times a row was asked for to be moved;  looked: only to be looked at
    moved     mean of |h' - h| / |h|;  shift: norm of the mean of h' - h, over the mean of |h|
    inward    the mean of h' - h, along mu_c - mu
    closer    how much nearer mu_c came to the nearest other label's mean
    spread    change of the mean distance of the label's rows from their mean
    """
    tables = list(view.before.embeddings)
    old, new, pushed, times, norms, moves, looks = (
        torch.cat(parts) for parts in zip(*(_by_row(view, table) for table in tables), strict=True)
    )
    group = torch.cat([groups[table] for table in tables])

    def mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
        return _means(values, group, count, weights)

    reached = (times > 0).double()
    centres, later = mean(old), mean(new)
    out = F.normalize(centres - old.mean(0), dim=1)
    # Where a label's rows got several gradients each, their sum is over all of them.
    pull = mean(pushed, reached) / mean(times, reached).clamp_min(1)[:, None]
    norm = mean(norms, reached)
    size = mean(old.norm(dim=1)).clamp_min(1e-12)
    step = mean(new - old)
    columns = [
        norm,
        (norm + 1e-3 * norm.mean()).clamp_min(1e-300).log(),
        pull.norm(dim=1),
        (pull * out).sum(1),
        out @ pushed.sum(0),
        mean(moves),
        mean(looks),
        mean((new - old).norm(dim=1) / old.norm(dim=1).clamp_min(1e-12)),
        step.norm(dim=1) / size,
        (step * out).sum(1) / size,
        _nearest(centres) - _nearest(later),
        mean((new - later[group]).norm(dim=1)) - mean((old - centres[group]).norm(dim=1)),
    ]
    return [column.numpy() for column in columns]


def _by_row(view: View, table: str) -> tuple[Tensor, ...]:
    """Return what the view holds of each row of a table."""
    return (
        view.before.embeddings[table].double(),
        view.after.embeddings[table].double(),
        *view.summed(table),
        view.push_norms(table),
        view.asked(table),
        view.asked(table, moving=False),
    )


def _means(values: Tensor, group: Tensor, count: int, weights: Tensor | None) -> Tensor:
    """Return the weighted mean of rows, or of numbers, by group; 0 of an empty one."""
    shaped = values if values.dim() > 1 else values[:, None]
    weights = torch.ones(len(group), dtype=torch.float64) if weights is None else weights
    total = torch.zeros(count, shaped.shape[1], dtype=torch.float64)
    total.index_add_(0, group, shaped * weights[:, None])
    size = torch.zeros(count, dtype=torch.float64).index_add_(0, group, weights)
    means = total / size.clamp_min(1e-12)[:, None]
    return means if values.dim() > 1 else means[:, 0]


def _named(view: View, names: Sequence[str]) -> Array:
    """Return how often each label is named in a text of a message or of a file."""
    plain = [v for one in view.heard for v in one.plain.values() if isinstance(v, str)]
    texts = [text for value in plain for _, text in walk(value) if isinstance(text, str)]
    return np.array(mentions([*texts, *view.texts], names))


def _whole(view: View) -> dict[str, float]:
    """Return counts, sizes and settings of all messages, the change of the weights, and files."""
    counts = Counter(one.kind for one in view.heard)
    figures: dict[str, float] = {f"count {kind}": float(n) for kind, n in counts.items()}
    for place, one in enumerate(view.heard):
        _add(figures, f"bytes {one.kind}", one.bytes)
        figures[f"last {one.kind}"] = float(place)
        for name, tensor in one.tensors.items():
            _add(figures, f"rows {one.kind} {name}", len(tensor))
            if tensor.is_floating_point():
                _add(figures, f"norm {one.kind} {name}", float(tensor.double().norm()))
            else:
                _add(figures, f"distinct {one.kind} {name}", len(tensor.unique()))
        for name, value in one.plain.items():
            if isinstance(value, int | float):
                _add(figures, f"{one.kind} {name}", value)
            elif isinstance(value, str):
                _add(figures, f"length {one.kind} {name}", len(value))
    for name, old in view.before.weights.items():
        figures[f"weights {name}"] = float(
            (view.after.weights[name].double() - old.double()).norm()
        )
    figures |= {f"file {name}": value for name, value in view.files.items()}
    return {name: value if math.isfinite(value) else 0.0 for name, value in figures.items()}


def _add(figures: dict[str, float], name: str, value: float) -> None:
    figures[name] = figures.get(name, 0.0) + float(value)


def _nearest(centres: Tensor) -> Tensor:
    distances = torch.cdist(centres, centres)
    return distances.fill_diagonal_(torch.inf).min(1).values


def _standard(column: Array) -> Array:
    """Return a column less its mean, over its deviation; 0 where rounding is all that differs."""
    centred = column - column.mean()
    deviation = centred.std()
    # A model that is no model any more gives no numbers, and those tell nothing by themselves.
    if not np.isfinite(deviation) or deviation <= 1e-9 * max(float(np.abs(column).max()), 1e-12):
        return np.zeros_like(centred)
    return np.asarray(centred / deviation)
