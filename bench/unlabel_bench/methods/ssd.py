"""Selective synaptic dampening (Foster, Schoepf and Brintrup, AAAI 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Work
from unlabel.train import batches
from unlabel_bench.shaping import accumulate_fisher

#: The names of the sums that every party gathers.
EVERY, FORGOTTEN = "every", "forgotten"


@METHODS.register("ssd")
@dataclass(frozen=True)
class SelectiveDampening(Method):
    """Shrink the weights that matter far more to the forgotten rows than to all rows.

    With I(D) = mean over batches of D of (d CE(batch) / d w)^2, normalisation as in prediction,
    I_D over all training rows and I_f over the forgotten ones, every party for its own weights:

        where I_f > alpha I_D:    w <- w min(strength I_D / I_f, 1)

    Nothing is trained. It hangs on alpha: too low and the rest goes too, too high and nothing does.

    alpha     how much more a weight must matter
    strength  lambda in the paper
    batch     rows whose mean loss is differentiated at a time
    """

    about = "weights that matter most to the label are dampened; no training"
    tells_partners = "the forgotten rows, in messages of their own, and their gradients"
    needs = "all"
    disclosure = Disclosure.of(
        "forgotten retained", messages="BeginRequest AccumulateFisher TransformWeights", alone=True
    )

    alpha: float = 10.0
    strength: float = 1.0
    batch: int = 64

    def __post_init__(self) -> None:
        self.expect_at_least(alpha=0, strength=0, batch=1)

    def run(self, work: Work) -> None:
        """Gather both importances, then dampen."""
        work.use_optimisers(STILL)
        every = work.training_rows
        objective = work.cross_entropy(work.active.labels)
        total, done = len(every) + len(work.forgotten_rows), 0
        for rows, sum_name in ((every, EVERY), (work.forgotten_rows, FORGOTTEN)):
            for piece in batches(rows, self.batch, seed=work.seed, epoch=-1):
                accumulate_fisher(work, piece, objective(piece), sum_name=sum_name)
                done += len(piece)
                if work.steps % 10 == 0:
                    work.watch(done, total, "importance")
        work.transform_weights(
            "dampen",
            sum_name=FORGOTTEN,
            reference=EVERY,
            threshold=self.alpha,
            strength=self.strength,
        )
