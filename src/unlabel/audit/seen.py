"""What an audit looks at: everything a model says of all rows, asked for in one fixed order.

The audit itself must not tell. Asking a party for the forgotten rows alone, or for all others,
would name them; so every party is asked for every row of its table, from the first to the last,
whatever was forgotten. All measures are functions of what came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlabel.data import ACTIVE, Rows
from unlabel.models.tops import MUTED, Top
from unlabel.party import ActiveParty


@dataclass(frozen=True)
class Part:
    """Rows of one part of the data, as one model sees them.

    labels      [n]
    logits      [n, C], what is predicted from
    scores      [n, C], the same before any output was muted: who holds the weights lifts a mask
    embeddings  [n, width] a party, by name
    """

    labels: Tensor
    logits: Tensor
    scores: Tensor
    embeddings: dict[str, Tensor]

    def joined(self) -> Tensor:
        """Return the embeddings of all parties side by side."""
        return torch.cat(list(self.embeddings.values()), 1)

    def of(self, labels: Sequence[int]) -> Part:
        """Return the rows of some labels."""
        return self.take(torch.isin(self.labels, torch.tensor(list(labels))))

    def without(self, labels: Sequence[int]) -> Part:
        """Return the rows of all other labels."""
        return self.take(~torch.isin(self.labels, torch.tensor(list(labels))))

    def take(self, chosen: Tensor) -> Part:
        """Return some rows, by a mask or by position."""
        return Part(
            self.labels[chosen],
            self.logits[chosen],
            self.scores[chosen],
            {party: values[chosen] for party, values in self.embeddings.items()},
        )

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Seen:
    """One model, seen on the rows it was trained on and on those it was not.

    train  rows of training, those of labels that were forgotten among them
    test   rows that no model of this run was trained on
    names  of the labels, in the order of their numbers
    """

    train: Part
    test: Part
    names: tuple[str, ...]

    def masked(self, labels: Sequence[int]) -> Seen:
        """Return the control: the same model with the outputs of labels muted."""

        def mute(part: Part) -> Part:
            logits = part.logits.clone()
            logits[:, list(labels)] += MUTED
            return replace(part, logits=logits)

        return replace(self, train=mute(self.train), test=mute(self.test))


@torch.no_grad()
def look(active: ActiveParty, rows: Rows, names: Sequence[str]) -> Seen:
    """Ask every party for all of its rows, in the order of their numbers."""
    every = torch.arange(len(active.labels), device=active.device)
    found = active.embeddings(every)
    active.top.begin("predict", 0)
    logits = scores = active.apply_top(found)
    top = active.top.module
    if isinstance(top, Top) and bool(top.muted.any()):
        # Subtracting what was added would leave three digits of a muted score.
        with active.top.place.autocast():
            scores = top.unmuted(found).float()
    parties = [*([ACTIVE] if active.own is not None else []), *active.parties]
    every_row = Part(
        active.labels.cpu(),
        logits.cpu(),
        scores.cpu(),
        {party: values.cpu() for party, values in zip(parties, found, strict=True)},
    )
    return Seen(every_row.take(rows.train.cpu()), every_row.take(rows.test.cpu()), tuple(names))
