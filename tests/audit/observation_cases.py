"""Models built on purpose, as an audit sees them: one that knows a label, one that never did."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from unlabel.audit import Observation, ObservedRows

NAMES = tuple("abcde")
WIDTH = 6
#: The label that is to be forgotten in these cases.
GONE = 2


def by_logits(logits: Tensor, labels: Tensor, train: ObservedRows | None = None) -> Observation:
    """Return a model of which only what it says of test rows is known."""
    test = ObservedRows(labels, logits, logits, {"p": torch.zeros(len(labels), 1)})
    names = tuple(str(n) for n in range(logits.shape[1]))
    return Observation(test if train is None else train, test, names)


def part(rows: int, seed: int, *, knows: bool, top: Tensor, parties: int = 2) -> ObservedRows:
    """Return rows of five labels; each party sees the label through a centre of its own.

    Where the label is not known, its rows lie on the centres of the other labels.
    """
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % len(NAMES)
    shown = labels
    if not knows:
        others = torch.tensor([n for n in range(len(NAMES)) if n != GONE])
        shown = torch.where(labels == GONE, others[torch.arange(rows) // 5 % 4], labels)
    embeddings = {}
    for party in range(parties):
        centres = 3 * torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(100 + party))
        noise = torch.randn(rows, WIDTH, generator=random)
        embeddings[f"party-{party}"] = centres[shown] + 0.5 * noise
    joined = torch.cat(list(embeddings.values()), 1)
    scores = torch.cat([joined, torch.ones(rows, 1)], 1) @ top
    return ObservedRows(labels, scores, scores, embeddings)


def top_of(rows: int, *, knows: bool) -> Tensor:
    """Return a linear top fitted by least squares: with all labels, or without the forgotten one.

    A model that never saw the label has an output for it that is low for every row.
    """
    blank = part(rows, 0, knows=True, top=torch.zeros(2 * WIDTH + 1, 5))
    x = torch.cat([blank.joined(), torch.ones(rows, 1)], 1)
    y = 10 * torch.nn.functional.one_hot(blank.labels, 5).float()
    kept = torch.ones(rows, dtype=torch.bool) if knows else blank.labels != GONE
    weights: Tensor = torch.linalg.lstsq(x[kept], y[kept]).solution
    if not knows:
        weights[:, GONE] = 0
        weights[-1, GONE] = -10
    return weights


def knower(seed: int = 0, rows: int = 400) -> Observation:
    """Return a model that knows every label, in the top and in every party's embeddings."""
    top = top_of(rows, knows=True)
    sides = [part(rows, 2 * seed + n, knows=True, top=top) for n in range(2)]
    return Observation(sides[0], sides[1], NAMES)


def stranger(seed: int = 0, rows: int = 400) -> Observation:
    """Return a model that never saw the label: its rows look like those of others."""
    top = top_of(rows, knows=False)
    sides = [part(rows, 1000 + 2 * seed + n, knows=False, top=top) for n in range(2)]
    return Observation(sides[0], sides[1], NAMES)


def refitted(seen: Observation, number: int) -> Observation:
    """Return a linear top of the same embeddings, fitted to some rows of the labels that stay."""
    random = torch.Generator().manual_seed(number)
    rows = torch.nonzero(seen.train.labels != GONE).flatten()
    rows = rows[torch.randperm(len(rows), generator=random)[: 3 * len(rows) // 4]]

    def with_constant(part: ObservedRows) -> Tensor:
        return torch.cat([part.joined(), torch.ones(len(part), 1)], 1)

    y = 10 * torch.nn.functional.one_hot(seen.train.labels[rows], len(NAMES)).float()
    top = torch.linalg.lstsq(with_constant(seen.train)[rows], y).solution
    top[:, GONE] = 0
    top[-1, GONE] = -10

    def answers(part: ObservedRows) -> ObservedRows:
        scores = with_constant(part) @ top
        return replace(part, logits=scores, scores=scores)

    return replace(seen, train=answers(seen.train), test=answers(seen.test))


def shuffled(seen: Observation, seed: int) -> Observation:
    """Return the same model with its rows in another order."""
    random = torch.Generator().manual_seed(seed)

    def mix(rows: ObservedRows) -> ObservedRows:
        return rows.take(torch.randperm(len(rows), generator=random))

    return replace(seen, train=mix(seen.train), test=mix(seen.test))


def shifted(seen: Observation, by: float) -> Observation:
    """Return the same model with a constant added to all logits of a row."""

    def move(rows: ObservedRows) -> ObservedRows:
        constant = by * torch.sin(torch.arange(len(rows)).float())[:, None]
        return replace(rows, logits=rows.logits + constant, scores=rows.scores + constant)

    return replace(seen, train=move(seen.train), test=move(seen.test))
