"""What the paper's theory says of few-shot gradients, in numbers: its bound and its coefficient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.forget.mixing import mixer, pairs_among

EPSILONS = (0.1, 0.2, 0.5)
KINDS = ("unmixed", "mixed")

Figures = list[dict[str, Any]]
#: By model, kind and n: a list of cosines for each seed and label.
Cosines = dict[tuple[str, str, int], list[list[float]]]


def cosine(one: Tensor, other: Tensor) -> float:
    """Return one . other / (|one| |other|), and 0 where one of them points nowhere."""
    lengths = one.norm() * other.norm()
    return float(one @ other / lengths) if lengths > 0 else 0.0


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Return mean, spread and shares of a list of cosines."""
    array = np.array(values)
    return {
        "draws": len(values),
        "mean": float(array.mean()),
        "quantile_5": float(np.quantile(array, 0.05)),
        "share_at_most_0": float((array <= 0).mean()),
        "share_at_most": {str(eps): float((array <= 1 - eps).mean()) for eps in EPSILONS},
    }


def largest_c(share: float, n: int, epsilon: float) -> float | None:
    """Return the largest c with share <= exp(-c n eps^2); None where any c will do.

    >>> round(largest_c(math.exp(-2), 10, 0.2), 6)
    5.0
    >>> largest_c(1.0, 10, 0.2), largest_c(0.0, 10, 0.2)
    (0.0, None)
    """
    return None if share == 0 else max(0.0, -math.log(share)) / (n * epsilon**2)


def limits(share: float, draws: int) -> tuple[float, float]:
    """Return Wilson's lower and upper limit (95 % each) of a share of draws.

    >>> [round(limit, 3) for limit in limits(0.5, 100)]
    [0.419, 0.581]
    """
    z = 1.645
    middle = share + z * z / (2 * draws)
    half = z * math.sqrt(share * (1 - share) / draws + z * z / (4 * draws * draws))
    return (middle - half) / (1 + z * z / draws), (middle + half) / (1 + z * z / draws)


def fit(shares: Mapping[int, float], draws: int, epsilon: float) -> dict[str, Any]:
    """Return the largest c at each n, and the n where it has shrunk or grown by more than chance.

    `c` is the smallest of them, which holds at every n that was measured. The bound claims more:
    that c does not shrink as n grows. Where it has grown, the bound holds but is too weak. With
    five n of 50 draws each, chance makes 2 to 9 % of true bounds look shrunk.
    """
    fitted = {n: largest_c(share, n, epsilon) for n, share in shares.items()}
    ranges = {}
    for n, share in shares.items():
        low, high = limits(share, draws)
        least, most = largest_c(high, n, epsilon), largest_c(low, n, epsilon)
        ranges[n] = (least or 0.0, math.inf if most is None else most)
    before = {n: [ranges[m] for m in shares if m < n] for n in shares}
    shrunk = [n for n in shares if any(least > ranges[n][1] for least, _ in before[n])]
    return {
        "c_at": {str(n): c for n, c in fitted.items()},
        "c": min((c for c in fitted.values() if c is not None), default=None),
        "broken_at": shrunk,
        "grown_at": [n for n in shares if any(most < ranges[n][0] for _, most in before[n])],
        "one_c": not shrunk,
    }


def bound(cosines: Cosines, model: str, kind: str, epsilon: float) -> dict[str, Any]:
    """Return what fits all draws together, and for how many seeds and labels one c holds."""
    lists_of = {n: lists for (m, k, n), lists in cosines.items() if (m, k) == (model, kind)}
    shares = {
        n: [mean(value <= 1 - epsilon for value in values) for values in lists]
        for n, lists in lists_of.items()
    }
    sizes = next(iter(lists_of.values()))
    together = {n: mean(each) for n, each in shares.items()}
    alone = [
        fit({n: each[run] for n, each in shares.items()}, len(values), epsilon)
        for run, values in enumerate(sizes)
    ]
    return {
        "model": model,
        "kind": kind,
        "epsilon": epsilon,
        "shares": {str(n): share for n, share in together.items()},
        **fit(together, sum(map(len, sizes)), epsilon),
        "runs": len(alone),
        "runs_without_one_c": sum(not each["one_c"] for each in alone),
    }


def coefficients(lambdas: Sequence[float]) -> dict[str, float]:
    """Return a and b by our algebra and as in the paper; see the top of this file.

    >>> coefficients((0.25, 0.5))
    {'main': 0.5625, 'cross': 0.4375, 'paper_main': 0.3125, 'paper_cross': 0.4375}
    """
    square = mean(x * x for x in lambdas)
    return {
        "main": mean(x * x + (1 - x) ** 2 for x in lambdas),
        "cross": mean(2 * x * (1 - x) for x in lambdas),
        "paper_main": 2 * square,
        "paper_cross": 2 * (mean(lambdas) - square),
    }


def linear_network(
    lambdas: Sequence[float], *, label: int = 0, samples: int = 20, hidden: int = 10
) -> dict[str, Any]:
    """Measure a and b on a linear two-layer network fitted to digits by least squares.

    The mixed gradient, by autograd over all ordered pairs of samples of the label, is regressed on
    the unmixed gradient and the cross term together, and on the unmixed gradient alone.
    """
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    x = F.pad(torch.from_numpy(images) / 16, (0, 1), value=1.0)
    y = F.one_hot(torch.from_numpy(digits)).double()
    # Least squares in its smallest norm, cut into two layers of equal size.
    left, sizes, right = torch.linalg.svd((torch.linalg.pinv(x) @ y).T, full_matrices=False)
    roots = sizes[:hidden].sqrt()
    first = (roots[:, None] * right[:hidden]).requires_grad_()
    second = (left[:, :hidden] * roots).requires_grad_()
    some = (torch.from_numpy(digits) == label).nonzero()[:samples, 0]
    x, y = x[some], y[some]

    def gradient(matrix: Tensor, often: Tensor) -> list[Tensor]:
        mixed = second @ first @ (matrix @ x).T - (matrix @ y).T
        loss = 0.5 * (mixed.square().sum(0) * often / often.sum()).sum()
        return list(torch.autograd.grad(loss, [second, first]))

    matrix, often = mixer(pairs_among(len(x)), lambdas, len(x))
    mixed = gradient(matrix.double(), often.double())
    plain = gradient(torch.eye(len(x), dtype=x.dtype), torch.ones(len(x), dtype=x.dtype))
    with torch.no_grad():
        e = (second @ first @ x.T).T - y
        cross = [
            torch.outer(e.mean(0), (x @ first.T).mean(0)),
            torch.outer(second.T @ e.mean(0), x.mean(0)),
        ]
    figures: dict[str, Any] = {"lambdas": list(lambdas), "label": label, "samples": samples}
    figures |= coefficients(lambdas)
    for name, m, g, k in zip(("second", "first"), mixed, plain, cross, strict=True):
        both = torch.stack([g.reshape(-1), k.reshape(-1)], 1)
        a, b = torch.linalg.lstsq(both, m.reshape(-1, 1)).solution[:, 0].tolist()
        figures[name] = {
            "main": a,
            "cross": b,
            "slope_on_main_alone": float((m * g).sum() / g.square().sum()),
            "cross_to_main": float(k.norm() / g.norm()),
            "cross_main_cosine": cosine(k.reshape(-1), g.reshape(-1)),
        }
    return figures
