"""Probes as measures: with how few labels do frozen embeddings still give a label away?

With all labels a probe learns a label even from embeddings that never knew it. With one or two
a class it can only find what is there. So the default is one labelled sample a class, averaged
over draws, and a curve shows the rest. Embeddings are seen in units of how rows of one label
differ (`told_apart`), so that an invertible map of them changes nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unlabel.audit.classifiers import nearest_calls, network_calls, ridge_calls
from unlabel.audit.intervals import mean_interval, share_interval
from unlabel.audit.layers import told_apart
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.errors import SettingsError, unknown
from unlabel.terms import Depth

#: Labelled samples a class along the curve; 0 stands for all training rows.
CURVE = (1, 2, 5, 10, 50, 0)
#: Draws of labelled samples that a figure is averaged over, unless all rows are taken.
DRAWS = 50
#: Draws of many labelled samples a class differ little: about so many samples a class in all.
ENOUGH, FEWEST = 100, 4
#: Labelled rows that vote, where every label has more than so many.
NEIGHBOURS = 20
#: Numbers in a table of embeddings from which on single precision is used.
LARGE = 2**24
#: Rows that a small network learns from at most, where it is given all.
NETWORK_ROWS = 2_000


def chosen_rows(labels: Tensor, per_label: int, seed: int) -> Tensor:
    """Return positions of so many random rows of every label, all of a label that has fewer."""
    random = torch.Generator().manual_seed(1_000_003 * per_label + seed)
    mixed = torch.randperm(len(labels), generator=random)
    # Sorted by label and random within a label; then the first few of every label.
    mixed = mixed[labels[mixed].argsort(stable=True)]
    order = labels[mixed]
    place = torch.arange(len(order)) - torch.searchsorted(order, order)
    return mixed[place < per_label]


@dataclass(frozen=True)
class Probe(Measure):
    """A classifier over all labels on frozen embeddings.

    per_label  labelled training rows a label, 0 for all
    draws      random draws of them that are averaged; 0 for 50 (fewer where rows are many)
    party      whose embeddings; empty for all parties' together
    brief      leave each party alone and the curve out, which take long on large tables
    """

    depth: ClassVar[Depth | None] = "bottoms"
    slow: ClassVar[bool] = True

    per_label: int = 1
    draws: int = 0
    party: str = ""
    brief: bool = False

    def __post_init__(self) -> None:
        for name, value in (("per_label", self.per_label), ("draws", self.draws)):
            if value < 0:
                raise SettingsError(f"Expected `{name}` of at least 0 but got {value}.")

    @abstractmethod
    def calls(self, x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
        """Return [draws, m]: labels of test rows [m, d] by x [draws, n, d], labels [draws, n]."""

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Probe one party or all, then each alone, then with more labels."""
        if self.party and self.party not in observed.train.embeddings:
            raise SettingsError(unknown("party", self.party, observed.train.embeddings))
        if not len(observed.test.of(labels)) or not len(observed.train.of(labels)):
            return Figure(None, note="There are no rows of the forgotten labels to probe with.")
        count = len(observed.names)
        table = _table(observed, labels, self.party)
        figure = self._figure(*table, count, self.per_label)
        if self.brief:
            return figure
        parties = {
            party: _plain(self._figure(*_table(observed, labels, party), count, self.per_label))
            for party in observed.train.embeddings
        }
        table = _table(observed, labels, "") if self.party else table
        curve = []
        for per_label in CURVE:
            same = per_label == self.per_label and not self.party
            point = figure if same else self._figure(*table, count, per_label)
            curve.append({"shots": per_label or "all", **_plain(point)})
        detail = {**figure.detail, "parties": parties, "curve": curve}
        return Figure(figure.value, figure.low, figure.high, detail)

    def _figure(
        self, x: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int, per_label: int
    ) -> Figure:
        """Return the accuracy on test rows, averaged over draws of labelled rows."""
        draws = self.draws or max(FEWEST, min(DRAWS, ENOUGH // max(1, per_label)))
        draws = draws if per_label else 1
        rows = [
            chosen_rows(labels, per_label, draw) if per_label else torch.arange(len(labels))
            for draw in range(draws)
        ]
        picked = torch.stack(rows)
        called = self.calls(x[picked], labels[picked], test, count)
        right = (called == truth).double().mean(1).tolist()
        value = sum(right) / draws
        # Draws that all agree say nothing about how sure the figure is; the rows do.
        if len(set(right)) > 1:
            low, high = mean_interval(right)
            interval = max(0.0, low), min(1.0, high)
        else:
            interval = share_interval(round(value * len(truth)), len(truth))
        return Figure(value, *interval, {"draws": draws, "shots": per_label or "all"})


def _plain(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def _table(
    observed: Observation, labels: tuple[int, ...], party: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return embeddings and labels of training rows, and of test rows of the forgotten labels."""
    train, test = observed.train, observed.test.of(labels)
    x, queries = (part.embeddings[party] if party else part.joined() for part in (train, test))
    x, queries = told_apart(x, train.labels, labels, queries)
    if x.numel() > LARGE:
        x, queries = x.float(), queries.float()
    return x, train.labels, queries, test.labels


@MEASURES.register("probe-linear")
@dataclass(frozen=True)
class LinearProbe(Probe):
    """Accuracy on test rows of the forgotten labels of a ridge classifier (`ridge_calls`).

    It is fitted on `per_label` training rows of every label, forgotten ones too, and averaged over
    draws of these rows; the interval is that of the mean over draws, and with all rows, or where
    all draws agree, that of Clopper and Pearson. `parties` has each party alone, `curve` all
    parties by labelled rows.
    """

    about: ClassVar[str] = "what a linear probe with one label a class finds in the embeddings"

    def calls(self, x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
        """Solve for each draw."""
        return torch.stack([ridge_calls(a, b, test, count) for a, b in zip(x, labels, strict=True)])


@MEASURES.register("probe-nearest")
@dataclass(frozen=True)
class NearestProbe(Probe):
    """Accuracy on test rows of the forgotten labels by the nearest labelled rows, by cosine.

    The nearest one decides where labels are few; a vote of 20 where a label has more rows than
    that. Draws, interval and detail are those of `probe-linear`.
    """

    about: ClassVar[str] = "what the nearest of one labelled sample a class finds in the embeddings"

    def calls(self, x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
        """Look for neighbours in each draw."""
        near = NEIGHBOURS if x.shape[1] > NEIGHBOURS * count else 1
        return torch.stack(
            [nearest_calls(a, b, test, count, near) for a, b in zip(x, labels, strict=True)]
        )


@MEASURES.register("probe-mlp")
@dataclass(frozen=True)
class NetworkProbe(Probe):
    """Accuracy on test rows of the forgotten labels of a small network (`network_calls`).

    Draws, interval and detail are those of `probe-linear`. Where it would be given more than
    2,000 rows it gets so many at random; with all of a large table it would take minutes.
    """

    about: ClassVar[str] = "what a small network with one label a class finds in the embeddings"

    def calls(self, x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
        """Train the networks of all draws side by side."""
        if x.shape[1] > NETWORK_ROWS:
            random = torch.Generator().manual_seed(0)
            some = torch.randperm(x.shape[1], generator=random)[:NETWORK_ROWS]
            x, labels = x[:, some], labels[:, some]
        return network_calls(x, labels, test, count)
