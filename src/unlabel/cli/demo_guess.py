"""How well a curious partner of the demo groups its rows by their labels, from what it saw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.federation import Federation
from unlabel.wire.transcript import Entry


def guesses(federation: Federation, party: str, seen: Iterable[Entry]) -> dict[str, float | None]:
    """Return the share of training rows that a partner groups right, by what it looks at.

    gradients   of its embeddings, that it received in training; None where none came
    embeddings  that its bottom gives in the end
    features    its own: as good as a party that never took part
    """
    rows = federation.holdings.rows.train
    labels, bottom = federation.holdings.labels[rows], federation.passives[party].bottom
    features = federation.holdings.features[party].values[rows].flatten(1)
    place = rows.to(bottom.place.device)
    embeddings = bottom.embed(place, table="main", mode="predict", step=0).cpu()
    received = _gradients(seen, len(federation.holdings.labels))
    return {
        "gradients": None if received is None else _grouped(received[rows], labels),
        "embeddings": _grouped(embeddings, labels),
        "features": _grouped(features, labels),
    }


def _gradients(seen: Iterable[Entry], count: int) -> Tensor | None:
    """Return the mean direction of the gradients of each row, None where none came."""
    asked: dict[int, Tensor] = {}
    total: Tensor | None = None
    for entry in seen:
        if entry.direction == "received" and entry.kind == "Embed":
            asked[entry.step] = entry.tensors["rows"]
        elif entry.direction == "received" and entry.kind == "Gradients":
            directions = F.normalize(entry.tensors["values"].float(), dim=1)
            if total is None:
                total = torch.zeros(count, directions.shape[1])
            total.index_add_(0, asked[entry.step], directions)
    return total


def _grouped(values: Tensor, labels: Tensor) -> float:
    """Return the share of rows whose group stands for their label.

    k-means makes as many groups as there are labels, and groups are matched with labels one to one,
    as well as can be (Hungarian method).
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.cluster import KMeans

    truth = labels.numpy()
    count = int(truth.max()) + 1
    groups = KMeans(count, n_init=3, random_state=0).fit_predict(values.double().numpy())
    together = np.zeros((count, count), dtype=np.int64)
    np.add.at(together, (groups, truth), 1)
    return float(together[linear_sum_assignment(together, maximize=True)].sum() / len(truth))
