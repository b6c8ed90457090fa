"""How many nats of a secret a view gives away at least."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unlabel.audit.figures import Figure

#: Times that requests are drawn again.
DRAWS = 4000


def information_bound(log_beliefs: np.ndarray[Any, Any], count: int, *, seed: int = 0) -> Figure:
    """Return a lower bound on the mutual information of a secret and what is seen, in nats.

    For any q, learned from other requests, and a secret S that is equally likely one of C labels,

        I(S; view) >= H(S) + E log q(S | view),     H(S) = ln C

    with equality where q is the true posterior. The expectation is the mean over requests that q
    was not learned from; a bound below 0 says no more than 0 does.

    log_beliefs  log q(S | view) of each request
    low, high    a 95 % interval by drawing requests again; detail `limit` is the value that the
                 bound stays above with 95 % confidence, one-sided

    >>> round(information_bound(np.zeros(20), 10).value, 6) == round(math.log(10), 6)
    True
    """
    values = math.log(count) + np.asarray(log_beliefs, dtype=np.float64)
    random = np.random.default_rng(seed)
    drawn = values[random.integers(0, len(values), (DRAWS, len(values)))].mean(1)
    # Rounded, so that a blank belief gives 0 and not the rounding of ln C - ln C.
    low, limit, high = np.quantile(drawn, [0.025, 0.05, 0.975]).round(12).clip(0)
    return Figure(
        value=max(0.0, round(float(values.mean()), 12)),
        low=float(low),
        high=float(high),
        detail={"limit": float(limit), "requests": len(values), "most": math.log(count)},
    )
