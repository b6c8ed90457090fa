"""The three-sample test: are the answers nearer to a retrained model's than to the original's?"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.audit.figures import Unit
from unlabel.audit.measure import Comparison, Figure, Models
from unlabel.audit.observation import Observation
from unlabel.terms import Depth
from unlabel_bench.rivals import RIVALS

#: Rows of the forgotten labels at most: the test compares all pairs.
ROWS = 2_000


@RIVALS.register("three-sample")
@dataclass(frozen=True)
class ThreeSample(Comparison):
    """p of the hypothesis that answers are no nearer to a retrained model's than to the original's.

    Of test rows of the forgotten labels, with p(labels that stay), renormalised, of the model (U),
    of a retrained one (R; of one of these, of another) and of the original (O):

        H0: MMD(U, R) >= MMD(U, O),    p = Phi(D / s),    D = MMD^2(U, R) - MMD^2(U, O).

    A Gaussian kernel of the median distance; D and its standard error s as in `nearer`. A small p:
    nearer to the retrained model. A mask has the original's answers, and p near 1. `than_original`
    has p of the weaker claim, MMD(R, U) < MMD(R, O): the model moved towards the retrained one.

    Our reading: Ribero, Schrab and Gretton (AISTATS 2026) test by regularised f-divergences with a
    kernel; this is the relative test by MMD of Bounliphone et al. (ICLR 2016), for rows in pairs.
    """

    about: ClassVar[str] = "p: answers no nearer to a retrained model's than to the original's"
    depth: ClassVar[Depth | None] = "answers"
    higher_is_better: ClassVar[bool | None] = False
    unit: ClassVar[Unit] = "number"

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Test with the first retrained model that is another one."""
        others = [each for each in models.get("retrained", ()) if each is not observed]
        if "original" not in models or not others:
            return Figure(None, note="It needs the original and a retrained model.")
        now, aim, old = (
            _answers(each, labels) for each in (observed, others[0], models["original"][0])
        )
        if len(now) < 2:
            return Figure(None, note="It needs two test rows of the forgotten labels.")
        return Figure(
            nearer(now, aim, old),
            detail={"than_original": nearer(aim, now, old), "rows": len(now)},
        )


def _answers(observed: Observation, labels: tuple[int, ...]) -> Tensor:
    stay = [n for n in range(len(observed.names)) if n not in labels]
    return observed.test.of(labels).logits[:ROWS, stay].double().softmax(1)


def nearer(x: Tensor, y: Tensor, z: Tensor) -> float:
    """Return p of H0: y is no nearer to x than z is; rows stand in pairs, row i of each.

    D = MMD_u^2(x, y) - MMD_u^2(x, z) is the mean over i != j of

        h(i, j) = k(y_i, y_j) - k(z_i, z_j) - k(x_i, y_j) - k(x_j, y_i) + k(x_i, z_j) + k(x_j, z_i),

    a U-statistic of independent triples, so s^2 = 4 var_i(mean_j h(i, j)) / n. 0.5 where y and z
    are the same.
    """
    every = torch.cat([x, y, z])
    apart = torch.pdist(every)
    apart = apart[apart > 0]
    if not len(apart):
        return 0.5
    width = 2 * float(apart.median()) ** 2

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(a, b).square() / width)

    across = kernel(x, y) - kernel(x, z)
    h = kernel(y, y) - kernel(z, z) - across - across.T
    h.fill_diagonal_(0)
    rows = h.sum(1) / (len(x) - 1)
    error = float((4 * rows.var() / len(x)).sqrt())
    difference = float(rows.mean())
    if error == 0:
        return 0.5 if difference == 0 else float(difference > 0)
    return NormalDist().cdf(difference / error)
