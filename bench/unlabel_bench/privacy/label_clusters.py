"""Do the gradients that a party receives fall into clusters, one a forgotten label?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel_bench.privacy.partner_view import View

#: Gradient rows that are clustered at most, drawn at random.
MOST = 5_000
STARTS = 3


def label_clusters(
    gradients: Tensor, labels: Tensor, count: int, *, normalised: bool, seed: int = 0
) -> float:
    """Return the share of gradient rows whose cluster stands for their label.

    k-means divides the rows into `count` clusters C_j, where with g_j the mean of C_j

        min over C_1 .. C_m of  sum over j of  sum over g in C_j of  |g - g_j|^2

    and clusters are then matched one to one with labels, as well as can be (Hungarian method). So
    one cluster for one label is right about every row: to be in the message is to have the label.
    With `normalised` every row is first divided by its length.

    >>> rows = torch.tensor([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [4.0, 0.0]])
    >>> label_clusters(rows, torch.tensor([7, 7, 2, 2]), 2, normalised=True)
    1.0
    """
    from sklearn.cluster import KMeans

    rows = gradients.double()
    if normalised:
        rows = F.normalize(rows, dim=1)
    known, truth = np.unique(labels.numpy(), return_inverse=True)
    count = min(count, len(rows))
    if count < 2:
        clusters = np.zeros(len(rows), dtype=np.int64)
    else:
        # Rows that are all alike make fewer clusters than asked for, which is no error here.
        distinct = min(count, len(np.unique(rows.numpy(), axis=0)))
        clusters = KMeans(distinct, n_init=STARTS, random_state=seed).fit_predict(rows.numpy())
    return matched(clusters, truth, len(known)) / len(rows)


def matched(clusters: np.ndarray[Any, Any], truth: np.ndarray[Any, Any], labels: int) -> int:
    """Return how many rows are right when clusters stand for labels, one to one."""
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((int(clusters.max()) + 1, labels), dtype=np.int64)
    np.add.at(together, (clusters, truth), 1)
    return int(together[linear_sum_assignment(together, maximize=True)].sum())


def cluster_leak(
    view: View, labels: Tensor, forgotten: Sequence[int], *, seed: int = 0
) -> dict[str, Any]:
    """Return what clusters of a request's gradients give away, None where none were sent.

    forgotten  of the gradient rows of forgotten labels, clustered by themselves
    all        of all gradient rows, with one more cluster for the others where there are any
    chance     of always saying the label that is most frequent, for each of the two
    Each is the better of raw and normalised rows.

    labels  true labels of the rows of the party's main table
    """
    pushes = [push for push in view.pushes() if push.table == "main"]
    none: dict[str, Any] = {"forgotten": None, "all": None}
    if not pushes:
        return {"rows": 0, **none}
    rows = torch.cat([push.rows for push in pushes])
    if not torch.isin(labels[rows], torch.tensor(list(forgotten))).any():
        # Rows are named by being left out, which is no matter of clusters.
        return {"rows": len(rows), **none}
    values = torch.cat([push.values for push in pushes]).float()
    if len(rows) > MOST:
        chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:MOST]
        rows, values = rows[chosen], values[chosen]
    truth = labels[rows].clone()
    others = ~torch.isin(truth, torch.tensor(list(forgotten)))
    truth[others] = -1
    shares_of: dict[str, Any] = {"rows": len(rows)}
    kinds = {"forgotten": ~others, "all": torch.ones_like(others)}
    for name, chosen in kinds.items():
        some = truth[chosen]
        if not len(some):  # too few among very many to be drawn
            shares_of[name] = None
            continue
        count = len(forgotten) + bool((some < 0).any())
        shares = [
            label_clusters(values[chosen], some, count, normalised=way, seed=seed)
            for way in (False, True)
        ]
        often = some.unique(return_counts=True)[1].max()
        shares_of[name] = {"share": max(shares), "chance": float(often) / len(some)}
    return shares_of
