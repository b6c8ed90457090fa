"""The public set: a few samples a label whose labels are known, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.party import ActiveParty, Stream, keyed_order

Robust = Literal["none", "drop", "weight"]

#: A sample is suspected of a wrong label where the model gives its label less than this.
SUSPECT = 0.1
#: Samples a label that are looked at for each one that is wanted.
SEEN = 5
#: Samples of all labels that a request may look at where it looks at the same ones every time.
MOST = 2000
#: Embeddings nearer than this, relative to their length, are those of one sample held twice.
SAME = 1e-5


@dataclass(frozen=True)
class PublicSet:
    """Samples that every party holds its part of.

    table      where the parties find them: a table of their own, or rows of the training table
    rows       their rows in that table
    labels     their labels
    ids        what their owners call them
    disclosed  whether some were trained on, so that using them names members
    source     in words, for the outcome
    gone       which of them are of people whose labels were forgotten, None if none are; they are
               asked for like all others, and their labels are not used
    """

    table: str
    rows: Tensor
    labels: Tensor
    ids: tuple[str, ...]
    disclosed: bool
    source: str
    gone: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, kept: Tensor) -> PublicSet:
        """Return a part of the set, by position or by a mask."""
        places = kept.nonzero()[:, 0] if kept.dtype == torch.bool else kept
        ids = tuple(self.ids[place] for place in places.tolist())
        gone = None if self.gone is None else self.gone[places]
        return replace(self, rows=self.rows[places], labels=self.labels[places], ids=ids, gone=gone)

    def left_out(self) -> Tensor:
        """Return which samples are asked for but not used."""
        return torch.zeros(len(self), dtype=torch.bool) if self.gone is None else self.gone

    def even(self, most: int = MOST) -> PublicSet:
        """Return the same samples for every request: the first few of each label, in order.

        Each label gives as many as the others may, so that no more than `most` come together. Who
        looks at all samples alike cannot leave any out: those of people whose labels were forgotten
        come with labels in turn, which know nothing of them.
        """
        known = self.labels.unique().tolist()
        a_label = max(1, most // max(1, len(known)))
        places = [(self.labels == label).nonzero()[:a_label, 0] for label in known]
        found = self.take(torch.cat(places).sort().values) if places else self
        gone = found.left_out()
        in_turn = torch.tensor(known)[torch.arange(len(found)) % max(1, len(known))]
        return replace(found, labels=torch.where(gone, in_turn, found.labels)) if places else found

    def without(self, labels: Sequence[int]) -> PublicSet:
        """Return the samples of all other labels."""
        return self.take(~torch.isin(self.labels, torch.tensor(list(labels))))


@dataclass(frozen=True)
class Suspect:
    """A sample whose label the model does not believe: score = 1 - p(label)."""

    id: str
    row: int
    label: int
    score: float


@dataclass(frozen=True)
class Shots:
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


def draw_shots(
    active: ActiveParty,
    public: PublicSet,
    labels: Sequence[int],
    gone: Sequence[int],
    names: Sequence[str],
    *,
    few_shot: int,
    retained: int,
    robust: Robust = "none",
    key: str,
    again: bool = False,
) -> Shots:
    """Choose the samples of a request and look at them through the model as it is.

    labels  to forget now
    gone    forgotten earlier; their samples are not used
    key     of the request: nobody else can tell the choice from another label's
    again   the labels were forgotten before, so that the model doubts all their samples
    """
    # All labels are looked at, those forgotten earlier too: who is left out would be named.
    public = _some(public, SEEN * max(few_shot, retained), key)
    probabilities, same = _look(active, public)
    stay = ~same & ~torch.isin(public.labels, torch.tensor(list(gone))) & ~public.left_out()
    public, probabilities = public.take(stay), probabilities[stay]
    order = keyed_order(public.rows, key)
    public, probabilities = public.take(order), probabilities[order]
    trust = probabilities.gather(1, public.labels[:, None])[:, 0]
    if again:
        trust[torch.isin(public.labels, torch.tensor(list(labels)))] = 1.0
    suspected = trust < SUSPECT
    kept = ~suspected if robust == "drop" else torch.ones_like(suspected)
    chosen: list[Tensor] = []
    for label in range(len(names)):
        if label in gone:
            continue
        wanted = few_shot if label in labels else retained
        least = 2 if label in labels else 1
        own = ((public.labels == label) & kept).nonzero()[:, 0][:wanted]
        if len(own) < least:
            raise ForgetError(
                f"The public set has {len(own)} usable samples of label '{names[label]}', and "
                f"{least} are needed; give more with --public, or none at all to use training rows."
            )
        chosen.append(own)
    order = torch.cat(chosen)
    forgotten = torch.isin(public.labels[order], torch.tensor(list(labels)))
    order = torch.cat([order[forgotten], order[~forgotten]])
    suspects = [
        Suspect(
            public.ids[i], int(public.rows[i]), int(public.labels[i]), round(1 - trust[i].item(), 4)
        )
        for i in suspected.nonzero()[:, 0].tolist()
    ]
    return Shots(
        table=public.table,
        rows=public.rows[order].to(active.device),
        labels=public.labels[order].to(active.device),
        weights=(trust[order] if robust == "weight" else torch.ones(len(order))).to(active.device),
        forgotten=int(forgotten.sum()),
        suspects=tuple(sorted(suspects, key=lambda suspect: -suspect.score)),
        duplicates=int(same.sum()),
    )


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


def public_from_training(
    labels: Tensor, ids: Sequence[str], train: Tensor, per_label: int, *, seed: int
) -> PublicSet:
    """Take the public set from the training rows, as the paper does; its members are disclosed."""
    generator = Stream(seed, "public").generator("training")
    order = train[torch.randperm(len(train), generator=generator)]
    chosen = [order[labels[order] == label][:per_label] for label in labels.unique().tolist()]
    rows = torch.cat(chosen).sort().values
    source = "training rows, disclosed as members"
    return PublicSet("main", rows, labels[rows], tuple(ids[r] for r in rows.tolist()), True, source)
