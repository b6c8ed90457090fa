"""A stronger membership attack: forgotten training rows against unseen rows of the same label.

The paper's attack compares forgotten rows with rows of other labels. Rows of one label are the
harder and fairer question: a model that forgot treats those it was trained on as those it was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Level, Measure
from unlabel.audit.membership import entropy
from unlabel.audit.ranking import Ranking
from unlabel.audit.seen import Part, Seen
from unlabel.errors import DataError

#: Share of strangers that an attack may take for members.
ALARM = 0.01


def log_odds(scores: Tensor, labels: Tensor) -> Tensor:
    """Return log p / (1 - p) of the labels' probabilities: s_y - log sum over j != y of exp s_j.

    >>> log_odds(torch.log(torch.tensor([[0.8, 0.1, 0.1]])), torch.tensor([0])).exp()
    tensor([4.0000], dtype=torch.float64)
    """
    exact = scores.double()
    own = exact.gather(1, labels[:, None])
    others = exact.scatter(1, labels[:, None], -torch.inf)
    return own[:, 0] - others.logsumexp(1)


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
    level: ClassVar[Level | None] = "output"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Rank members among strangers."""
        train, test = seen.train.of(labels), seen.test.of(labels)
        known = [n for n in labels if (train.labels == n).any() and (test.labels == n).any()]
        if not known:
            note = "The attack needs training rows and test rows of a forgotten label."
            return Figure(None, note=note)
        truth = torch.cat([train.labels, test.labels]).numpy()
        member = np.arange(len(truth)) < len(train)
        values = {
            name: np.concatenate([_attack(name, part, labels) for part in (train, test)])
            for name in ("log-odds", "entropy", "confidence")
        }
        attacks: dict[str, Any] = {}
        for name, value in values.items():
            groups = [truth == n for n in known]
            ranks = [Ranking(value[group], member[group]) for group in groups]
            attacks[name] = {
                "auc": float(np.mean([rank.auc() for rank in ranks])),
                "found": float(np.mean([rank.power(ALARM) for rank in ranks])),
            }
            if name == "log-odds":
                interval = bootstrap(_mean_auc(ranks, groups), truth * 2 + member)
        detail = {"attacks": attacks, "members": len(train), "strangers": len(test)}
        return Figure(attacks["log-odds"]["auc"], *interval, detail)


def _mean_auc(ranks: list[Ranking], groups: list[NDArray[np.bool_]]) -> Any:
    def statistic(weights: Array) -> Array:
        found = [rank.auc(weights[:, group]) for rank, group in zip(ranks, groups, strict=True)]
        mean: Array = np.mean(found, axis=0)
        return mean

    return statistic


def _attack(name: str, part: Part, labels: tuple[int, ...]) -> Array:
    """Return what an attack takes for a sign of membership, one value a row."""
    if name == "log-odds":
        found = log_odds(part.scores, part.labels)
    elif name == "entropy":
        found = -entropy(part.logits.double())
    else:
        stay = [n for n in range(part.scores.shape[1]) if n not in labels]
        found = part.scores[:, stay].double().log_softmax(1).max(1).values
    values: Array = found.numpy()
    return values


def likelihood_ratio(
    target: Tensor, shadows: Tensor, inside: Tensor, *, shared: bool = False
) -> Tensor:
    """Return the likelihood-ratio attack over shadow models, one value a row.

        L = log N(phi; mu_in, s_in^2) - log N(phi; mu_out, s_out^2)

    target   [rows] phi of the model under attack, see `log_odds`
    shadows  [models, rows] phi of models that each were trained on some of the rows
    inside   [models, rows] whether a shadow model was trained on the row
    shared   one standard deviation for all rows, for when shadow models are few

    mu and s of a row are those of the shadow models that were trained on it, and of those that
    were not. Above 0 the row looks like one that was trained on.

    >>> shadows = torch.tensor([[1.0], [3.0], [-1.0], [-3.0]])
    >>> inside = torch.tensor([[True], [True], [False], [False]])
    >>> likelihood_ratio(torch.tensor([2.0]), shadows, inside)
    tensor([8.], dtype=torch.float64)
    """
    if shadows.shape != inside.shape or target.shape != shadows.shape[1:]:
        raise DataError(
            f"Expected scores and membership of shape [models, {len(target)}] but got "
            f"{list(shadows.shape)} and {list(inside.shape)}; give one column a row."
        )
    least = min(int(inside.sum(0).min()), int((~inside).sum(0).min()))
    if least < 2:
        raise DataError(
            f"Expected every row in at least 2 shadow models and outside of at least 2 but found "
            f"{least}; train more of them."
        )
    phi = target.double()
    found = torch.zeros_like(phi)
    for mask, sign in ((inside, 1.0), (~inside, -1.0)):
        count = mask.sum(0)
        values = shadows.double().where(mask, torch.zeros((), dtype=torch.float64))
        mean = values.sum(0) / count
        square = ((shadows.double() - mean) ** 2).where(mask, torch.zeros_like(values)).sum(0)
        variance = square / count
        if shared:
            variance = (square.sum() / count.sum()).expand_as(variance)
        variance = variance.clamp_min(1e-12)
        found += sign * -((phi - mean) ** 2 / variance + variance.log()) / 2
    return found
