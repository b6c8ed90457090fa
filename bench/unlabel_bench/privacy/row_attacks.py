"""Which rows: named by the gradients that came for them, and by how far they moved.

A party that keeps its old bottom can compare every row's embedding with the new one's. No message
has to name a row for that, so every method that moves the bottoms is open to it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.audit.attacks.moved_rows import movement_scores
from unlabel_bench.privacy.partner_view import View


def row_scores(view: View, rows: Tensor) -> dict[str, Tensor]:
    """Return several scores of the party's own rows; the higher, the sooner a row is named.

    apart  how far the number of times it was asked for is from the rows' median
    push   mean norm of the gradients that came for it
    near   cos(h, m), with m the mean embedding of all rows weighed by `push`
    moved  how far its embedding moved (`movement_scores`)
    along  how far along the common direction of those that moved furthest
    all    the first of apart, push, near and moved that tells any two rows apart, the next one
           deciding between equals, and so on
    """
    before, after = (held.embeddings["main"].double() for held in (view.before, view.after))
    norms = view.push_norms()
    asked = view.asked()[rows]
    centre = (norms[:, None] * before).sum(0, keepdim=True)
    scores = {
        "apart": (asked - asked.median()).abs(),
        "push": norms[rows],
        "near": F.cosine_similarity(before[rows], centre, dim=1),
        **movement_scores(before[rows], after[rows]),
    }
    ordered = [_ranks(scores[name]) for name in ("apart", "push", "near", "moved")]
    # Ranks differ by 1 / (n - 1) at least, or by half of that from a shared one.
    weights = [(4.0 * len(rows)) ** -place for place in range(len(ordered))]
    every = torch.stack([w * ranks for w, ranks in zip(weights, ordered, strict=True)]).sum(0)
    return {**scores, "all": every}


def moved_rows(view: View, rows: Tensor, members: Tensor) -> dict[str, float]:
    """Return for each score the probability that a member stands above another row (AUC).

    1/2 is no better than a guess. `rows` are rows of the main table, and `members` says which of
    them have the forgotten label, or belong to the people of a request.
    """
    from sklearn.metrics import roc_auc_score

    truth = members.numpy()
    return {
        name: float(roc_auc_score(truth, score.numpy()))
        for name, score in row_scores(view, rows).items()
    }


def which_people(view: View, trained: Tensor, listed: Tensor) -> dict[str, float]:
    """Return how well each score tells the people of a request from all others trained on (AUC).

    The messages count that came since the models began to move: before, every row is asked for.

    trained  rows of the main table that the model was trained on
    listed   those whose labels were forgotten
    """
    begun = max((n for n, one in enumerate(view.heard) if one.kind == "BeginRequest"), default=0)
    last = replace(view, heard=view.heard[begun:])
    return moved_rows(last, trained, torch.isin(trained, listed))


def public_auc(
    view: View, labels: Tensor, forgotten: list[int], *, table: str = "main"
) -> float | None:
    """Return the AUC with which gradient norms tell public samples of the forgotten labels.

    Over the rows for which gradients came; None where there are none, or only of one kind.
    """
    from sklearn.metrics import roc_auc_score

    norms = view.push_norms(table)
    rows = (view.summed(table)[1] > 0).nonzero()[:, 0]
    truth = torch.isin(labels[rows], torch.tensor(forgotten)).numpy()
    if not len(rows) or truth.all() or not truth.any():
        return None
    return float(roc_auc_score(truth, norms[rows].numpy()))


def _ranks(score: Tensor) -> Tensor:
    """Return ranks from 0 to 1, equal scores sharing the middle one."""
    _, inverse, counts = score.unique(return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    middle: Tensor = (ends - (counts.double() + 1) / 2) / max(1, len(score) - 1)
    return middle[inverse]
