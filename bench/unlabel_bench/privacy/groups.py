"""How a party tells its own rows apart: by the labels of a few it knows, or by clusters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from unlabel_bench.privacy.partner_view import View

#: Rows from which clusters are found, at most; the others go to the nearest.
MOST = 10_000
STARTS = 3


def groups_by_label(
    views: Sequence[View], known: Mapping[str, Tensor], count: int
) -> dict[str, Tensor]:
    """Return a label for every row of every table, from the labels of a few.

    A row goes to the label whose known rows have the nearest mean embedding, over all the views'
    parties together; a row whose label is known keeps it.

    known  labels of the rows of each table, -1 where the party does not know
    """
    tables = list(views[0].before.embeddings)
    joined = {table: _joined(views, table) for table in tables}
    rows = torch.cat([joined[table] for table in tables])
    labels = torch.cat([known[table] for table in tables])
    means = torch.stack([rows[labels == label].mean(0) for label in range(count)])
    # A label of which nothing is known has no mean, and attracts nothing.
    distances = torch.cdist(rows, means).nan_to_num(torch.inf)
    groups = torch.where(labels >= 0, labels, distances.argmin(1))
    return dict(zip(tables, groups.split([len(joined[t]) for t in tables]), strict=True))


def groups_by_cluster(views: Sequence[View], count: int, *, seed: int = 0) -> dict[str, Tensor]:
    """Return a cluster for every row of every table: k-means of the embeddings before."""
    from sklearn.cluster import KMeans

    tables = list(views[0].before.embeddings)
    joined = {table: _joined(views, table) for table in tables}
    rows = torch.cat(list(joined.values())).numpy()
    some = np.random.default_rng(seed).permutation(len(rows))[:MOST]
    means = KMeans(count, n_init=STARTS, random_state=seed).fit(rows[some])
    clusters = torch.from_numpy(means.predict(rows)).long()
    return dict(zip(tables, clusters.split([len(joined[t]) for t in tables]), strict=True))


def name_clusters(
    groups: Mapping[str, Tensor], truth: Mapping[str, Tensor], count: int
) -> dict[str, Tensor]:
    """Return clusters with the number of the label each stands for best, one to one.

    Only who judges an attack does this, to see whether the cluster it names is the right one.
    """
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((count, count), dtype=np.int64)
    for table, clusters in groups.items():
        np.add.at(together, (clusters.numpy(), truth[table].numpy()), 1)
    rows, columns = linear_sum_assignment(together, maximize=True)
    names = torch.zeros(count, dtype=torch.int64)
    names[torch.from_numpy(rows)] = torch.from_numpy(columns)
    return {table: names[clusters] for table, clusters in groups.items()}


def _joined(views: Sequence[View], table: str) -> Tensor:
    """Return the embeddings before of all parties side by side, each of unit mean square."""
    parts = [view.before.embeddings[table].double() for view in views]
    main = [view.before.embeddings["main"].double() for view in views]
    scales = [values.square().mean().sqrt().clamp_min(1e-12) for values in main]
    return torch.cat([part / scale for part, scale in zip(parts, scales, strict=True)], 1)
