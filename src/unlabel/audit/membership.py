"""The paper's membership attack: is a forgotten training sample still told from a stranger?"""

from __future__ import annotations

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Return H(p) = -sum over labels of p log p, p the softmax, one value a row."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p).sum(1)


def attack_success(members: Tensor, strangers: Tensor, forgotten: Tensor) -> float:
    """Return ASR: the share of forgotten samples that the attack calls members.

    A logistic regression on the entropy of the output, balanced between members (retained
    training samples) and strangers (test samples), judges the forgotten training samples. The
    retrained model's value is the aim; 0 is as suspicious as 1.

    >>> low, high = torch.zeros(50), torch.ones(50)
    >>> attack_success(low, high, torch.tensor([0.0, 0.1, 0.9, 1.0]))
    0.5
    """
    x = torch.cat([members, strangers]).double().cpu().numpy()[:, None]
    y = torch.cat([torch.ones(len(members)), torch.zeros(len(strangers))]).numpy()
    model = LogisticRegression(class_weight="balanced").fit(x, y)
    return float(model.predict(forgotten.double().cpu().numpy()[:, None]).mean())
