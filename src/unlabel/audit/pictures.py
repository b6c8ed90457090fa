"""What the report draws, as plain data of bounded size; never more of a row than two numbers.

    labels       names of the labels, in the order of their numbers
    forgotten    numbers of the forgotten labels
    accuracy     model -> a line a label: [share, low, high, rows] of the test rows of that label,
                 null where it has none; a 95 % interval after Clopper and Pearson
    destination  model -> {shares, rows, entropy}: of the test rows of the forgotten labels the
                 share that is given each label, and the entropy of those shares in nats
    scores       {edges, models}: members (forgotten training rows) against strangers (test rows of
                 the same labels), by the score of an attack on membership; a model -> {members,
                 strangers}, each {counts, rows, quartiles}, with a count between two edges
    map          {explained, models}: test rows in two dimensions, [x, y, label] a row, in one basis
                 that the original and the forgotten model share

Every key but the first two is missing where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unlabel.audit.measures.accuracy import accuracy
from unlabel.audit.measures.likelihood import log_odds
from unlabel.audit.observation import Observation, ObservedRows

BINS = 30
#: Log-odds beyond this are all the same: certain to nine digits.
CERTAIN = 20.0
#: Rows on the map: of the forgotten labels, and of all others.
MAP_FORGOTTEN, MAP_OTHERS = 200, 400
#: The two models that are drawn on one map; a retrained one has directions of its own.
MAPPED = ("original", "forgotten")


def picture_data(
    models: Mapping[str, Observation], labels: Sequence[int], names: Sequence[str]
) -> dict[str, Any]:
    """Return the data of the report's pictures, whose keys stand at the head of this file.

    models  what was seen of each, by its name in `MODELS`
    labels  numbers of the forgotten labels
    names   of all labels
    """
    pictures: dict[str, Any] = {"labels": [str(name) for name in names], "forgotten": list(labels)}
    pictures["accuracy"] = {n: label_accuracy(m.test, len(names)) for n, m in models.items()}
    # Members are the forgotten training rows, strangers test rows that nobody could have learnt.
    pairs = {n: (m.train.of(labels), m.test.of(labels)) for n, m in models.items()}
    if all(len(strangers) for _, strangers in pairs.values()):
        pictures["destination"] = {n: destination(pair[1], len(names)) for n, pair in pairs.items()}
    scores = {
        name: {"members": certainty(members), "strangers": certainty(strangers)}
        for name, (members, strangers) in pairs.items()
        if len(members) and len(strangers)
    }
    if scores:
        pictures["scores"] = histograms(scores)
    if all(name in models for name in MAPPED):
        pictures["map"] = flat_map({name: models[name].test for name in MAPPED}, labels)
    return pictures


def label_accuracy(part: ObservedRows, count: int) -> list[list[Any] | None]:
    """Return [share, low, high, rows] a label: how many of its rows are called by it.

    >>> labels = torch.tensor([0, 0, 0, 0, 1])
    >>> part = ObservedRows(labels, torch.eye(3)[[0, 0, 0, 2, 1]], torch.zeros(5, 3), {})
    >>> [[round(x, 3) for x in line] if line else None for line in label_accuracy(part, 3)]
    [[0.75, 0.194, 0.994, 4], [1.0, 0.025, 1.0, 1], None]
    """
    figures = [accuracy(part.of([label]), "") for label in range(count)]
    return [
        None if f.value is None else [f.value, f.low, f.high, f.detail["rows"]] for f in figures
    ]


def destination(part: ObservedRows, count: int) -> dict[str, Any]:
    """Return where rows go: q_c, the share that is predicted as c, and H = -sum q_c ln q_c."""
    shares = torch.bincount(part.logits.argmax(1), minlength=count).double() / len(part)
    entropy = -torch.special.xlogy(shares, shares).sum()
    # Minus zero is zero, and reads as such.
    return {"shares": shares.tolist(), "rows": len(part), "entropy": max(0.0, float(entropy))}


def certainty(part: ObservedRows) -> Tensor:
    """Return ln p_y / (1 - p_y) a row, for its own label y: how sure the model is of it.

    It is what a likelihood-ratio attack looks at, taken before any output was muted, since who
    holds the weights lifts a mask; beyond +-20 it is cut off. Rows without a number are left out.
    """
    odds = log_odds(part.scores, part.labels)
    return odds[~odds.isnan()].clamp(-CERTAIN, CERTAIN)


def histograms(scores: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    """Return counts between edges that all models share, and the quartiles of each group."""
    every = torch.cat([values for groups in scores.values() for values in groups.values()])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 0.0)
    if low == high:  # one value everywhere still needs a width to stand in
        low, high = low - 0.5, high + 0.5
    edges = torch.linspace(low, high, BINS + 1, dtype=torch.float64)

    def group(values: Tensor) -> dict[str, Any]:
        # Each bin holds its lower edge, the last one its upper edge too.
        place = torch.bucketize(values, edges[1:-1], right=True)
        quartiles = values.quantile(torch.tensor([0.25, 0.5, 0.75]).double()).tolist()
        counts = torch.bincount(place, minlength=BINS).tolist()
        return {"counts": counts, "rows": len(values), "quartiles": _rounded(quartiles)}

    drawn = {
        model: {name: group(values) for name, values in groups.items()}
        for model, groups in scores.items()
        if all(len(values) for values in groups.values())
    }
    return {"edges": _rounded(edges.tolist()), "models": drawn}


def flat_map(parts: Mapping[str, ObservedRows], labels: Sequence[int]) -> dict[str, Any]:
    """Return the same test rows of several models in the two directions they vary most in.

    X = embeddings of all parties side by side, the chosen rows of all models below each other,
    each column centred and divided by its deviation; X = U S V', and a row is drawn at its first
    two columns of X V. `explained` is (s_1^2 + s_2^2) / sum s^2.
    """
    first = next(iter(parts.values()))
    chosen = _some_rows(first.labels, labels)
    stacked = torch.cat([part.joined().double()[chosen] for part in parts.values()])
    spread = stacked.std(0, unbiased=False)
    ready = (stacked - stacked.mean(0)) / torch.where(spread > 0, spread, 1.0)
    _, strength, directions = torch.linalg.svd(ready, full_matrices=False)
    # The sign of a direction is arbitrary; its largest entry is made positive, so that the same
    # embeddings give the same picture on every machine.
    peak = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    flat = ready @ (directions * peak.sign())[:2].T
    flat = torch.nn.functional.pad(flat, (0, 2 - flat.shape[1]))
    total = float((strength**2).sum())
    explained = float((strength[:2] ** 2).sum()) / total if total > 0 else 0.0
    kinds = first.labels[chosen].tolist()
    drawn = {
        model: [[*_rounded(place), kind] for place, kind in zip(places, kinds, strict=True)]
        for model, places in zip(parts, flat.reshape(len(parts), -1, 2).tolist(), strict=True)
    }
    return {"explained": explained, "models": drawn}


def _some_rows(kinds: Tensor, labels: Sequence[int]) -> Tensor:
    """Return positions of rows, evenly from first to last: no draw, so always the same ones."""
    forgotten = torch.isin(kinds, torch.tensor(list(labels), dtype=kinds.dtype))

    def thin(mask: Tensor, most: int) -> Tensor:
        rows = mask.nonzero()[:, 0]
        if len(rows) <= most:
            return rows
        return rows[torch.linspace(0, len(rows) - 1, most).round().long()]

    few, many = thin(forgotten, MAP_FORGOTTEN), thin(~forgotten, MAP_OTHERS)
    return torch.cat([few, many]).sort().values


def _rounded(numbers: Sequence[float]) -> list[float]:
    return [round(number, 3) for number in numbers]
