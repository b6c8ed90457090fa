"""The paper's membership attack: does a forgotten training sample still look like a member?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.audit.intervals import share_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.terms import Depth

#: Retained training rows that the attack learns from.
MEMBERS = 10_000
#: Bars of the pictures of entropies.
BARS = 20


def entropy(logits: Tensor) -> Tensor:
    """Return H(p) = -sum over labels of p log p, p the softmax, one value a row."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p).sum(1)


def attack_success(members: Tensor, strangers: Tensor, forgotten: Tensor) -> float:
    """Return the share of forgotten samples that the attack calls members.

    A logistic regression on the entropy of the output, balanced between members (retained
    training samples) and strangers (test samples), judges the forgotten training samples. The
    retrained model's value is the aim; 0 is as suspicious as 1.

    >>> low, high = torch.zeros(50), torch.ones(50)
    >>> attack_success(low, high, torch.tensor([0.0, 0.1, 0.9, 1.0]))
    0.5
    """
    from sklearn.linear_model import LogisticRegression

    x = torch.cat([members, strangers]).double().cpu().numpy()[:, None]
    y = torch.cat([torch.ones(len(members)), torch.zeros(len(strangers))]).numpy()
    model = LogisticRegression(class_weight="balanced").fit(x, y)
    return float(model.predict(forgotten.double().cpu().numpy()[:, None]).mean())


def sides(train: Tensor, truth: Tensor, labels: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the members that the attack learns from, and the forgotten rows it judges.

    train  one value a training row
    truth  the labels of these rows

    Of more than 10,000 retained rows so many are drawn, the same in every call.
    """
    forgotten = torch.isin(
        truth, torch.tensor(list(labels), dtype=truth.dtype, device=truth.device)
    )
    members = train[~forgotten]
    some = torch.randperm(len(members), generator=torch.Generator().manual_seed(0))[:MEMBERS]
    return members[some.to(members.device)], train[forgotten]


@MEASURES.register("membership")
@dataclass(frozen=True)
class Membership(Measure):
    """ASR = share of the forgotten training rows that `attack_success` calls members.

    Members are retained training rows, strangers all test rows, and the attack sees the entropy
    of the output alone. The interval is that of Clopper and Pearson over the forgotten rows; the
    attack itself is taken as it is. `entropies` has the three distributions.
    """

    about: ClassVar[str] = "forgotten training rows that an attack calls members"
    depth: ClassVar[Depth | None] = "answers"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Attack."""
        strangers = entropy(observed.test.logits)
        members, forgotten = sides(entropy(observed.train.logits), observed.train.labels, labels)
        if not (len(members) and len(strangers) and len(forgotten)):
            note = "The attack needs test rows, and training rows of both kinds of labels."
            return Figure(None, note=note)
        value = attack_success(members, strangers, forgotten)
        interval = share_interval(round(value * len(forgotten)), len(forgotten))
        most = log(len(observed.names))
        shown = {"members": members, "strangers": strangers, "forgotten": forgotten}
        entropies = {"edges": torch.linspace(0, most, BARS + 1).tolist()}
        for who, x in shown.items():
            # Rounding takes the entropy of a sure answer a little below 0.
            bars = torch.histc(x.float().clamp(0, most), BARS, 0, most)
            entropies[who] = bars.div(len(x)).tolist()
        return Figure(value, *interval, {"rows": len(forgotten), "entropies": entropies})
