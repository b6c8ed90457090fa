"""What frozen embeddings know of a label: probes with few labelled rows, and information."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.audit.classifiers import ridge_calls
from unlabel.audit.measures.probing import chosen_rows
from unlabel.party.optimisers import Adam
from unlabel_bench.measures import Embedded, standardised

#: Labelled rows a label of the probes with few of them, and draws that are averaged.
FEW, DRAWS = (1, 5, 10), 20
#: The critic that bounds information: hidden units, steps and rate of Adam, rows a step.
HIDDEN, STEPS, RATE, ROWS = 64, 500, 1e-3, 4096
#: Standardised features beyond this are cut.
LIMIT = 10.0


def few_shot(seen: Embedded, labels: Sequence[int], count: int) -> dict[str, float]:
    """Return the linear probe's accuracy on the labels with few labelled rows of every label."""
    asked = torch.isin(seen.truth, torch.tensor(list(labels), device=seen.truth.device))
    x, test = standardised(seen.train.float(), seen.test[asked].float())
    truth, known = seen.truth[asked], seen.labels.cpu()
    figures = {}
    for each in FEW:
        right = []
        for draw in range(DRAWS):
            rows = chosen_rows(known, each, draw).to(x.device)
            calls = ridge_calls(x[rows], seen.labels[rows], test, count)
            right.append(float((calls == truth).double().mean()))
        figures[f"few_{each}"] = sum(right) / DRAWS
    return figures


def information(seen: Embedded, labels: Sequence[int]) -> float:
    """Return what the last layer of the bottoms tells of whether a row is of the labels, in nats.

    COLA's IDI compares such estimates of the forgotten, the original and the retrained model over
    layers.
    """
    wanted = torch.tensor(list(labels), device=seen.truth.device)
    v, truth = (torch.isin(part, wanted).long() for part in (seen.labels, seen.truth))
    return nats_about(seen.train, v, seen.test, truth)


def nats_about(train: Tensor, v: Tensor, asked: Tensor, truth: Tensor) -> float:
    """Return a lower bound of what a layer Z tells of V, which is 0 or 1 a row, in nats.

        I(Z; V) >= H(V) - min over steps of CE(V, c(Z)) on the rows asked about

    c is a network with one hidden layer, fitted to the training rows.
    """
    # A feature that hardly varies among training rows may be far out on a test row.
    x, test = (part.clamp(-LIMIT, LIMIT) for part in standardised(train, asked))
    random = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        critic = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
    critic = critic.to(x.device)
    optimiser = Adam(critic.parameters(), lr=RATE)
    least = torch.inf
    for step in range(1, STEPS + 1):
        some = torch.randint(len(x), (min(ROWS, len(x)),), generator=random).to(x.device)
        optimiser.zero_grad()
        F.cross_entropy(critic(x[some]), v[some]).backward()
        optimiser.step()
        if step % 20 == 0:
            with torch.no_grad():
                least = min(least, F.cross_entropy(critic(test), truth).item())
    share = truth.double().mean()
    return _entropy(share) - least


def _entropy(share: Tensor) -> float:
    return float(sum(-p * p.log() for p in (share, 1 - share) if p > 0))
