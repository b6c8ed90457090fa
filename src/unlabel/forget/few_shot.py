"""The few public samples that one request uses, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.public_set import PublicSet
from unlabel.party import ActiveParty, keyed_order

if TYPE_CHECKING:
    from unlabel.forget.work import Work

#: A sample is suspected of a wrong label where the model gives its label less than this.
SUSPECT = 0.1
#: Samples a label that are looked at for each one that is used.
SEEN = 5
#: Embeddings nearer than this, relative to their length, are those of one sample held twice.
SAME = 1e-5


@dataclass(frozen=True)
class Suspect:
    """A sample whose label the model does not believe: score = 1 - p(label)."""

    id: str
    row: int
    label: int
    score: float


@dataclass(frozen=True)
class FewShotSamples:
    """The few samples one request uses: forgotten ones first, then retained ones.

    weights  how far each is trusted, 1 unless the robust option weighs them
    """

    table: str
    rows: Tensor
    labels: Tensor
    weights: Tensor
    forgotten: int
    suspects: tuple[Suspect, ...] = ()
    duplicates: int = 0

    def sent(self) -> tuple[Tensor, Tensor]:
        """Return the rows as they are asked for, and the place of each sample among them.

        They go out in the order of their numbers, which does not tell forgotten from retained.
        """
        rows, order = self.rows.sort()
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        return rows, places


def draw_samples(work: Work) -> FewShotSamples:
    """Draw the samples of a request by its key, and look at them through the model as it is.

    Samples of labels that were forgotten earlier are asked for, and not used.
    """
    device, key, robust = work.active.device, work.request.key, work.settings.robust
    labels, earlier = torch.tensor(work.labels), torch.tensor(work.earlier.labels)
    public = _some(work.public, SEEN * max(work.few_shot, work.retained), key)
    probabilities, same = _look(work.active, public)
    stay = ~same & ~torch.isin(public.labels, earlier) & ~public.left_out()
    public, probabilities = public.take(stay), probabilities[stay]
    order = keyed_order(public.rows, key)
    public, probabilities = public.take(order), probabilities[order]
    trust = probabilities.gather(1, public.labels[:, None])[:, 0]
    if work.settings.deepen:  # a model that has forgotten the labels doubts all their samples
        trust[torch.isin(public.labels, labels)] = 1.0
    suspected = trust < SUSPECT
    places = _choose(work, public, ~suspected if robust == "drop" else torch.ones_like(suspected))
    forgotten = torch.isin(public.labels[places], labels)
    places = torch.cat([places[forgotten], places[~forgotten]])
    suspects = [
        Suspect(public.ids[i], int(public.rows[i]), int(public.labels[i]), round(1 - p, 4))
        for i, p in enumerate(trust.tolist())
        if suspected[i]
    ]
    weights = trust[places] if robust == "weight" else torch.ones(len(places))
    return FewShotSamples(
        table=public.table,
        rows=public.rows[places].to(device),
        labels=public.labels[places].to(device),
        weights=weights.to(device),
        forgotten=int(forgotten.sum()),
        suspects=tuple(sorted(suspects, key=lambda suspect: -suspect.score)),
        duplicates=int(same.sum()),
    )


def _choose(work: Work, public: PublicSet, usable: Tensor) -> Tensor:
    """Return the places of the first usable samples of each label, as many as the request takes."""
    chosen = []
    for label, name in enumerate(work.names):
        if label in work.earlier.labels:
            continue
        most, least = (work.few_shot, 2) if label in work.labels else (work.retained, 1)
        places = ((public.labels == label) & usable).nonzero()[:, 0][:most]
        if len(places) < least:
            raise ForgetError(
                f"The public set has {len(places)} usable samples of label '{name}', and {least} "
                f"are needed; give more with --public, or none at all to use training rows."
            )
        chosen.append(places)
    return torch.cat(chosen)


def _some(public: PublicSet, most: int, key: str) -> PublicSet:
    """Return no more than `most` samples a label, so that a large set costs no more to look at."""
    order = keyed_order(public.rows, key)
    labels = public.labels[order]
    chosen = [order[labels == label][:most] for label in labels.unique().tolist()]
    return public.take(torch.cat(chosen).sort().values if chosen else order)


def _look(active: ActiveParty, public: PublicSet) -> tuple[Tensor, Tensor]:
    """Return the model's probabilities for each sample, and which samples repeat an earlier one."""
    embeddings = active.embeddings(public.rows.to(active.device), table=public.table)
    joined = torch.cat(embeddings, 1).double().cpu()
    with torch.no_grad():
        active.top.begin("predict", 0)
        probabilities = active.apply_top(embeddings).softmax(1).cpu()
    # |a - b|^2 = |a|^2 + |b|^2 - 2 ab, in float64 so that equal rows really come out equal.
    squares = joined.square().sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * joined @ joined.T
    earlier = torch.ones_like(distances, dtype=torch.bool).tril(-1)
    same = (earlier & (distances <= SAME**2 * squares.clamp_min(1e-12)[:, None])).any(1)
    return probabilities, same
