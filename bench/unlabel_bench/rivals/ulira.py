"""U-LiRA: can an attacker with shadow models tell an unlearned model from a retrained one?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlabel.audit.figures import Figure
from unlabel.audit.intervals import Array
from unlabel.audit.observation import Observation

#: Rows whose confidence is kept of each model.
ROWS = 100
#: The least deviation of a Gaussian, in units of log-odds.
LEAST = 1e-3


def confidences(observed: Observation, labels: tuple[int, ...]) -> list[float]:
    """Return log p / (1 - p) of the label that each forgotten training row gets of those that stay.

    Probabilities are renormalised over the labels that stay: the forgotten one may have no output.
    """
    stay = [n for n in range(len(observed.names)) if n not in labels]
    logits = observed.train.of(labels).logits[:ROWS, stay].double()
    best, place = logits.max(1, keepdim=True)
    others = logits.scatter(1, place, -np.inf).logsumexp(1)
    return [round(value, 4) for value in (best[:, 0] - others).tolist()]


def u_lira(unlearned: Sequence[Sequence[float]], retrained: Sequence[Sequence[float]]) -> Figure:
    """Return how often models are told apart, row by row, by a likelihood ratio.

    unlearned, retrained  confidences [models, rows] of the same rows, in the order of the models

    After Hayes et al. (2024), for whole labels. Every model in turn is the target, and all others
    are shadows. Of row i the shadows' confidences are N(m_u, s_u^2) where unlearned and
    N(m_r, s_r^2) where retrained, with means of that row and one deviation for all rows, since
    there are few shadows; the target is called unlearned where

        log N(c_i; m_u, s_u^2) > log N(c_i; m_r, s_r^2).

    value = (P(called unlearned | unlearned) + P(called retrained | retrained)) / 2, 0.5 where the
    attack cannot tell. The interval is mean -+ 2 standard errors over targets, whose rows are not
    independent of each other.
    """
    sides = [np.asarray(side, dtype=float) for side in (unlearned, retrained)]
    if min(len(side) for side in sides) < 3 or sides[0].shape[1:] != sides[1].shape[1:]:
        return Figure(None, note="It needs three models of either kind, seen on the same rows.")
    if not sides[0].shape[1]:
        return Figure(None, note="There are no training rows of the forgotten labels.")
    right = [
        [_called(sides, kind, number) for number in range(len(side))]
        for kind, side in enumerate(sides)
    ]
    value = float(np.mean([np.mean(kind) for kind in right]))
    error = float(np.sqrt(sum(np.var(kind, ddof=1) / len(kind) for kind in right))) / 2
    detail = {"unlearned": right[0], "retrained": right[1], "rows": sides[0].shape[1]}
    return Figure(value, max(0.0, value - 2 * error), min(1.0, value + 2 * error), detail)


def _called(sides: Sequence[Array], kind: int, target: int) -> float:
    """Return the share of rows on which a target is called what it is; a tie counts half."""
    shadows = [
        np.delete(side, target, 0) if number == kind else side for number, side in enumerate(sides)
    ]
    scores = [_log_density(sides[kind][target], side) for side in shadows]
    lead = scores[kind] - scores[1 - kind]
    return float(np.mean((lead > 0) + 0.5 * (lead == 0)))


def _log_density(values: Array, shadows: Array) -> Array:
    means = shadows.mean(0)
    deviation = max(
        LEAST, float(np.sqrt(((shadows - means) ** 2).sum(0).mean() / (len(shadows) - 1)))
    )
    density: Array = -((values - means) ** 2) / (2 * deviation**2) - np.log(deviation)
    return density
