"""What the benches of forgetting share: methods by words, accuracies, attack and probes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import getsourcefile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlabel.audit.classifiers import nearest_calls, ridge_calls
from unlabel.audit.measures.membership import attack_success, entropy, sides
from unlabel.errors import SettingsError, unknown
from unlabel.federation import Federation
from unlabel.files import sha256
from unlabel.forget import METHODS, Method, Result
from unlabel.forget.method import Preset, settings_of
from unlabel.words import parse_settings


def read_method(text: str) -> Method:
    """Return a method from words; a list in one has `/` between its values, since a comma ends it.

    >>> read_method("renormalise:steps=10").steps
    10
    >>> read_method("mixup-ascent:lambdas=0.2/0.5").lambdas
    (0.2, 0.5)
    """
    name, *words = text.replace("/", ",").split(":")
    name, _, preset = name.partition("@")
    kind = METHODS.get(name)
    start = _preset(kind, name, preset).method if preset else kind()
    method: Method = parse_settings(kind, words, start)
    return method


def _preset(kind: type[Method], name: str, preset: str) -> Preset:
    """Return a preset of a method by name."""
    known = kind().presets()
    if preset in known:
        return known[preset]
    if not known:
        raise SettingsError(f"Method '{name}' has no presets, so '{name}@{preset}' is unknown.")
    raise SettingsError(unknown(f"preset of method '{name}',", preset, known))


def samples_of(method: str) -> dict[str, Any]:
    """Return how many samples go with the preset that a method names."""
    name, _, preset = method.split(":")[0].partition("@")
    if not preset:
        return {}
    chosen = _preset(METHODS.get(name), name, preset)
    return {"few_shot": chosen.few_shot, "retained": chosen.retained}


def settings_digest(method: str) -> str:
    """Return a fingerprint of all settings of a method."""
    settings = settings_of(read_method(method))
    return sha256(json.dumps(settings, sort_keys=True).encode())[:12]


def code_digest(method: str) -> str:
    """Return a fingerprint of the source of a method, and of the methods it is built on."""
    return _code_of(type(read_method(method)))


@cache
def _code_of(kind: type[Method]) -> str:
    sources: dict[str, bytes] = {}
    for base in kind.__mro__:
        if issubclass(base, Method) and base is not Method:
            # A class that somebody typed into a prompt has no file.
            with suppress(OSError, TypeError):
                path = getsourcefile(base) or ""
                sources[path] = Path(path).read_bytes()
    return sha256(b"".join(sources.values()))[:12]


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
    evaluation = federation.evaluate(part)
    stays = [n for n in range(len(federation.labels)) if n not in labels]
    return evaluation.accuracy_on(stays), evaluation.accuracy_on(labels)


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


@dataclass(frozen=True)
class Embedded:
    """What a model makes of the rows: frozen embeddings of all parties side by side, and labels.

    asr  success of the membership attack on rows of the forgotten labels
    """

    train: Tensor
    labels: Tensor
    test: Tensor
    truth: Tensor
    asr: float


def embedded(federation: Federation, labels: Sequence[int]) -> Embedded:
    """Return the embeddings of training and test rows, and the membership attack's success."""
    active, rows = federation.active, federation.holdings.rows
    train, test = rows.train.to(active.device), rows.test.to(active.device)
    y, truth = active.labels[train], active.labels[test]
    seen, tested = active.embeddings(train), active.embeddings(test)
    with torch.no_grad():
        active.top.begin("predict", 0)
        train_entropy = entropy(active.apply_top(seen))
        test_entropy = entropy(active.apply_top(tested))
    members, forgotten = sides(train_entropy, y, labels)
    success = attack_success(members, test_entropy, forgotten)
    return Embedded(torch.cat(seen, 1), y, torch.cat(tested, 1), truth, success)


def probe(federation: Federation, labels: Sequence[int]) -> dict[str, float]:
    """Return the membership attack's success and both probes' accuracies on the labels."""
    return probes(embedded(federation, labels), labels, len(federation.labels))


def probes(seen: Embedded, labels: Sequence[int], count: int) -> dict[str, float]:
    """Return the same of embeddings."""
    asked = torch.isin(seen.truth, torch.tensor(list(labels), device=seen.truth.device))
    rows = (seen.train, seen.labels, seen.test[asked], seen.truth[asked], count)
    return {
        "asr": seen.asr,
        "probe_linear": linear_probe(*rows),
        "probe_nearest": nearest_probe(*rows),
    }


def standardised(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Return (x - mean) / std of training rows and others, by mean and std of training rows."""
    mean, std = train.mean(0), train.std(0).clamp_min(1e-6)
    return tuple((x - mean) / std for x in (train, *others))


def linear_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a ridge classifier on standardised embeddings."""
    x, queries = standardised(train.double(), test.double())
    return float((ridge_calls(x, labels, queries, count) == truth).double().mean())


def nearest_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a vote of the nearest training embeddings, by cosine."""
    calls = nearest_calls(train, labels, test, count, near=20)
    return int((calls == truth).sum()) / max(1, len(test))


def residual(probe: float, original: float, retrained: float) -> float | None:
    """Return residual knowledge: (probe - retrained) / (original - retrained).

    1 where the embeddings know the label as the original did, 0 where they know it as a model
    does that never saw it. None where original and retrained do not differ.

    >>> round(residual(0.9, 0.94, 0.82), 2)
    0.67
    """
    return None if original == retrained else (probe - retrained) / (original - retrained)
