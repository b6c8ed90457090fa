"""Residual knowledge: where a forgetter stands between the original and the retrained model."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from unlabel.audit.figures import Estimate, Figure
from unlabel.audit.intervals import CONFIDENCE

#: Standard errors by which original and retrained must differ for a ratio to mean anything.
ERRORS = 3.0
#: Standard errors on either side in a 95 % interval.
REACH = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def residual(probe: float, original: float, retrained: float) -> float | None:
    """Return residual knowledge: (probe - retrained) / (original - retrained).

    1 where the embeddings know the label as the original did, 0 where they know it as a model
    does that never saw it. None where original and retrained do not differ.

    >>> round(residual(0.9, 0.94, 0.82), 2)
    0.67
    """
    return None if original == retrained else (probe - retrained) / (original - retrained)


def standard_error(figure: Estimate) -> float | None:
    """Return half the width of a figure's interval in units of a normal one, None without one."""
    if figure.low is None or figure.high is None:
        return None
    return (figure.high - figure.low) / 2 / REACH


def residual_knowledge(
    forgotten: Estimate, original: Estimate, retrained: Sequence[Estimate]
) -> Figure:
    """Return `residual` of three figures, with its uncertainty.

    r = (f - t) / (o - t), with t the mean over retrained models. To first order

        var r = (var f + r^2 var o + (1 - r)^2 var t) / (o - t)^2,

    and var t is the larger of what the retrained models' spread and their own intervals give.
    Two-sided: below 0 less is known than to a model that never saw the label, which tells too.
    Undefined where |o - t| is below three standard errors of o - t.
    """
    whole = [f for f in (forgotten, original, *retrained) if f.value is not None]
    errors = [standard_error(f) for f in whole]
    known = [error for error in errors if error is not None]
    if not retrained or len(whole) < 2 + len(retrained) or len(known) < len(whole):
        return Figure(None, note="It needs a value with an interval of every model.")
    f, o, *ts = (float(figure.value or 0.0) for figure in whole)
    var_f, var_o, *var_ts = (error**2 for error in known)
    t, count = float(np.mean(ts)), len(ts)
    spread = float(np.var(ts, ddof=1)) / count if count > 1 else 0.0
    var_t = max(spread, sum(var_ts) / count**2)
    apart = (var_o + var_t) ** 0.5
    detail = {"original": o, "retrained": t, "forgotten": f}
    detail |= {"difference": o - t, "difference_error": apart}
    share = residual(f, o, t)
    if share is None or abs(o - t) < ERRORS * apart:
        note = (
            f"Undefined: original and retrained differ by {o - t:.3f}, less than three standard "
            f"errors of {apart:.3f}."
        )
        return Figure(None, detail=detail, note=note)
    error = (var_f + share**2 * var_o + (1 - share) ** 2 * var_t) ** 0.5 / abs(o - t)
    detail["error"] = error
    return Figure(share, share - REACH * error, share + REACH * error, detail)
