"""Class membership inference: do answers about the label's rows stand out from its neighbour's?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unlabel.audit.figures import Unit
from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import Figure, Measure
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.audit.ranking import Ranking, mean_auc
from unlabel.terms import Depth
from unlabel_bench.rivals import RIVALS

#: Log-probabilities below this are all the same to the attack.
FLOOR = -20.0


@RIVALS.register("cmia")
@dataclass(frozen=True)
class ClassMembership(Measure):
    """AUC of an attack that tells rows of a forgotten label from its neighbour's by the answers.

    After Ebrahimpour-Boroojeny et al. (CMIA, ICML 2026): what a model says of neighbouring labels
    shows which rows were unlearned. Our reading of its abstract: the neighbour v of a forgotten
    label u is the label that stays and gets the most probability on training rows of u. A logistic
    regression on ln p of all labels that stay, renormalised, is fitted to training rows of u and v;

        value = mean over u of P(its score of a test row of u > of a test row of v),

    ties counted half. Retrained models are the aim: they too can tell the two. `neighbours` names
    v. The interval comes from rows drawn again.
    """

    about: ClassVar[str] = "rows of the label told from its nearest label's by the answers (AUC)"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Unit] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Attack every forgotten label."""
        stay = [n for n in range(len(observed.names)) if n not in labels]
        rankings: list[Ranking] = []
        groups: list[NDArray[np.int64]] = []
        strata: list[NDArray[np.int64]] = []
        nearest = {}
        for label in labels:
            near = _neighbour(observed.train.of([label]), stay)
            train, test = (part.of([label, near]) for part in (observed.train, observed.test))
            if any(len(part.labels.unique()) < 2 for part in (train, test)):
                continue
            nearest[observed.names[label]] = observed.names[near]
            score = _attack(train, test, label, stay)
            positive = test.labels.numpy() == label
            rankings.append(Ranking(score, positive))
            groups.append(np.full(len(positive), len(groups)))
            strata.append(2 * groups[-1] + positive)
        if not rankings:
            return Figure(None, note="It needs rows of a forgotten label and of its neighbour.")
        value = float(np.mean([ranking.auc()[0] for ranking in rankings]))
        group, kinds = np.concatenate(groups), np.concatenate(strata)
        each = [group == number for number in range(len(rankings))]
        interval = bootstrap(mean_auc(rankings, each), kinds)
        return Figure(value, *interval, {"neighbours": nearest})


def _answers(part: ObservedRows, stay: list[int]) -> Array:
    """Return ln p of the labels that stay, renormalised."""
    answers: Array = part.logits[:, stay].double().log_softmax(1).clamp_min(FLOOR).numpy()
    return answers


def _neighbour(rows: ObservedRows, stay: list[int]) -> int:
    return stay[int(rows.logits[:, stay].double().softmax(1).mean(0).argmax())] if len(rows) else -1


def _attack(train: ObservedRows, test: ObservedRows, label: int, stay: list[int]) -> Array:
    """Return how much each test row looks like one of the label."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    attack = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    attack.fit(_answers(train, stay), train.labels.numpy() == label)
    score: Array = attack.decision_function(_answers(test, stay))
    return score
