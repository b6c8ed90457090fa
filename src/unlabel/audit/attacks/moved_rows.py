"""Attacks that any partner could try on one request with nothing but its own old bottom.

A party computes the embeddings of its rows by itself, before a request and after it. What moved is
what the request was about, unless nothing moved. Attacks on the messages need the gradients, which
only the benches record (`unlabel bench request-privacy`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.audit.intervals import bootstrap
from unlabel.audit.observation import Observation
from unlabel.audit.privacy import Attack
from unlabel.audit.ranking import Ranking
from unlabel.data import ACTIVE

#: What each score of a row says to a person.
SCORES = {"moved": "rows that moved most", "along": "rows that moved together"}
#: Share of the rows that moved most, whose common direction the others are held against.
MOST_MOVED = 0.05


def movement_scores(before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Return two scores of a party's rows by their embeddings h before and h' after.

    moved  |h' - h| / |h|
    along  (h' - h) d, with d the mean direction of the 5 % of rows that moved furthest
    """
    before = before.double()
    movement = after.double() - before
    length = movement.norm(dim=1)
    most = length.topk(max(1, int(MOST_MOVED * len(length)))).indices
    direction = F.normalize(F.normalize(movement[most], dim=1).mean(0), dim=0)
    return {"moved": length / before.norm(dim=1).clamp_min(1e-12), "along": movement @ direction}


def moved_attacks(before: Observation, after: Observation, labels: Sequence[int]) -> list[Attack]:
    """Return how well each partner tells the forgotten training rows by how they moved.

    For each passive party and each of SCORES (see `movement_scores`) the probability that a
    forgotten row stands above another one (AUC), with a bootstrap interval; 1/2 is a guess.
    """
    members = torch.isin(before.train.labels, torch.tensor(list(labels))).numpy()
    if members.all() or not members.any():
        return []
    attacks = []
    for party, old in before.train.embeddings.items():
        if party == ACTIVE:
            continue
        scores = movement_scores(old, after.train.embeddings[party])
        for name, words in SCORES.items():
            ranking = Ranking(scores[name].numpy().astype(np.float64), members)
            value = float(ranking.auc().clip(0, 1)[0])
            low, high = bootstrap(ranking.auc, members.astype(np.int64))
            title = f"{party}: {words} (area under the curve)"
            attacks.append(Attack(title, value, low, high, chance=0.5))
    return attacks
