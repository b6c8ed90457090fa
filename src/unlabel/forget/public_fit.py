"""Whether a public set and a model speak of the same things.

Of a public set from another domain, or with labels in another order, the model calls most samples
something else. Let a be the share of n public samples that the model calls by their label, b the
share of m test rows, and c = 1 / labels what guessing would reach. Each label counts in b as much
as in a: b is the sum of n_y / n times the share among test rows of y.

    doubtful  where a < b - `GAP` - 2 sqrt(b (1 - b) (1 / n + 1 / m))
    useless   where a <= c + (b - c) / 10 + 2 sqrt(c (1 - c) / n),
              and a < (b + c) / 2, and b > (1 + c) / 2

The roots are how far shares of so few stray by chance. Pictures of something else agree by a little
more than chance, so a tenth of the way from guessing to the test rows is as good as none of it. The
second condition spares small sets, the third a model nearer to guessing than to knowing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from unlabel.train import Evaluation

#: Points of accuracy that a public set may lie below the test rows without a word.
GAP = 0.1
#: Share of the way from guessing to the test rows that is as good as none.
NONE = 0.1


@dataclass(frozen=True)
class Fit:
    """How often the model calls samples by their label.

    public   of the public samples
    test     of the test rows, with the same shares of labels
    labels   how many labels there are to choose from
    samples  how many public samples
    rows     how many test rows
    """

    public: float
    test: float
    labels: int
    samples: int
    rows: int

    @classmethod
    def of(
        cls, logits: Tensor, labels: Tensor, tested: Evaluation, past: Iterable[int]
    ) -> Fit | None:
        """Return the fit of public samples [n, C], None where there is nothing to compare.

        past  labels that were forgotten earlier, which count on neither side
        """
        forgotten = set(past)
        stay = [label for label in range(len(tested.confusion)) if label not in forgotten]
        known = {label: sum(tested.confusion[label]) for label in stay}
        both = [label for label in stay if known[label]]
        used = torch.isin(labels, torch.tensor(both, dtype=labels.dtype))
        if not used.any() or len(stay) < 2:
            return None
        right = (logits[used].argmax(1) == labels[used]).float().mean().item()
        samples = labels[used].tolist()
        test = sum(tested.confusion[y][y] / known[y] for y in samples) / len(samples)
        rows = sum(known[label] for label in set(samples))
        return cls(right, test, len(stay), len(samples), rows)

    def doubtful(self) -> bool:
        """Return whether the public set lies far below the test rows.

        >>> Fit(0.9, 0.98, 10, 400, 500).doubtful(), Fit(0.6, 0.98, 10, 400, 500).doubtful()
        (False, True)
        """
        stray = sqrt(self.test * (1 - self.test) * (1 / self.samples + 1 / self.rows))
        return self.public < self.test - GAP - 2 * stray

    def useless(self) -> bool:
        """Return whether the public labels are no better than guessed.

        >>> Fit(0.6, 0.98, 10, 400, 500).useless(), Fit(0.08, 0.98, 10, 400, 500).useless()
        (False, True)
        """
        chance = 1 / self.labels
        stray = 2 * sqrt(chance * (1 - chance) / self.samples)
        guessed = self.public <= chance + NONE * (self.test - chance) + stray
        knows = self.test > (1 + chance) / 2
        return guessed and knows and self.public < (self.test + chance) / 2

    def sentence(self) -> str:
        """Return both figures in words."""
        return (
            f"The model calls {self.public:.0%} of the {self.samples} public samples by their "
            f"label and {self.test:.0%} of the test rows: the public set may be of another domain, "
            f"or wrongly labelled."
        )

    def refusal(self) -> str:
        """Return why a request with such a public set is not carried out."""
        return (
            f"The model calls {self.public:.0%} of the {self.samples} public samples by their "
            f"label, hardly more than guessing among {self.labels} labels would, and "
            f"{self.test:.0%} of the test rows; nothing was changed. Give samples of the model's "
            f"own domain, or add --any-public."
        )
