"""What is measured of a request about people: figures that make sense for one and for many.

An observation has their rows first among the training rows, those that were trained on, and all
test rows of everybody else. Of an exact request it has no other training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.audit.classifiers import ridge_scores
from unlabel.audit.figures import estimate_of, plain_data
from unlabel.audit.intervals import bootstrap, mean_interval
from unlabel.audit.layers import whitened
from unlabel.audit.measure import Figure, Measure
from unlabel.audit.measures.accuracy import accuracy
from unlabel.audit.measures.likelihood import log_odds
from unlabel.audit.observation import Observation, ObservedRows
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


def people_first(rows: Rows, people: Sequence[int], left: Rows) -> Rows:
    """Return the same parts, with the training rows of everybody else after those of the people.

    left  rows that a training without these people has
    """
    parts = rows_of_people(rows, people)
    return replace(parts, train=torch.cat([parts.train, left.train.cpu()]))


@dataclass(frozen=True)
class OfPeople(Measure):
    """A measure of people.

    count  of them, who come first among the training rows; None where there are no others
    """

    count: int | None = None

    def people(self, observed: Observation) -> ObservedRows:
        """Return what was observed of them."""
        train = observed.train
        return train if self.count is None else train.take(torch.arange(self.count))


@dataclass(frozen=True)
class EverybodyElse(Measure):
    """Share of the test rows of everybody else that get their label; Clopper and Pearson."""

    about: ClassVar[str] = "accuracy on test rows of everybody else"
    higher_is_better: ClassVar[bool | None] = True

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Count hits."""
        return accuracy(observed.test, "There are no test rows of anybody else.")


@dataclass(frozen=True)
class OldLabels(OfPeople):
    """Share of these people whose old label is predicted; Clopper and Pearson.

    A model that never had their labels may predict them all the same, from the features.
    """

    about: ClassVar[str] = "these people who are called by their old label"
    depth: ClassVar[Depth | None] = "answers"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Count hits."""
        return accuracy(self.people(observed), NOBODY)


@dataclass(frozen=True)
class Confidence(OfPeople):
    """Mean over these people of p(old label | x); Student's interval where there are two."""

    about: ClassVar[str] = "probability that the model gives these people's old labels"
    depth: ClassVar[Depth | None] = "answers"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Average probabilities."""
        part = self.people(observed)
        if not len(part):
            return Figure(None, note=NOBODY)
        chances = part.logits.double().softmax(1).gather(1, part.labels[:, None])[:, 0].tolist()
        value, detail = float(np.mean(chances)), {"rows": len(part)}
        if len(chances) < 2:
            return Figure(value, detail=detail)
        low, high = mean_interval(chances)
        return Figure(value, max(0.0, low), min(1.0, high), detail)


@dataclass(frozen=True)
class PeopleMembership(OfPeople):
    """AUC of the log-odds of the own label, these people against test rows of everybody else.

    value = P(phi(person) > phi(stranger)), phi = ln p_y / (1 - p_y), ties counted half: 0.5 where
    they look like people who were not trained on. The interval, where there are two of them, comes
    from rows drawn again.
    """

    about: ClassVar[str] = "these people told from people who were not trained on (AUC)"
    depth: ClassVar[Depth | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Rank these people among strangers."""
        both = (self.people(observed), observed.test)
        return _told(*(log_odds(part.scores, part.labels) for part in both))


@dataclass(frozen=True)
class PeopleEmbeddings(OfPeople):
    """The same attack by a new head: what the embeddings have memorised of these people.

    A ridge classifier is fitted to the whitened embeddings of all other training rows, so that
    it has met no label of these people; s are its scores, phi = s_y - max over j != y of s_j, and

        value = P(phi(person) > phi(stranger)),

    ties counted half, strangers being the test rows. A change of the top alone leaves it as it is.
    `parties` has each party's embeddings alone.
    """

    about: ClassVar[str] = "these people told from strangers by a head that never met their labels"
    depth: ClassVar[Depth | None] = "bottoms"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:  # noqa: ARG002
        """Fit heads to everybody else, and rank these people among strangers."""
        people, strangers = self.people(observed), observed.test
        others = observed.train.take(torch.arange(len(people), len(observed.train)))
        if not (len(people) and len(strangers) and len(others)):
            return Figure(None, note=f"{NOBODY[:-1]}, or there are no other rows.")

        parts = (others, people, strangers)

        def area(embeddings: list[Tensor]) -> Figure:
            x, *rest = whitened(*embeddings)
            count = len(observed.names)
            scores = [ridge_scores(x, others.labels, each, count) for each in rest]
            return _told(_margins(scores[0], people.labels), _margins(scores[1], strangers.labels))

        alone = {
            party: plain_data(estimate_of(vars(area([part.embeddings[party] for part in parts]))))
            for party in people.embeddings
        }
        figure = area([part.joined() for part in parts])
        return replace(figure, detail={**figure.detail, "parties": alone})


def _margins(scores: Tensor, labels: Tensor) -> Tensor:
    """Return s_y - max over j != y of s_j."""
    true = scores.gather(1, labels[:, None])[:, 0]
    return true - scores.scatter(1, labels[:, None], -torch.inf).max(1).values


def _told(people: Tensor, strangers: Tensor) -> Figure:
    """Return P(person > stranger), ties counted half, with an interval where there are two."""
    members, others = (each[~each.isnan()].numpy() for each in (people, strangers))
    if not (len(members) and len(others)):
        return Figure(None, note=f"{NOBODY[:-1]}, or there are no test rows.")
    is_member = np.arange(len(members) + len(others)) < len(members)
    ranking = Ranking(np.concatenate([members, others]), is_member)
    value = float(ranking.auc().clip(0, 1)[0])
    detail = {"members": len(members), "strangers": len(others)}
    if len(members) < 2:
        return Figure(value, detail=detail)
    return Figure(value, *bootstrap(ranking.auc, is_member.astype(np.int64)), detail)


MEASURES_OF_PEOPLE: dict[str, Measure] = {
    "retained-accuracy": EverybodyElse(),
    "old-labels": OldLabels(),
    "confidence": Confidence(),
    "people-membership": PeopleMembership(),
}


def measures_of(people: int) -> dict[str, Measure]:
    """Return the measures of so many people, who come first among the training rows."""
    return {
        "retained-accuracy": EverybodyElse(),
        "old-labels": OldLabels(people),
        "confidence": Confidence(people),
        "people-membership": PeopleMembership(people),
        "people-embeddings": PeopleEmbeddings(people),
    }


def only_people(observed: Observation, people: int) -> Observation:
    """Return the same without the training rows of everybody else."""
    return replace(observed, train=observed.train.take(torch.arange(people)))


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
