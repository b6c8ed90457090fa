"""What the benches of forgetting share: methods by words, accuracies, attack and probes, spread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import torch

from unlabel.audit import attack_success, entropy, linear_probe, nearest_probe
from unlabel.federation import Federation
from unlabel.files import sha256
from unlabel.forget import METHODS, Method, Result
from unlabel.forget.method import settings_of
from unlabel.words import parse_settings

#: Retained training rows that the membership attack learns from.
MEMBERS = 10_000


def read_method(text: str) -> Method:
    """Return a method from words.

    >>> read_method("renormalise:steps=10").steps
    10
    """
    name, *words = text.split(":")
    name, _, preset = name.partition("@")
    kind = METHODS.get(name)
    start = kind().presets()[preset].method if preset else kind()
    made: Method = parse_settings(kind, words, start)
    return made


def samples_of(method: str) -> dict[str, Any]:
    """Return how many samples go with the preset that a method names."""
    name, _, preset = method.split(":")[0].partition("@")
    if not preset:
        return {}
    found = METHODS.get(name)().presets()[preset]
    return {"few_shot": found.few_shot, "retained": found.retained}


def settings_digest(method: str) -> str:
    """Return a fingerprint of all settings of a method."""
    found = settings_of(read_method(method))
    return sha256(json.dumps(found, sort_keys=True).encode())[:12]


def key_of(*what: object) -> str:
    """Return a key for a request that can be repeated; a real one is random."""
    return sha256("/".join(map(str, what)).encode())


def labels_of(request: str) -> tuple[int, ...]:
    """Return the labels of a request, which are joined by +.

    >>> labels_of("0+2")
    (0, 2)
    """
    return tuple(int(part) for part in request.split("+"))


def accuracies(
    federation: Federation, labels: Sequence[int], part: str = "test"
) -> tuple[float | None, float | None]:
    """Return the accuracy on rows of the other labels, and on rows of these."""
    found = federation.evaluate(part)
    stays = [n for n in range(len(federation.labels)) if n not in labels]
    return found.accuracy_on(stays), found.accuracy_on(labels)


def figures_of(result: Result) -> dict[str, Any]:
    """Return what a request came to, as a line of records holds it."""
    return {
        "retained": result.retained_accuracy.after,
        "retained_before": result.retained_accuracy.before,
        "forgotten": result.forgotten_accuracy.after,
        "forgotten_before": result.forgotten_accuracy.before,
        "steps": result.steps,
        "seconds": result.seconds,
        "bytes": result.transcript_bytes,
    }


def probe(federation: Federation, labels: Sequence[int]) -> dict[str, float]:
    """Return the membership attack's success and both probes' accuracies on the labels."""
    active, rows = federation.active, federation.holdings.rows
    train, test = rows.train.to(active.device), rows.test.to(active.device)
    y, truth = active.labels[train], active.labels[test]
    seen, tested = active.embeddings(train), active.embeddings(test)
    with torch.no_grad():
        active.top.begin("predict", 0)
        train_entropy = entropy(active.apply_top(seen))
        test_entropy = entropy(active.apply_top(tested))
    asked_for = torch.tensor(list(labels), device=y.device)
    gone, asked = torch.isin(y, asked_for), torch.isin(truth, asked_for)
    members = train_entropy[~gone]
    some = torch.randperm(len(members), generator=torch.Generator().manual_seed(0))[:MEMBERS]
    joined, queries = torch.cat(seen, 1), torch.cat(tested, 1)[asked]
    count = len(federation.labels)
    return {
        "asr": attack_success(members[some.to(members.device)], test_entropy, train_entropy[gone]),
        "probe_linear": linear_probe(joined, y, queries, truth[asked], count),
        "probe_nearest": nearest_probe(joined, y, queries, truth[asked], count),
    }


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean and standard deviation (0 of a single value), or None of nothing."""
    if not values:
        return None
    return {"mean": mean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}
