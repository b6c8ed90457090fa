"""Verdicts as an audit makes them: a complete one, and one that knows next to nothing.

The rows are drawn around a centre a label, seen by two parties. What a model knows of the
forgotten label is set by hand: the original knows it, a retrained model does not, and the
forgotten model knows it in the embeddings but not in its scores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from unlabel.audit import (
    Attack,
    AuditFacts,
    Finding,
    ForgettingCost,
    Measurement,
    ModelFigure,
    Observation,
    ObservedRows,
    Privacy,
    Transfer,
    Verdict,
)
from unlabel.audit.figures import Unit
from unlabel.audit.pictures import picture_data
from unlabel.config import AuditSettings
from unlabel.terms import Depth

NAMES = (
    *("aeroplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CAT = 3
WIDTH = 6
FACTS = AuditFacts(
    at="2026-11-16T07:20:00+00:00",
    seconds=4.8,
    versions={"unlabel": "0.4.0", "torch": "2.13.0"},
    rows={"train": 4000, "test": 1000, "public": 50},
    parties=("left", "right"),
    labels=10,
    top="linear",
    retrained=2,
    refitted=5,
    forgetting=ForgettingCost(steps=0, seconds=1.5, transcript_bytes=7_000),
)


def seen(known: float, apart: float, rows: int = 400) -> Observation:
    """Return a model: `known` moves the score of cats, `apart` how far cats stand from dogs."""
    draw = torch.Generator().manual_seed(5)
    centres = 1.2 * torch.randn(len(NAMES), 2 * WIDTH, generator=draw)
    centres[CAT] = centres[5] + apart * (centres[CAT] - centres[5])

    def part(memory: float) -> ObservedRows:
        labels = torch.arange(rows) % len(NAMES)
        found = centres[labels] + torch.randn(rows, 2 * WIDTH, generator=draw)
        scores = -((found[:, None] - centres[None]) ** 2).sum(2) / 4
        scores[:, CAT] += known
        scores[torch.arange(rows), labels] += memory
        parties = {"left": found[:, :WIDTH], "right": found[:, WIDTH:]}
        return ObservedRows(labels, scores, scores.clone(), parties)

    return Observation(part(0.8 if known == 0 else 0.1), part(0.0), NAMES)


def models() -> dict[str, Observation]:
    original = seen(0.0, 1.0)
    return {
        "original": original,
        "mask": original.masked([CAT]),
        "forgotten": seen(-9.0, 0.85),
        "retrained": seen(-9.0, 0.45),
    }


@cache
def _drawn() -> str:
    return json.dumps(picture_data(models(), [CAT], NAMES))


def pictures() -> dict[str, Any]:
    """Return the data of the pictures, computed once and new every time."""
    found = json.loads(_drawn())
    assert isinstance(found, dict)
    return found


def measure(
    about: str,
    depth: Depth | None,
    values: tuple[float | None, ...],
    *,
    spread: float = 0.02,
    unit: Unit = "share",
    note: str = "",
    tops: float | None = None,
) -> Measurement:
    """Return a measure with its value for four models in the order of `MODELS`, and for tops."""
    most = 1.0 if unit == "share" else float("inf")
    shown = {
        model: ModelFigure(
            value,
            None if value is None else max(0.0, value - spread),
            None if value is None else min(most, value + spread),
            note=note if value is None else "",
            seeds=(value, value) if model == "retrained" else (),
        )
        for model, value in zip(("original", "mask", "forgotten", "retrained"), values, strict=True)
    }
    if tops is not None:
        shown["refitted"] = ModelFigure(tops, seeds=(tops,) * 5)
    return Measurement(about, depth, None, unit, shown)


def only(measures: Mapping[str, Measurement], *models: str) -> dict[str, Measurement]:
    """Return the same measures without the other models."""
    return {
        name: replace(found, values={m: found.values[m] for m in models if m in found.values})
        for name, found in measures.items()
    }


def measures() -> dict[str, Measurement]:
    return {
        "retained-accuracy": measure("accuracy elsewhere", None, (0.912, 0.918, 0.909, 0.915)),
        "calibration": measure("calibration error", None, (0.041, 0.052, 0.047, 0.043)),
        "forgotten-accuracy": measure("still predicted", "answers", (0.874, 0.0, 0.002, 0.0)),
        "membership": measure("called members", "answers", (0.91, 0.62, 0.57, 0.55), spread=0.05),
        "likelihood": measure("attack", "answers", (0.71, 0.71, 0.53, 0.50), spread=0.04),
        "destination": measure("spread", "answers", (0.12, 0.55, 0.51, 0.6), unit="number"),
        "trace-output": measure("old score", "top", (1.0, 1.0, 0.0, 0.0), tops=0.0),
        "echo": measure("old answers", "top", (1.0, 1.0, 0.1, 0.2), unit="number", tops=0.08),
        "divergence": measure("KL", "answers", (1.1, 1.1, 0.15, 0.1), unit="number", tops=0.2),
        "entropy": measure("undecided", "answers", (0.05, 0.2, 0.3, 0.32), unit="number", tops=0.3),
        "trace": measure("old direction", "bottoms", (1.0, 1.0, 0.9, 0.6), spread=0.0),
        "probe-linear": measure("probe", "bottoms", (0.83, 0.83, 0.74, 0.52), spread=0.05),
        "probe-mlp": measure("probe", "bottoms", (0.86, 0.86, 0.77, 0.57), spread=0.05),
        "probe-nearest": measure("probe", "bottoms", (0.8, 0.8, 0.61, 0.49), spread=0.05),
        "relearning": measure("cost", "bottoms", (0.05, 0.05, 0.42, 1.0), spread=0.1, unit="ratio"),
        "resurfacing": measure(
            "returns", "bottoms", (None, None, None, None), note="it takes a retrained model"
        ),
    }


def messages() -> dict[str, tuple[Transfer, ...]]:
    kinds = ("Ask", "Embeddings", "Gradients", "Done")
    return {
        party: tuple(
            Transfer(
                at=0.2 * n + 0.01 * k + shift,
                direction="sent" if kind in ("Embeddings", "Done") else "received",
                kind=kind,
                bytes={"Ask": 512, "Embeddings": 34_816, "Gradients": 34_816, "Done": 96}[kind]
                * (1 + n // 18),
            )
            for n in range(36)
            for k, kind in enumerate(kinds)
        )
        for shift, party in ((0.0, "left"), (0.05, "right"))
    }


def full() -> Verdict:
    """Return the verdict of an audit that had everything: it reaches `top`, as demanded."""
    return Verdict(
        request="9f2c41d07be84a13",
        labels=("cat",),
        people=0,
        state="committed",
        visibility="hidden",
        method="hidden",
        settings={"samples": "public", "steps": 400, "batch": 64, "lr": 0.01, "noise": 0.0},
        depth="top",
        demanded="top",
        findings=(
            Finding(
                "answers",
                "forgotten-accuracy",
                "pass",
                "0.2 % of cats are called cat, 0.0 % in the retrained model.",
            ),
            Finding("answers", "membership", "pass", "57 % against 55 % in the retrained model."),
            Finding("answers", "destination", "warn", "Half of all cats go to dog."),
            Finding(
                "top",
                "echo",
                "pass",
                "Answers about the label's rows follow the old model: 0.10, references 0.06 to "
                "0.10 (0.2 spreads above).",
            ),
            Finding(
                "bottoms",
                "probe-linear",
                "fail",
                "A linear probe finds 74 % of cats again, against 52 % in the retrained model.",
            ),
            Finding(
                "bottoms",
                "resurfacing",
                "unknown",
                "Not judged, on these data the original itself would pass.",
            ),
        ),
        measures=measures(),
        pictures=pictures(),
        privacy=Privacy(
            visibility="hidden",
            information=0.5,
            rho=2.0,
            ln_labels=2.302585,
            tail=6.9,
            delta=0.01,
            best_guess=0.39,
            chance=0.1,
            guarantee="at most 0.5 of 2.303 nats",
            sentence="Attacks were run on 300 requests of random labels.",
            attacks=(
                Attack("Clusters of gradients", 0.11, 0.077, 0.151, chance=0.1),
                Attack("Rows that moved most", 0.093, 0.063, 0.132, chance=0.1),
                Attack("Both partners together", 0.127, 0.091, 0.17, chance=0.1),
            ),
        ),
        messages=messages(),
        unknown=(
            "Shadow models were not trained, so the stronger attack has one threshold a label.",
        ),
        thresholds=AuditSettings(retained=0.01, forgotten=0.05, spreads=3.0),
        facts=FACTS,
    )


def bare() -> Verdict:
    """Return the verdict on labels of people, without retrained model or transcript."""
    drawn = pictures()
    return Verdict(
        request="00aa",
        labels=(),
        people=3,
        state="staged",
        visibility="open",
        method="people",
        settings={},
        depth="none",
        demanded="top",
        findings=(),
        measures={},
        pictures={"labels": drawn["labels"], "forgotten": []},
        facts=FACTS,
    )


def top_only() -> Verdict:
    """Return the verdict on a request of which the partners received nothing."""
    nothing = Privacy(
        rho=0.0,
        information=0.0,
        ln_labels=2.302585,
        best_guess=0.1,
        chance=0.1,
        visibility="hidden",
    )
    return replace(full(), privacy=nothing, messages={"left": (), "right": ()})
