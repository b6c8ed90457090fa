"""Linear-probe recovery: can a line still tell the label's rows from all others?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.audit.ranking import Ranking
from unlabel.terms import Depth
from unlabel_bench.rivals import RIVALS

#: Share of the test rows that the probe is judged on; it is fitted to the others.
HELD_OUT = 0.3
#: Inverse strength of its ridge, and steps at most.
C, STEPS = 1.0, 1000


@RIVALS.register("lpr")
@dataclass(frozen=True)
class LinearProbeRecovery(Measure):
    """Balanced accuracy of a logistic regression that tells forgotten rows from the rest (Mirage).

    Standardised embeddings of all parties side by side, test rows alone: fitted to 70 % of them,
    drawn by label, and judged on the others,

        value = (P(called forgotten | forgotten) + P(called retained | retained)) / 2.

    0.5 is chance. Features alone may tell a label from others, so what says something is the gap
    to retrained models, value minus theirs. `auc` has the area under the curve. The interval comes
    from held-out rows drawn again.
    """

    about: ClassVar[str] = "forgotten rows told from the rest by a linear probe of test embeddings"
    depth: ClassVar[Depth | None] = "bottoms"

    seed: int = 0

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Fit and judge."""
        test = observed.test
        forgotten = np.isin(test.labels.numpy(), labels)
        if min(forgotten.sum(), (~forgotten).sum()) < 4:
            return Figure(None, note="It needs four test rows of forgotten labels and of others.")
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        x, asked, y, truth = train_test_split(
            test.joined().double().numpy(),
            forgotten,
            test_size=HELD_OUT,
            random_state=self.seed,
            stratify=forgotten,
        )
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=STEPS)).fit(x, y)
        score = probe.decision_function(asked)
        hits = (score > 0) == truth

        def balanced(weights: Array) -> Array:
            shares = [
                (weights * hits)[:, side].sum(1) / weights[:, side].sum(1)
                for side in (truth, ~truth)
            ]
            mean: Array = np.mean(shares, axis=0)
            return mean

        value = float(balanced(np.ones((1, len(truth))))[0])
        auc = float(Ranking(score, truth).auc()[0])
        return Figure(value, *bootstrap(balanced, truth.astype(np.int64)), {"auc": auc})
