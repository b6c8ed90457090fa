"""Objectives that train bottom models without labels, and the head that they are computed on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.errors import ModelError, SettingsError

#: Widths of a projection's hidden layer and of what it gives.
HIDDEN, WIDTH = 512, 128
#: Divides similarities: the lower, the more the nearest of the other rows count.
TEMPERATURE = 0.2


class Projection(nn.Sequential):
    """Two layers on embeddings, which an objective uses and which are then thrown away."""

    def __init__(self, width: int) -> None:
        super().__init__(
            nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH)
        )


def nt_xent(a: Tensor, b: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return how badly each row of one set [n, d] tells its partner in the other from the rest.

    With z_1 .. z_2n the rows of a and then of b, each divided by its norm, t the temperature and
    p(i) the partner of i, i + n or i - n (NT-Xent, Chen et al., 2020):

        L = -1 / 2n  sum over i of log( exp(z_i z_p(i) / t) / sum over k != i of exp(z_i z_k / t) )

    It is symmetric in a and b, and computed in float32 at least, also under autocast.

    >>> rows = torch.eye(2)
    >>> round(nt_xent(rows, rows, 1.0).item(), 4)  # log(1 + 2 / e)
    0.5514
    """
    if a.shape != b.shape:
        raise ModelError(
            f"Expected two sets of projections of one shape but got {list(a.shape)} and "
            f"{list(b.shape)}; give each row in both."
        )
    with torch.autocast(a.device.type, enabled=False):
        rows = torch.cat([a, b])
        rows = F.normalize(rows.to(torch.promote_types(rows.dtype, torch.float32)), dim=1)
        logits = (rows @ rows.T / temperature).fill_diagonal_(-torch.inf)
        partners = torch.arange(len(rows), device=a.device).roll(len(a))
        return F.cross_entropy(logits, partners)


def agreement(parts: Sequence[Tensor], temperature: float = TEMPERATURE) -> Tensor:
    """Return the mean of `nt_xent` over all pairs of parties, whose rows belong together by place.

    It pulls together what two parties know of one person (contrastive multiview coding, Tian et
    al., 2020).
    """
    if len(parts) < 2:
        raise SettingsError(
            f"Expected projections of at least two parties that can agree but got {len(parts)}; "
            f"add a party, or train on its own views alone."
        )
    pairs = [nt_xent(one, other, temperature) for one, other in combinations(parts, 2)]
    return torch.stack(pairs).mean()
