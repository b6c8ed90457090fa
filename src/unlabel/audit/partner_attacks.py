"""Attacks that any partner could try on one request with nothing but its own old bottom.

A party computes the embeddings of its rows by itself, before a request and after it. What moved is
what it was about, unless nothing moved. What the party was sent is a matter of its own: such
attacks need the gradients, which only the benches keep (`unlabel bench request-privacy`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from unlabel.audit.intervals import bootstrap
from unlabel.audit.moved_rows import row_scores
from unlabel.audit.privacy import Attack
from unlabel.audit.ranking import Ranking
from unlabel.audit.seen import Seen
from unlabel.audit.view import Held, View
from unlabel.data import ACTIVE

#: Scores of a row that need no message, and what each says to a person.
SCORES = {"moved": "rows that moved most", "along": "rows that moved together"}


def moved_attacks(before: Seen, after: Seen, labels: Sequence[int]) -> list[Attack]:
    """Return how well each partner tells the forgotten training rows by how they moved.

    For each passive party and each of SCORES (see `moved_rows.row_scores`) the probability that a
    forgotten row stands above another one (AUC), with a bootstrap interval; 1/2 is a guess.
    """
    members = torch.isin(before.train.labels, torch.tensor(list(labels))).numpy()
    if members.all() or not members.any():
        return []
    every = torch.arange(len(members))
    found = []
    for party, old in before.train.embeddings.items():
        if party == ACTIVE:
            continue
        was, now = (Held({}, {"main": h}) for h in (old, after.train.embeddings[party]))
        scores = row_scores(View(party, (), was, now), every)
        for name, words in SCORES.items():
            ranking = Ranking(scores[name].numpy().astype(np.float64), members)
            value = float(ranking.auc().clip(0, 1)[0])
            low, high = bootstrap(ranking.auc, members.astype(np.int64))
            title = f"{party}: {words} (area under the curve)"
            found.append(Attack(title, value, low, high, chance=0.5))
    return found
