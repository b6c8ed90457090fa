"""A stronger membership attack: forgotten training rows against unseen rows of the same label.

The paper's attack compares forgotten rows with rows of other labels. Rows of one label are the
harder and fairer question: a model that forgot treats those it was trained on as those it was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.measures.membership import entropy
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.audit.ranking import Ranking, mean_auc
from unlabel.terms import Depth

#: Share of strangers that an attack may take for members.
ALARM = 0.01


def log_odds(scores: Tensor, labels: Tensor) -> Tensor:
    """Return log p / (1 - p) of the labels' probabilities: s_y - log sum over j != y of exp s_j.

    >>> log_odds(torch.log(torch.tensor([[0.8, 0.1, 0.1]])), torch.tensor([0])).exp()
    tensor([4.0000], dtype=torch.float64)
    """
    exact = scores.double()
    true = exact.gather(1, labels[:, None])
    others = exact.scatter(1, labels[:, None], -torch.inf)
    return true[:, 0] - others.logsumexp(1)


@MEASURES.register("likelihood")
@dataclass(frozen=True)
class Likelihood(Measure):
    """AUC of the log-odds of the true label, forgotten training rows against test rows.

    Every forgotten label has thresholds of its own: with phi the log-odds of a row's own label by
    the scores below any mask,

        value = mean over forgotten labels of P(phi(member) > phi(stranger)),

    ties counted half. 0.5 where rows that were trained on look like those that were not, as they
    do to a retrained model that generalises. `attacks` has AUC and the share of members found at
    a false alarm of 1 % by log-odds, by the entropy of the output, and by confidence (the largest
    log-probability when only labels that stay are left). The interval comes from rows drawn again.
    """

    about: ClassVar[str] = "forgotten training rows told from unseen rows of their label (AUC)"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Rank members among strangers."""
        train, test = observed.train.of(labels), observed.test.of(labels)
        known = [n for n in labels if (train.labels == n).any() and (test.labels == n).any()]
        if not known:
            note = "The attack needs training rows and test rows of a forgotten label."
            return Figure(None, note=note)
        truth = torch.cat([train.labels, test.labels]).numpy()
        member = np.arange(len(truth)) < len(train)
        members, strangers = _signs(train, labels), _signs(test, labels)
        attacks: dict[str, Any] = {}
        groups = [truth == n for n in known]
        for name in members:
            value = np.concatenate([members[name], strangers[name]])
            ranks = [Ranking(value[group], member[group]) for group in groups]
            attacks[name] = {
                "auc": float(np.mean([rank.auc() for rank in ranks])),
                "found": float(np.mean([rank.power(ALARM) for rank in ranks])),
            }
            if name == "log-odds":
                interval = bootstrap(mean_auc(ranks, groups), truth * 2 + member)
        detail = {"attacks": attacks, "members": len(train), "strangers": len(test)}
        return Figure(attacks["log-odds"]["auc"], *interval, detail)


def _signs(part: ObservedRows, labels: tuple[int, ...]) -> dict[str, Array]:
    """Return what each attack takes for a sign of membership, one value a row."""
    odds, spread = log_odds(part.scores, part.labels), entropy(part.logits.double())
    stay = [n for n in range(part.scores.shape[1]) if n not in labels]
    sure = part.scores[:, stay].double().log_softmax(1).max(1).values
    return {"log-odds": odds.numpy(), "entropy": -spread.numpy(), "confidence": sure.numpy()}
