"""A public set where no sample has a label: the model names samples, or they are made up.

`pseudo` calls unlabelled rows what the model itself calls them:

    y_i = argmax over labels of F(H_i)

`anchors` needs no rows beside the training's. For party k and label c let m and S be the mean and
the covariance of the embeddings of the label's training rows, which the active party receives in
every epoch anyway. An anchor is one embedding a party, drawn from them:

    h_k = m_kc + S_kc^(1/2) z,   z ~ N(0, I)

The parties' parts are drawn apart, so that what two parties know together of one row is lost. No
party holds the rows of an anchor: the top moves by it, and no gradient is sent. Both ask for the
same rows, in one order, whatever the request is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.public_set import MOST, PublicSet
from unlabel.party import ActiveParty, Stream

#: The table that anchors stand in, which no party has.
ANCHORS = "anchors"
#: Anchors a label.
A_LABEL = 40


@dataclass(frozen=True)
class FixedSet(PublicSet):
    """Samples labelled by the model itself, all of which every request looks at.

    A choice by such labels would tell what earlier requests made the model forget.
    """

    def balanced(self, most: int = MOST) -> PublicSet:  # noqa: ARG002 - there are no more than MOST
        """Return all samples."""
        return self


@dataclass(frozen=True)
class Moments:
    """What is left of the embeddings of one party: a mean and a covariance a label.

    means        [C, d]
    covariances  [C, d, d], with n - 1 below; 0 where a label has one row
    """

    means: Tensor
    covariances: Tensor

    @classmethod
    def of(cls, embeddings: Tensor, labels: Tensor, count: int) -> Moments:
        """Return the moments of embeddings [n, d] by label, in float64.

        >>> moments = Moments.of(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), 2)
        >>> moments.means.tolist(), moments.covariances.flatten().tolist()
        ([[2.0], [5.0]], [2.0, 0.0])
        """
        values, labels = embeddings.double().cpu(), labels.cpu()
        width = values.shape[1]
        means = torch.zeros(count, width, dtype=torch.float64)
        covariances = torch.zeros(count, width, width, dtype=torch.float64)
        for label in labels.unique().tolist():
            rows = values[labels == label]
            means[label] = rows.mean(0)
            centred = rows - means[label]
            covariances[label] = centred.T @ centred / max(1, len(rows) - 1)
        return cls(means, covariances)

    def draw(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Return one embedding a label that is asked for: m + S^(1/2) z."""
        spread, axes = torch.linalg.eigh(self.covariances)
        # Rounding leaves directions without spread slightly below 0.
        roots = axes * spread.clamp_min(0).sqrt()[:, None, :] @ axes.mT
        z = torch.randn(len(labels), self.means.shape[1], dtype=torch.float64, generator=generator)
        return self.means[labels] + torch.einsum("nij,nj->ni", roots[labels], z)


def named_by_model(active: ActiveParty, public: PublicSet) -> PublicSet:
    """Return public samples with the labels that the model gives them, `MOST` of them at most.

    Where there are more, they are taken at even distances: the first ones might all be of one kind.
    """
    if not len(public):
        raise ForgetError("There are no public samples for the model to name; give some.")
    count = min(MOST, len(public))
    places = torch.linspace(0, len(public) - 1, count).round().long()
    some = public.take(places)
    p = active.logits(some.rows.to(active.device), table=some.table).softmax(1).cpu()
    sure, labels = p.max(1)
    source = f"{public.source}, labelled by the model itself, which is {sure.mean():.0%} sure"
    return FixedSet(some.table, some.rows, labels, some.ids, public.disclosed, source)


def make_anchors(
    active: ActiveParty,
    train: Tensor,
    count: int,
    *,
    seed: int,
    unused: Sequence[int] = (),
    per_label: int = A_LABEL,
) -> tuple[ActiveParty, PublicSet]:
    """Return anchors as a public set, and the party that knows them.

    train      all training rows; they are asked for in their order
    count      how many labels there are
    unused     rows of people whose labels were forgotten; they are asked for and left out
    per_label  anchors a label
    """
    embeddings = active.embeddings(train.to(active.device))
    kept = ~torch.isin(train, torch.tensor(list(unused), dtype=train.dtype))
    kept &= active.labels.cpu()[train] >= 0
    labels = active.labels.cpu()[train][kept]
    known = labels.unique()
    anchor_labels = known.repeat_interleave(min(per_label, max(1, MOST // max(1, len(known)))))
    anchors = [
        Moments.of(part.cpu()[kept], labels, count).draw(
            anchor_labels, Stream(seed, "anchors").generator(number)
        )
        for number, part in enumerate(embeddings)
    ]
    ids = tuple(f"anchor {number}" for number in range(len(anchor_labels)))
    source = "anchors made from the means and spreads of the labels' training rows"
    public = FixedSet(ANCHORS, torch.arange(len(anchor_labels)), anchor_labels, ids, False, source)
    return active.with_embeddings(ANCHORS, anchors), public
