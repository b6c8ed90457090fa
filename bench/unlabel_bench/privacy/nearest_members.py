"""Private rows of the forgotten label, found near the public samples of a request."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel_bench.privacy.partner_view import View

Distance = Literal["euclidean", "cosine"]
DISTANCES: tuple[Distance, ...] = ("euclidean", "cosine")


def nearest_members(
    embeddings: Tensor, samples: Tensor, members: Tensor, *, distance: Distance
) -> float:
    """Return the share of true members among the k rows nearest to the samples' mean.

    With m the mean embedding of the samples and k the number of members, the attack names the k
    rows of least |h - m|, or of greatest cos(h, m). Naming rows at random is right about a share
    of k / n of them, that is 1 / C where the labels are equally frequent.

    embeddings  [n, width] of the party's private rows
    samples     [s, width] of the public samples
    members     [n] which private rows have the forgotten label

    >>> rows = torch.tensor([[0.0, 1.0], [0.1, 1.0], [5.0, 0.0], [5.0, 0.1]])
    >>> nearest_members(rows, rows[:1], torch.tensor([1, 1, 0, 0]) > 0, distance="euclidean")
    1.0
    """
    count = int(members.sum())
    rows, centre = embeddings.double(), samples.double().mean(0, keepdim=True)
    if distance == "cosine":
        near = F.cosine_similarity(rows, centre, dim=1)
    else:
        near = -(rows - centre).norm(dim=1)
    named = near.topk(count).indices
    return float(members[named].double().mean())


def singled_out(view: View, table: str) -> Tensor:
    """Return the rows of a table that a request singles out, by its largest gradients.

    Rows that got gradients are sorted by their mean norm, and cut where two in a row differ
    most, in logarithms; what stands above the cut is singled out. None where no gradients came.
    """
    norms = view.push_norms(table)
    rows = (norms > 0).nonzero()[:, 0]
    if len(rows) < 2:
        return rows
    order = rows[norms[rows].argsort(descending=True)]
    gaps = norms[order].log().diff().neg()
    return order[: int(gaps.argmax()) + 1]


def member_leak(view: View, private: Tensor, members: Tensor) -> dict[str, float]:
    """Return the attack's precision for every choice of samples, distance and moment.

    private  rows of the main table that are nobody's public samples
    members  which of them have the forgotten label
    The choices of samples are all that were asked for to be moved, and those singled out; names
    are CHOICE/DISTANCE/MOMENT. Empty where the request asked for no samples.
    """
    precisions: dict[str, float] = {}
    for table in view.before.embeddings:
        requested = view.asked(table) > 0
        if table == "main":
            requested[private] = False  # what is left are public samples that stand in this table
        public = requested.nonzero()[:, 0]
        single = singled_out(view, table)
        choices = {"asked": public, "singled": single[torch.isin(single, public)]}
        for name, rows in choices.items():
            for moment, held in (("before", view.before), ("after", view.after)):
                for distance in DISTANCES if len(rows) else ():
                    precisions[f"{name}/{distance}/{moment}"] = nearest_members(
                        held.embeddings["main"][private],
                        held.embeddings[table][rows],
                        members,
                        distance=distance,
                    )
    return precisions
