"""Probes as measures: with how few labels do frozen embeddings still give a label away?

With all labels a probe learns a label even from embeddings that never knew it. With one or two
a class it can only find what is there. So the default is one labelled sample a class, averaged
over draws, and a curve shows the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unlabel.audit.intervals import mean_interval, share_interval
from unlabel.audit.measure import MEASURES, Figure, Level, Measure
from unlabel.audit.probes import (
    NEIGHBOURS,
    nearest_calls,
    network_calls,
    ridge_calls,
    standardised,
)
from unlabel.audit.seen import Part, Seen
from unlabel.errors import SettingsError, unknown

#: Labelled samples a class along the curve; 0 stands for all training rows.
CURVE = (1, 2, 5, 10, 50, 0)
#: Draws of labelled samples that a figure is averaged over, unless all rows are taken.
DRAWS = 50
#: Draws of many labelled samples a class differ little: about so many samples a class in all.
ENOUGH, FEWEST = 100, 4
#: Numbers in a table of embeddings from which on single precision is used.
LARGE = 2**24
#: Rows that a small network learns from at most, where it is given all.
NETWORK_ROWS = 2_000


def chosen_rows(labels: Tensor, shots: int, seed: int) -> Tensor:
    """Return positions of so many random rows of every label, all of a label that has fewer."""
    random = torch.Generator().manual_seed(1_000_003 * shots + seed)
    mixed = torch.randperm(len(labels), generator=random)
    # Sorted by label and random within a label; then the first few of every label.
    mixed = mixed[labels[mixed].argsort(stable=True)]
    order = labels[mixed]
    place = torch.arange(len(order)) - torch.searchsorted(order, order)
    return mixed[place < shots]


@dataclass(frozen=True)
class Probe(Measure):
    """A classifier over all labels on standardised frozen embeddings.

    shots  labelled training rows a class, 0 for all
    draws  random draws of them that are averaged; 0 for 50 (fewer where shots are many)
    party  whose embeddings; empty for all parties' together
    brief  leave each party alone and the curve out, which take long on large tables
    """

    level: ClassVar[Level | None] = "deep"

    shots: int = 1
    draws: int = 0
    party: str = ""
    brief: bool = False

    def __post_init__(self) -> None:
        for name in ("shots", "draws"):
            if getattr(self, name) < 0:
                got = getattr(self, name)
                raise SettingsError(f"Expected `{name}` of at least 0 but got {got}.")

    @abstractmethod
    def calls(self, x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
        """Return [draws, m]: labels of test rows [m, d] by x [draws, n, d], labels [draws, n]."""

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Probe one party or all, then each alone, then with more labels."""
        if self.party and self.party not in seen.train.embeddings:
            raise SettingsError(unknown("party", self.party, seen.train.embeddings))
        asked = seen.test.of(labels)
        if not len(asked) or not len(seen.train.of(labels)):
            return Figure(None, note="There are no rows of the forgotten labels to probe with.")
        count = len(seen.names)
        found = self._figure(*_table(seen.train, asked, self.party), count, self.shots)
        if self.brief:
            return found
        parties = {
            party: _plain(self._figure(*_table(seen.train, asked, party), count, self.shots))
            for party in seen.train.embeddings
        }
        table = _table(seen.train, asked, "")
        curve = []
        for shots in CURVE:
            same = shots == self.shots and not self.party
            point = found if same else self._figure(*table, count, shots)
            curve.append({"shots": shots or "all", **_plain(point)})
        detail = {**found.detail, "parties": parties, "curve": curve}
        return Figure(found.value, found.low, found.high, detail)

    def _figure(
        self, x: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int, shots: int
    ) -> Figure:
        """Return the accuracy on test rows, averaged over draws of labelled rows."""
        draws = self.draws or max(FEWEST, min(DRAWS, ENOUGH // max(1, shots)))
        draws = draws if shots else 1
        rows = [
            chosen_rows(labels, shots, draw) if shots else torch.arange(len(labels))
            for draw in range(draws)
        ]
        called = self._called(x, labels, test, count, rows)
        right = (called == truth).double().mean(1).tolist()
        value = sum(right) / draws
        # Draws that all agree say nothing about how sure the figure is; the rows do.
        if len(set(right)) > 1:
            low, high = mean_interval(right)
            interval = max(0.0, low), min(1.0, high)
        else:
            interval = share_interval(round(value * len(truth)), len(truth))
        return Figure(value, *interval, {"draws": draws, "shots": shots or "all"})

    def _called(
        self, x: Tensor, labels: Tensor, test: Tensor, count: int, rows: Sequence[Tensor]
    ) -> Tensor:
        if len(rows) == 1:
            return self.calls(x[rows[0]][None], labels[rows[0]][None], test, count)
        picked = torch.stack(list(rows))
        return self.calls(x[picked], labels[picked], test, count)


def _plain(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def _table(train: Part, test: Part, party: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return standardised embeddings and labels of training rows and of test rows."""
    x, queries = (part.embeddings[party] if party else part.joined() for part in (train, test))
    exact = x.numel() <= LARGE
    x, queries = (part.double() if exact else part.float() for part in (x, queries))
    x, queries = standardised(x, queries)
    return x, train.labels, queries, test.labels


@MEASURES.register("probe-linear")
@dataclass(frozen=True)
class LinearProbe(Probe):
    """Accuracy on test rows of the forgotten labels of a ridge classifier (`ridge_calls`).

    It is fitted on `shots` training rows of every label, forgotten ones among them, and averaged
    over draws of these rows; the interval is that of the mean over draws, and with all rows, or
    where all draws agree, that of Clopper and Pearson. `parties` has each party alone, `curve`
    all parties by labelled rows.
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
