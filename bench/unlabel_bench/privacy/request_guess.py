"""Which label was a request about? Rules made by hand and attackers that learn, against 1/C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlabel.audit.figures import Figure
from unlabel.audit.intervals import share_interval
from unlabel.errors import SettingsError
from unlabel_bench.privacy.information import information_bound
from unlabel_bench.privacy.posterior import attackers, learn, log_loss, stratified, unusual
from unlabel_bench.privacy.traces import Traces

Array = np.ndarray[Any, Any]

#: Rules: the figure a label that is looked at, and whether the label with the most or the least
#: of it is named.
RULES = {
    "largest gradients": ("norm", 1.0),
    "largest sum": ("sum", 1.0),
    "pushed from its centre": ("along", 1.0),
    "moved most": ("moved", 1.0),
    "moved inward": ("inward", -1.0),
    "asked most": ("asked", 1.0),
    "asked least": ("asked", -1.0),
    "looked at least": ("looked", -1.0),
    "named in a text": ("named", 1.0),
}
#: The same of figures less what is usual among other requests to the same model.
UNUSUAL = {
    "gradients larger than usual": ("log norm", 1.0),
    "pushed more than usual": ("along", 1.0),
    "moved more than usual": ("moved", 1.0),
}
EVERY = {**RULES, **UNUSUAL}


@dataclass(frozen=True)
class Named:
    """How well requests are named.

    attacks      share of requests each attack names rightly, by SETTING/ATTACK
    best         the same of the attack that did best on OTHER requests, which is what a careful
                 attacker would choose; the highest of `attacks` would be a lucky one's
    chosen       which attack that was, on each half
    information  lower bound on what the view gives away, in nats
    """

    attacks: dict[str, Figure]
    best: Figure
    chosen: tuple[str, ...]
    information: Figure


def guess(traces: Traces, rule: str, *, seed: int = 0) -> Array:
    """Return the label that a rule names for each request; among equals it takes any."""
    ties = _ties(traces, rule)
    # Random, so that equals are not all given to label 0.
    luck = np.random.default_rng([seed, list(EVERY).index(rule)]).random(ties.shape)
    return np.asarray(np.where(ties, luck, -1.0).argmax(1))


def guess_share(traces: Traces, rule: str) -> Array:
    """Return the probability that a rule names each request's label, taking any among equals."""
    ties = _ties(traces, rule)
    return np.asarray(ties[np.arange(len(ties)), traces.secrets] / ties.sum(1))


def _ties(traces: Traces, rule: str) -> Array:
    """Return [N, C]: which labels a rule may name."""
    figure, sign = EVERY[rule]
    columns = [place for place, name in enumerate(traces.columns) if name == figure]
    score = sign * traces.by_label[:, :, columns].mean(2)
    return np.asarray(score >= score.max(1, keepdims=True) - 1e-9)


def name_requests(settings: Mapping[str, Traces], *, seed: int = 0) -> Named:
    """Attack all requests: learn on each half and be judged on the other.

    settings  the same requests as different attackers see them, for example one party, another,
              and both together; by name
    """
    first = next(iter(settings.values()))
    secrets, count = first.secrets, first.count
    if len(secrets) < 4:
        raise SettingsError(f"Expected at least 4 requests to learn from but got {len(secrets)}.")
    half = stratified(secrets, 2, seed=seed)
    hits: dict[str, Array] = {}
    best, beliefs = np.zeros(len(secrets), dtype=bool), np.zeros(len(secrets))
    chosen = []
    for out in (half == 0, half == 1):
        promise: dict[str, float] = {}
        believed: tuple[float, Array] | None = None
        for where, traces in settings.items():
            seen, others = traces.take(~out), traces.take(out)
            odd = unusual(seen, seen), unusual(others, seen)
            for rule in EVERY:
                name = f"{where}/{rule}"
                half_seen, half_left = (seen, others) if rule in RULES else odd
                guessed = guess(half_seen, rule, seed=seed)
                promise[name] = float((guessed == half_seen.secrets).mean())
                right = guess(half_left, rule, seed=seed) == half_left.secrets
                hits.setdefault(name, np.zeros(len(secrets), dtype=bool))[out] = right
            for kind, kinds in attackers(traces.named).items():
                name = f"{where}/{kind}"
                inner, outer = learn(kinds, seen, others)
                promise[name] = float((_first(inner, seed) == seen.secrets).mean())
                right = _first(outer, seed) == others.secrets
                hits.setdefault(name, np.zeros(len(secrets), dtype=bool))[out] = right
                loss = log_loss(inner, seen.secrets)
                if believed is None or loss < believed[0]:
                    believed = (loss, np.log(outer[np.arange(len(others)), others.secrets]))
        assert believed is not None
        winner = max(promise, key=lambda name: promise[name])
        chosen.append(winner)
        best[out], beliefs[out] = hits[winner][out], believed[1]
    return Named(
        attacks={name: share_figure(named) for name, named in hits.items()},
        best=share_figure(best),
        chosen=tuple(chosen),
        information=information_bound(beliefs, count, seed=seed),
    )


def share_figure(hits: Array) -> Figure:
    """Return a share of hits with the interval of Clopper and Pearson."""
    low, high = share_interval(int(hits.sum()), len(hits))
    return Figure(float(hits.mean()), low, high, detail={"of": len(hits)})


def _first(beliefs: Array, seed: int) -> Array:
    """Return the likeliest label; among equals, any."""
    luck = np.random.default_rng(seed).random(beliefs.shape)
    ties = beliefs >= beliefs.max(1, keepdims=True) - 1e-12
    return np.asarray(np.where(ties, luck, -1.0).argmax(1))
