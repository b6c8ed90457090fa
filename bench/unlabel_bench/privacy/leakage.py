"""Every method's leakage beside its accuracies and residual knowledge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unlabel.audit.intervals import share_interval
from unlabel.defend.accountant import binary_divergence
from unlabel_bench.measures import read_method, residual
from unlabel_bench.summary import DRAWS, failures, mean_of, spread

Cell = tuple[int, int]
Line = dict[str, Any]

REFERENCE, ORIGINAL = "retrain", "original"
#: Standard errors by which original and retrained must differ for a ratio to mean anything.
ERRORS = 3.0
UNDEFINED = "the original and the retrained model do not differ by three standard errors"
TOO_FEW = "fewer than two of its requests went through"


def summarise(
    lines: Sequence[Line], methods: Sequence[str], attacked: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return one entry a method, the original first."""
    probes = {
        name: {
            (line["seed"], line["label"]): float(line["probe"]["value"])
            for line in lines
            if line["method"] == name and _probed(line)
        }
        for name in (ORIGINAL, *methods)
    }
    entries = []
    for name in (ORIGINAL, *methods):
        whole, failed = failures([line for line in lines if line["method"] == name])
        outcomes = {
            figure: spread(
                [x["outcome"][figure] for x in whole if x["outcome"][figure] is not None]
            )
            for figure in ("retained", "forgotten")
        }
        entries.append(
            {
                "method": name,
                "cells": len(whole),
                "failed": failed,
                **outcomes,
                "probe": spread(list(probes[name].values())),
                "residual": pooled_residual(probes[name], probes[ORIGINAL], probes[REFERENCE]),
                "rows": _rows(whole),
                **({} if name == ORIGINAL else leakage(name, whole, attacked.get(name))),
            }
        )
    return entries


def pooled_residual(
    forgotten: Mapping[Cell, float], original: Mapping[Cell, float], retrained: Mapping[Cell, float]
) -> dict[str, Any]:
    """Return residual knowledge over all labels and seeds that have all three figures.

    r = (mean f - mean t) / (mean o - mean t), f, o and t being probes of the forgotten, original
    and retrained models of one seed. Its interval comes from drawing labels and seeds again.
    Undefined where the mean of o - t is below three standard errors of it, or of a single pair.
    """
    cells = sorted(forgotten.keys() & original.keys() & retrained.keys())
    f, o, t = (
        np.array([some[cell] for cell in cells]) for some in (forgotten, original, retrained)
    )
    if len(cells) < 2:
        return {"value": None, "note": TOO_FEW}
    error = float((o - t).std(ddof=1)) / len(cells) ** 0.5
    if (o - t).mean() < ERRORS * error:
        return {"value": None, "note": UNDEFINED}
    random = np.random.default_rng(0)
    picked = random.integers(0, len(cells), (DRAWS, len(cells)))
    gaps = (o - t)[picked].mean(1)
    drawn = ((f - t)[picked].mean(1) / np.where(gaps > 0, gaps, np.nan))[gaps > 0]
    low, high = np.quantile(drawn, [0.025, 0.975])
    value = residual(float(f.mean()), float(o.mean()), float(t.mean()))
    return {"value": value, "low": float(low), "high": float(high), "cells": len(cells)}


def leakage(
    method: str, lines: Sequence[Line], attacked: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return how often the label is named, and the nats that are told at least and at most.

    Where attackers learned from many requests, those are theirs. Else each of these few requests
    is judged by the rule that does best on the others, since the best on all would be a lucky
    one; its share of hits p gives kl(p || 1/C), which is no more than what was told on average.
    The upper bound is the accountant's, or ln C where nothing is proved.
    """
    labels = int(lines[0]["labels"]) if lines else 0
    account = read_method(method).account
    most = math.log(labels) if labels else None
    bounds: dict[str, Any] = {
        "visibility": read_method(method).visibility,
        "most": most,
        "proved": None if account is None else account.information,
        "at_most": most if account is None or most is None else min(most, account.information),
    }
    if attacked is not None:
        best = {"attack": attacked["chosen"][0], **attacked["best"]}
        nats = attacked["information"]
        return {**bounds, "named": best, "at_least": nats, "chance": attacked["chance"]}
    if not lines:
        return {**bounds, "named": None, "at_least": None, "chance": None}
    hits, rules = _left_out(lines)
    value = sum(hits) / len(hits)
    low, high = share_interval(round(sum(hits)), len(hits))
    nats = {
        end: binary_divergence(p, 1 / labels) if p > 1 / labels else 0.0
        for end, p in (("value", value), ("low", low), ("high", high))
    }
    attack = max(rules, key=rules.count)
    named = {"attack": attack, "value": value, "low": low, "high": high, "of": len(lines)}
    return {**bounds, "named": named, "at_least": nats, "chance": 1 / labels}


def _left_out(lines: Sequence[Line]) -> tuple[list[float], list[str]]:
    """Return how likely each request is named by the rule that is best on the others, and which."""
    hits: list[float] = []
    rules: list[str] = []
    for line in lines:
        others = [other["named"] for other in lines if other is not line]
        best = max(line["named"], key=lambda name: sum(other[name] for other in others))
        hits.append(line["named"][best])
        rules.append(best)
    return hits, rules


def _probed(line: Line) -> bool:
    return "failed" not in line and line["probe"]["value"] is not None


def _rows(lines: Sequence[Line]) -> dict[str, float | None]:
    """Return the means of what partners learn about rows."""
    rows = [line["rows"] for line in lines if "rows" in line]
    return {name: mean_of([each[name] for each in rows]) for name in (rows[0] if rows else ())}
