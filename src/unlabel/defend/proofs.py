"""From the defences a party applies to a bound, or to the sentence that says why there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unlabel.defend.accountant import Account, Release
from unlabel.defend.defence import Defence
from unlabel.defend.gaussian import Gaussian
from unlabel.defend.top_k import TopK
from unlabel.errors import SettingsError

REMEDY = "use gaussian with both `clip` and `sigma` above 0."


def account_of(
    defences: Sequence[Defence],
    *,
    rows: int,
    messages: int,
    colluders: int = 1,
    width: int | None = None,
) -> Account:
    """Return the bound for messages that went through defences, in this order.

    A row is bounded from a clip on (top-k leaves it so, since it only sets numbers to 0; rounding
    does not), and noise on a bounded row is a release; whatever follows is computed from that. Of
    several releases in a row each bounds what is sent, so the smallest bound holds.

    rows       of a message
    messages   to one party
    colluders  parties who share what they see
    width      numbers a row

    >>> from unlabel.defend.defence import read_defences
    >>> chain = read_defences(["gaussian:clip=1:sigma=8", "top-k:keep=0.5"], "gradients")
    >>> account_of(chain, rows=10, messages=4).information
    0.3125
    """
    bound, releases = math.inf, []
    for each in defences:
        clip, sigma = 0.0, 0.0
        if isinstance(each, Gaussian):
            clip, sigma = each.clip, each.sigma
        elif not isinstance(each, TopK):
            bound = math.inf
        bound = min(bound, clip) if clip else bound
        if sigma and math.isfinite(bound):
            releases.append(Release(rows, messages, bound, sigma, colluders, width))
        bound = math.inf if sigma else bound
    if not releases:
        raise SettingsError(f"There is no bound: {_why_not(defences)}; {REMEDY}")
    return Account.of(min(releases, key=lambda release: release.rho))


def _why_not(defences: Sequence[Defence]) -> str:
    """Return which part of a proof is missing."""
    gaussians = [each for each in defences if isinstance(each, Gaussian)]
    noisy = [number for number, each in enumerate(gaussians) if each.sigma]
    clipped = [number for number, each in enumerate(gaussians) if each.clip]
    if not defences:
        return "nothing is done to what is sent"
    if not gaussians:
        return "top-k and quantise hide numbers without a proof"
    if not noisy:
        return "rows are clipped but get no noise"
    if not clipped:
        return "the noise is added to rows that are not clipped"
    if clipped[0] > noisy[-1]:
        return "the rows are clipped after the noise was added, and must be before"
    return "rounding between clipping and noise lets rows grow"
