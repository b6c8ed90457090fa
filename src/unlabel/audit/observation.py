"""What an audit observes of a model: its embeddings and scores of all rows, in one fixed order.

The audit itself must not reveal the request. Asking a party for the forgotten rows alone, or for
all others, would name them; so every party is asked for every row of its table, from the first to
the last, and of a table of more than 100,000 rows for so many, drawn without looking at labels and
the same in every audit; of the model that is judged for all, since tops are fitted to them. All
measures are functions of the answers. An observation of a retrained model is kept in a file, so
that the model is retrained once and not for every audit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from unlabel.data import Rows
from unlabel.errors import RunError
from unlabel.files import sha256, write_atomically
from unlabel.models.tops import MUTED, Top
from unlabel.party import ActiveParty
from unlabel.progress import Watch, watch_nothing

PARTS = ("train", "test")
TENSORS = ("labels", "logits", "scores")
#: Rows that are looked at, at most; the cost of an audit is flat from there on.
SAMPLED = 100_000
#: In a file's metadata: SHA-256 of its tensors.
CONTENT = "content"


@dataclass(frozen=True)
class ObservedRows:
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

    def of(self, labels: Sequence[int]) -> ObservedRows:
        """Return the rows of some labels."""
        return self.take(torch.isin(self.labels, torch.tensor(list(labels))))

    def without(self, labels: Sequence[int]) -> ObservedRows:
        """Return the rows of all other labels."""
        return self.take(~torch.isin(self.labels, torch.tensor(list(labels))))

    def take(self, chosen: Tensor) -> ObservedRows:
        """Return some rows, by a mask or by position."""
        return ObservedRows(
            self.labels[chosen],
            self.logits[chosen],
            self.scores[chosen],
            {party: values[chosen] for party, values in self.embeddings.items()},
        )

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Observation:
    """One model, observed on the rows it was trained on and on those it was not.

    train  rows of training, those of labels that were forgotten among them
    test   rows that no model of this run was trained on
    names  of the labels, in the order of their numbers
    top    the label holder's model, to look inside; None where only its answers were kept
    every  embeddings, one tensor a party, and labels of all training rows, where `train` is a
           sample: what a new top was taught by is more than a sample of it
    """

    train: ObservedRows
    test: ObservedRows
    names: tuple[str, ...]
    top: nn.Module | None = field(default=None, compare=False, repr=False)
    every: tuple[list[Tensor], Tensor] | None = field(default=None, compare=False, repr=False)

    @property
    def taught(self) -> tuple[list[Tensor], Tensor]:
        """Embeddings, one tensor a party, and labels of all training rows."""
        return self.every or (list(self.train.embeddings.values()), self.train.labels)

    def masked(self, labels: Sequence[int]) -> Observation:
        """Return the control: the same model with the outputs of labels muted."""

        def mute(part: ObservedRows) -> ObservedRows:
            logits = part.logits.clone()
            logits[:, list(labels)] += MUTED
            return replace(part, logits=logits)

        return replace(self, train=mute(self.train), test=mute(self.test))


@torch.no_grad()
def observe(
    active: ActiveParty,
    rows: Rows,
    names: Sequence[str],
    *,
    whole: bool = False,
    every: bool = False,
    watch: Watch = watch_nothing,
) -> Observation:
    """Ask every party for all of its rows, or for a sample, in the order of their numbers.

    whole  all, however many: of people none may be missing
    every  ask for all, look at a sample, and keep the embeddings of all training rows
    watch  called with the rows so far
    """
    count = len(active.labels)
    asked = (torch.arange(count) if whole else sampled(count)).to(active.device)
    taught = None
    if every and len(asked) < count:
        embeddings = active.embeddings(torch.arange(count, device=active.device), watch=watch)
        known = rows.train[active.labels[rows.train.to(active.device)].cpu() >= 0]
        trained = known.to(active.device)
        taught = [part[trained].cpu() for part in embeddings], active.labels[trained].cpu()
        embeddings = [part[asked] for part in embeddings]
    else:
        embeddings = active.embeddings(asked, watch=watch)
    active.top.begin("predict", 0)
    logits = scores = active.spread(active.apply_top(embeddings))
    top = active.top.module
    if isinstance(top, Top) and bool(top.muted.any()):
        # Subtracting what was added would leave three digits of a muted score.
        with active.top.place.autocast():
            scores = top.unmuted(embeddings).float()
    seen = ObservedRows(
        active.labels[asked].cpu(),
        logits.cpu(),
        scores.cpu(),
        {party: values.cpu() for party, values in zip(active.embedded, embeddings, strict=True)},
    )
    # Where each row stands among those that were asked for, -1 where it was not.
    places = torch.full((len(active.labels),), -1)
    places[asked.cpu()] = torch.where(seen.labels >= 0, torch.arange(len(seen)), -1)
    positions = (places[part.cpu()] for part in (rows.train, rows.test))
    train, test = (seen.take(place[place >= 0]) for place in positions)
    return Observation(train, test, tuple(names), copy.deepcopy(top).cpu().eval(), taught)


def sampled(rows: int) -> Tensor:
    """Return the rows to look at, in order: all, or 100,000 that only their number decides."""
    if rows <= SAMPLED:
        return torch.arange(rows)
    drawn = torch.randperm(rows, generator=torch.Generator().manual_seed(rows))
    return drawn[:SAMPLED].sort().values


def write_observation(path: Path, observed: Observation, made_from: Mapping[str, str]) -> None:
    """Write an observation to a file that its owner alone can read: it holds all labels.

    made_from  what the model was trained from; it stands in the file, with the content's hash
    """
    tensors: dict[str, Tensor] = {}
    for name in PARTS:
        rows: ObservedRows = getattr(observed, name)
        tensors |= {f"{name}/{kind}": getattr(rows, kind) for kind in TENSORS}
        tensors |= {f"{name}/embeddings/{p}": values for p, values in rows.embeddings.items()}
    copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    noted = {**made_from, CONTENT: sha256(save(copies))}
    write_atomically(path, save(copies, noted), mode=0o600)


def read_observation(
    path: Path, names: Sequence[str], made_from: Mapping[str, str]
) -> tuple[Observation, str]:
    """Return the observation in a file and the hash of its content, or say that it does not fit.

    names  of the labels

    A file that does not fit is refused and not replaced: nothing that an audit does leaves one
    there, so its owner should know before it is gone.
    """
    try:
        with safe_open(path, "pt") as file:
            noted = file.metadata()
        tensors = load_file(path)
        train, test = (_rows(tensors, name) for name in PARTS)
        content = sha256(save(tensors))
        if noted != {**made_from, CONTENT: content}:
            raise ValueError("its content, recipe or seed is another")
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise RunError(
            f"'{path}' is not what an audit kept of a model retrained on these data, by this "
            f"recipe and from this seed; remove the file, and the next audit retrains it."
        ) from error
    return Observation(train, test, tuple(names)), content


def _rows(tensors: dict[str, Tensor], name: str) -> ObservedRows:
    start = f"{name}/embeddings/"
    labels, logits, scores = (tensors[f"{name}/{kind}"] for kind in TENSORS)
    embeddings = {
        key.removeprefix(start): values
        for key, values in sorted(tensors.items())
        if key.startswith(start)
    }
    return ObservedRows(labels, logits, scores, embeddings)
