"""Labels of people: answer about them as a helper does that never learnt their labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unlabel.config import OptimiserSettings, expect
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Objective, Work
from unlabel.train import batch_count
from unlabel.train.label_record import UNKNOWN

#: Least probability of a target inside a logarithm.
FLOOR = 1e-7
#: Accuracy on the public rows that a request may cost.
ALLOWED_LOSS = 0.03


@METHODS.register("people")
@dataclass(frozen=True)
class People(Method):
    """Forget the labels of listed people, not their class.

    F is the trained model, L the listed rows, A and B two random covers of other training rows (A
    as large as B with L in it), V the public rows with labels y, M the model that moves, and
    p_M(x) = softmax M(x).

    1. Helper G: all models drawn anew, trained on A alone. It has met no label of L. Then every
       party returns to F.
    2. Target q_i = softmax(b G(x_i)) for i in L, where b = level(G, mean over V of p_M(v)[y_v]):
       as sure as the moving model is of people it has never seen. Found anew before every pass.
    3. Fit over L and B together, in random batches:
         i in L   weight x (KL(q_i || p_i) + tail x mean over labels of (log p_i - log q_i)^2)
         i in B   KL(p_F(x_i) || p_i)
       A wrong label known by heart falls, since G would not guess it; a right one stays.
    4. The top's last layer, where it is linear, is multiplied by level(M, mean over V of
       p_F(v)[y_v]), so that people never seen are answered as surely as before.

    level(Z, c) is the factor b at which the mean over V of softmax(b Z(v))[y_v] is c, and at most
    the one at which the mean confidence in the top label is the reference's.

    Listed rows are asked for only among those of B, and A holds none of them, so this does not
    name them; the gradients' size may, and so does a later training, which leaves them out.

    helper        passes over A
    passes        passes over L and B
    least_steps   steps at least, for the helper and for the fit
    weight        of a listed row against a cover row
    tail          of the squared difference of log-probabilities
    lr            highest rate; it falls to zero along a cosine
    weight_decay  of SGD
    """

    about = "the labels of listed people, by a helper that never learnt them"
    tells_partners = "two random covers, one of which holds the people; gradient sizes"
    people = True
    needs = "all"
    disclosure = Disclosure.of(
        "forgotten retained public", "forgotten retained", "BeginRequest Rollback"
    )

    helper: int = 10
    passes: int = 5
    least_steps: int = 80
    weight: float = 3.0
    tail: float = 0.05
    lr: float = 0.05
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(helper=1, passes=1)
        expect("weight", self.weight, self.weight > 0, "above 0")
        expect("lr", self.lr, self.lr > 0, "above 0")

    def run(self, work: Work) -> None:
        """Train the helper, return, fit, and level."""
        active, among = work.active, work.cover
        listed = torch.isin(among, work.forgotten_rows)
        public = Held(work)
        before, start = public.logits(), active.logits(among).softmax(1)
        saved = active.versions.snapshot()
        learn = work.cross_entropy(active.labels)
        self._train(work, work.other_cover, self.helper, learn, "helper", reinitialise=1.0)
        helped, known = active.logits(among), public.logits()
        work.undo(saved)
        target = work.by_row(among, start)
        is_listed = torch.zeros(len(active.labels), dtype=torch.bool, device=active.device)
        is_listed[among[listed]] = True

        def aim() -> None:
            """Set the targets of listed people to what the model now answers never-seen people."""
            factor = level(known, public.labels, public.logits())
            target[among[listed]] = (factor * helped[listed]).softmax(1)

        def objective(rows: Tensor) -> Objective:
            q = target[rows]
            weights = torch.where(is_listed[rows], self.weight, 1.0)
            tails = torch.where(is_listed[rows], self.tail, 0.0)

            def fit(embeddings: list[Tensor]) -> Tensor:
                log_p = active.apply_top(embeddings).log_softmax(1)
                gap = (torch.xlogy(q, q) - q * log_p).sum(1)
                distance = (log_p - q.clamp_min(FLOOR).log()).square().mean(1)
                return (weights * (gap + tails * distance)).mean()

            return fit

        self._train(work, among, self.passes, objective, "fitting", before_pass=aim)
        factor, last = level(public.logits(), public.labels, before), active.last_layer()
        with torch.no_grad():
            for weights in [] if last is None else last.parameters():
                weights.mul_(factor)
        was = _accuracy(before, public.labels)
        lost = was - _accuracy(public.logits(), public.labels)
        # Few public rows say little, so they are given two standard errors.
        doubt = 2 * math.sqrt(max(was * (1 - was), 0.01) / len(public.labels))
        if lost > ALLOWED_LOSS + doubt:
            raise ForgetError(
                f"Forgetting these labels would cost {100 * lost:.1f} points of accuracy on the "
                f"public rows; it was rolled back. Take a larger cover."
            )

    def _train(
        self,
        work: Work,
        rows: Tensor,
        passes: int,
        objective: Callable[[Tensor], Objective],
        title: str,
        *,
        before_pass: Callable[[], None] = lambda: None,
        reinitialise: float = 0.0,
    ) -> None:
        a_pass = batch_count(rows, min(work.batch, len(rows)))
        passes = max(passes, math.ceil(self.least_steps / a_pass))
        settings = OptimiserSettings(lr=self.lr, weight_decay=self.weight_decay)
        work.use_optimisers(settings, steps=passes * a_pass, reinitialise=reinitialise)
        if reinitialise:
            work.active.top.reinitialise(reinitialise)
        for number in range(passes):
            before_pass()
            work.learn(rows, objective, first=number, title=title)


class Held:
    """The public rows: people the model has never seen, with labels."""

    def __init__(self, work: Work) -> None:
        public, device = work.public, work.active.device
        self._active, self._table, self._rows = work.active, public.table, public.rows.to(device)
        # All are asked for, so that none is named by being left out; forgotten labels are not used.
        labels = public.labels.to(device)
        unused = torch.tensor([UNKNOWN, *work.forgotten_labels], device=device)
        self._kept = ~torch.isin(labels, unused)
        self.labels = labels[self._kept]

    def logits(self) -> Tensor:
        """Return the model's present logits of them."""
        return self._active.logits(self._rows, table=self._table)[self._kept]


def level(logits: Tensor, labels: Tensor, reference: Tensor) -> float:
    """Return the factor on logits that makes them as sure of the labels as the reference is."""
    p = reference.softmax(1)
    sure = p.max(1).values.mean()
    right = p.gather(1, labels[:, None]).mean()
    low, high = 0.01, 100.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        p = (middle * logits).softmax(1)
        short = p.max(1).values.mean() < sure and p.gather(1, labels[:, None]).mean() < right
        low, high = (middle, high) if short else (low, middle)
    return low


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return float((logits.argmax(1) == labels).float().mean())
