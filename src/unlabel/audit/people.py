"""What is measured of a request about people: figures that make sense for one and for many.

An observation has their rows in place of the training rows, those that were trained on, and all
test rows of everybody else. Depths are about whole labels, so none of these figures decides one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from unlabel.audit.intervals import bootstrap, mean_interval
from unlabel.audit.measure import Figure, Measure
from unlabel.audit.measures.accuracy import accuracy
from unlabel.audit.measures.likelihood import log_odds
from unlabel.audit.observation import Observation
from unlabel.audit.pictures import certainty, histograms, label_accuracy
from unlabel.audit.ranking import Ranking
from unlabel.data import Rows
from unlabel.terms import Depth

NOBODY = "None of these people was trained on."


def rows_of_people(rows: Rows, people: Sequence[int]) -> Rows:
    """Return the parts to observe: of the training rows theirs, of the test rows all others'."""
    asked = torch.tensor(list(people), dtype=torch.int64)
    train, test = rows.train.cpu(), rows.test.cpu()
    return replace(rows, train=train[torch.isin(train, asked)], test=test[~torch.isin(test, asked)])


@dataclass(frozen=True)
class EverybodyElse(Measure):
    """Share of the test rows of everybody else that get their label; Clopper and Pearson."""

    about: ClassVar[str] = "accuracy on test rows of everybody else"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Count hits."""
        return accuracy(observed.test, "There are no test rows of anybody else.")


@dataclass(frozen=True)
class OldLabels(Measure):
    """Share of these people whose old label is predicted; Clopper and Pearson.

    A model that never had their labels may predict them all the same, from the features.
    """

    about: ClassVar[str] = "these people who are called by their old label"
    depth: ClassVar[Depth | None] = "answers"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Count hits."""
        return accuracy(observed.train, NOBODY)


@dataclass(frozen=True)
class Confidence(Measure):
    """Mean over these people of p(old label | x); Student's interval where there are two."""

    about: ClassVar[str] = "probability that the model gives these people's old labels"
    depth: ClassVar[Depth | None] = "answers"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Average probabilities."""
        part = observed.train
        if not len(part):
            return Figure(None, note=NOBODY)
        chances = part.logits.double().softmax(1).gather(1, part.labels[:, None])[:, 0].tolist()
        value, detail = float(np.mean(chances)), {"rows": len(part)}
        if len(chances) < 2:
            return Figure(value, detail=detail)
        low, high = mean_interval(chances)
        return Figure(value, max(0.0, low), min(1.0, high), detail)


@dataclass(frozen=True)
class PeopleMembership(Measure):
    """AUC of the log-odds of the own label, these people against test rows of everybody else.

    value = P(phi(person) > phi(stranger)), phi = ln p_y / (1 - p_y), ties counted half: 0.5 where
    they look like people who were not trained on. The interval, where there are two of them, comes
    from rows drawn again.
    """

    about: ClassVar[str] = "these people told from people who were not trained on (AUC)"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Rank these people among strangers."""
        odds = [log_odds(part.scores, part.labels) for part in (observed.train, observed.test)]
        members, strangers = (each[~each.isnan()].numpy() for each in odds)
        if not (len(members) and len(strangers)):
            return Figure(None, note=f"{NOBODY[:-1]}, or there are no test rows.")
        is_member = np.arange(len(members) + len(strangers)) < len(members)
        ranking = Ranking(np.concatenate([members, strangers]), is_member)
        value = float(ranking.auc().clip(0, 1)[0])
        detail = {"members": len(members), "strangers": len(strangers)}
        if len(members) < 2:
            return Figure(value, detail=detail)
        return Figure(value, *bootstrap(ranking.auc, is_member.astype(np.int64)), detail)


MEASURES_OF_PEOPLE: dict[str, Measure] = {
    "retained-accuracy": EverybodyElse(),
    "old-labels": OldLabels(),
    "confidence": Confidence(),
    "people-membership": PeopleMembership(),
}


def pictures_of_people(models: Mapping[str, Observation], names: Sequence[str]) -> dict[str, Any]:
    """Return what the report draws: accuracy by label, and what an attack on membership sees."""
    pictures: dict[str, Any] = {"labels": [str(name) for name in names], "forgotten": []}
    pictures["accuracy"] = {n: label_accuracy(m.test, len(names)) for n, m in models.items()}
    scores = {
        name: {"members": certainty(model.train), "strangers": certainty(model.test)}
        for name, model in models.items()
        if len(model.train) and len(model.test)
    }
    return {**pictures, **({"scores": histograms(scores)} if scores else {})}
