"""Attackers that learn from requests whose label is known, and say what they believe of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel_bench.privacy.traces import Traces

Array = np.ndarray[Any, Any]

#: Weight of |w|^2 in the logistic attackers, the best of which is chosen on requests left out.
RIDGES = (0.001, 0.01, 0.1)
#: Most steps of L-BFGS.
STEPS = 40
TREES = 60
#: Parts into which the requests to learn from are divided to judge an attacker.
PARTS = 3
#: How far a belief is drawn to a blank one; 1 is an attacker that says it knows nothing.
BLANKS = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0)


class Attacker(ABC):
    """Learns from some requests, and says of others how likely each label is."""

    @abstractmethod
    def believe(self, seen: Traces, others: Traces) -> Array:
        """Return [N, C] beliefs about others, learned from those seen."""

    def judged(self, seen: Traces, others: Traces) -> tuple[Array, Array]:
        """Return beliefs about those seen, each learned without it, and about others."""
        parts = stratified(seen.secrets, PARTS, seed=1)
        inner = np.zeros((len(seen), seen.count))
        for part in range(PARTS):
            out = parts == part
            if out.any():
                inner[out] = self.believe(seen.take(~out), seen.take(out))
        return inner, self.believe(seen, others)


class ByLabel(Attacker):
    """One score a label, the same function of each label's own figures.

    p(c) = exp(w x_c) / sum over c' of exp(w x_c'), w fitted with a penalty of ridge |w|^2. x_c are
    the label's figures, and the same less their mean over requests to the same model: a label may
    always stand out. It does not care how labels are numbered, so it fits clusters too.
    """

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge

    def believe(self, seen: Traces, others: Traces) -> Array:
        """Fit w on those seen."""
        x, y = (torch.from_numpy(_beside_usual(t, seen)) for t in (seen, others))
        start = torch.zeros(x.shape[2], dtype=torch.float64)
        weights = _fit(start, x, torch.from_numpy(seen.secrets), self._ridge)
        return _softmax(y @ weights)


class Flat(Attacker):
    """All figures at once, with weights for every label: what a label does to others counts too."""

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge

    def believe(self, seen: Traces, others: Traces) -> Array:
        """Fit p(c) = softmax(W x + b) with a penalty of ridge |W|^2."""
        x, y = (torch.from_numpy(values) for values in _flat(seen, others))
        # A penalty on |W|^2 does not mind a rotation, and W has no part outside the span of x.
        _, sizes, axes = torch.linalg.svd(x / x.shape[1] ** 0.5, full_matrices=False)
        turned = axes[sizes > 1e-9 * max(1.0, float(sizes.max()))].T / x.shape[1] ** 0.5
        x, y = x @ turned, y @ turned
        start = torch.zeros(x.shape[1] + 1, seen.count, dtype=torch.float64)
        weights = _fit(start, _with_one(x), torch.from_numpy(seen.secrets), self._ridge)
        return _softmax(_with_one(y) @ weights)


class Forest(Attacker):
    """Random trees over all figures: what only counts together, or only beyond a threshold."""

    def believe(self, seen: Traces, others: Traces) -> Array:
        """Grow the trees on those seen."""
        return self.judged(seen, others)[1]

    def judged(self, seen: Traces, others: Traces) -> tuple[Array, Array]:
        """Grow the trees once: each grows without some of those seen, and is judged on them."""
        from sklearn.ensemble import RandomForestClassifier

        x, y = _flat(seen, others)
        model = RandomForestClassifier(
            TREES, min_samples_leaf=2, random_state=0, n_jobs=1, oob_score=True
        )
        model.fit(x, seen.secrets, _balanced(seen.secrets))
        inner, outer = (np.zeros((len(traces), seen.count)) for traces in (seen, others))
        inner[:, model.classes_] = model.oob_decision_function_
        outer[:, model.classes_] = model.predict_proba(y)
        return inner, outer


def attackers(named: bool) -> dict[str, list[Attacker]]:
    """Return the kinds of attackers, each with its settings to choose from.

    Where labels are clusters of one model (not `named`), only what treats all alike makes sense.
    """
    kinds: dict[str, list[Attacker]] = {"by-label": [ByLabel(ridge) for ridge in RIDGES]}
    if named:
        kinds |= {"flat": [Flat(ridge) for ridge in RIDGES], "forest": [Forest()]}
    return kinds


def tempered(beliefs: Array, blank: float) -> Array:
    """Return (1 - blank) p + blank / C."""
    return np.asarray((1 - blank) * beliefs + blank / beliefs.shape[1])


def log_loss(beliefs: Array, secrets: Array) -> float:
    """Return the mean of -ln p(secret)."""
    return float(-np.log(beliefs[np.arange(len(secrets)), secrets]).mean())


def learn(kinds: list[Attacker], seen: Traces, others: Traces) -> tuple[Array, Array]:
    """Return beliefs about those seen (each by an attacker that did not see it) and about others.

    Settings and the blank share are those of least log loss on requests left out of learning.
    """
    best: tuple[float, Array, Array] | None = None
    for attacker in kinds:
        inner, outer = attacker.judged(seen, others)
        for blank in BLANKS:
            loss = log_loss(tempered(inner, blank), seen.secrets)
            if best is None or loss < best[0]:
                best = (loss, tempered(inner, blank), tempered(outer, blank))
    assert best is not None
    return best[1], best[2]


def stratified(secrets: Array, parts: int, *, seed: int) -> Array:
    """Return a part for each request, every label spread evenly over the parts."""
    random = np.random.default_rng(seed)
    part_of = np.zeros(len(secrets), dtype=np.int64)
    start = 0
    for label in np.unique(secrets):
        places = random.permutation(np.flatnonzero(secrets == label))
        part_of[places] = (start + np.arange(len(places))) % parts
        start += len(places)
    return part_of


def unusual(traces: Traces, seen: Traces) -> Traces:
    """Return the figures a label less what is usual among those seen, to the same model.

    A label may always stand out, whatever is forgotten; no secret is needed to know which.
    """
    usual = np.zeros_like(traces.by_label)
    for origin in np.unique(traces.origins):
        known = seen.by_label[seen.origins == origin]
        if len(known):
            usual[traces.origins == origin] = known.mean(0)
    return replace(traces, by_label=traces.by_label - usual)


def _beside_usual(traces: Traces, seen: Traces) -> Array:
    """Return the figures a label, and beside them what differs from the usual of the same model."""
    return np.concatenate([traces.by_label, unusual(traces, seen).by_label], 2)


def _flat(seen: Traces, others: Traces) -> tuple[Array, Array]:
    """Return one row a request, every column standardised by those seen."""
    rows = [
        np.concatenate([_beside_usual(t, seen).reshape(len(t), -1), t.whole], 1)
        for t in (seen, others)
    ]
    mean, deviation = rows[0].mean(0), rows[0].std(0)
    # What never differed among those seen says nothing that could have been learned.
    telling = deviation > 1e-9 * np.maximum(np.abs(rows[0]).max(0), 1e-12)
    if not telling.any():
        return np.zeros((len(seen), 1)), np.zeros((len(others), 1))
    scaled = [((x - mean)[:, telling] / deviation[telling]).clip(-10, 10) for x in rows]
    return scaled[0], scaled[1]


def _fit(start: Tensor, x: Tensor, y: Tensor, ridge: float) -> Tensor:
    """Return the weights w of least mean -log softmax(x w)[y] + ridge |w|^2, labels balanced."""
    weights = start.requires_grad_()
    share = torch.from_numpy(_balanced(y.numpy()))
    solver = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        mean_loss = share @ F.cross_entropy(x @ weights, y, reduction="none")
        penalised: Tensor = mean_loss + ridge * weights.square().sum()
        penalised.backward()
        return penalised

    solver.step(loss)
    return weights.detach()


def _balanced(secrets: Array) -> Array:
    """Return a share for each request, so that every label seen has the same in all.

    All labels are equally likely, and an attacker knows; which of them came up more often among
    so few requests is nothing to learn from.
    """
    _, inverse, counts = np.unique(secrets, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[inverse] / len(counts))


def _with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)


def _softmax(scores: Tensor) -> Array:
    return np.asarray(scores.softmax(1).numpy())
