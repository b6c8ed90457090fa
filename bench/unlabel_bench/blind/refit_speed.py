"""How long a refit takes: of a label, of one person and of a thousand, beside training."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unlabel.config import ForgetSettings, LabelFreeSettings, expect
from unlabel.federation import Federation
from unlabel_bench import markdown
from unlabel_bench.blind.blind_tables import top_name
from unlabel_bench.blind.split_tables import TABLES, TREES, SplitTable, read_split
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: The same people with a label of several values, of which one is forgotten.
EDUCATION = (
    "credit_default.csv.gz:label=EDUCATION:id=ID:categories=SEX+MARRIAGE:"
    "holder=LIMIT_BAL+SEX+MARRIAGE+AGE+default.payment.next.month+"
    "PAY_AMT1+PAY_AMT2+PAY_AMT3+PAY_AMT4+PAY_AMT5+PAY_AMT6"
)
#: Seconds that a refit may take, by its top.
GOALS = {"linear": 1.0, "mlp": 1.0, TREES: 3.0}


@dataclass(frozen=True)
class RefitSpeedSettings:
    """Settings of the bench.

    table       FILE:NAME=VALUE:.. whose people are forgotten
    labelled    the same with a label of at least three values, of which one is forgotten
    forgotten   that value
    folder      where the tables lie; no part of what is recorded
    tops        to fit
    people      numbers of people a request
    repeats     warm requests, each rolled back before the next
    supervised  whether split training and its retraining without the label are timed too
    rows        rows of each table, 0 for all
    page        Markdown file to write the table into
    """

    table: str = TABLES[0]
    labelled: str = EDUCATION
    forgotten: str = "3"
    folder: str = "."
    tops: tuple[str, ...] = ("linear", "mlp", TREES)
    people: tuple[int, ...] = (1, 1000)
    repeats: int = 5
    supervised: bool = True
    rows: int = 0
    page: str = ""

    def __post_init__(self) -> None:
        expect("repeats", self.repeats, self.repeats >= 1, "at least 1")


def measure(settings: RefitSpeedSettings, say: Say) -> Result:
    """Time requests, the whole training before them, and retraining."""
    lines, training = [], []
    for words, name in ((settings.labelled, "label"), (settings.table, "people")):
        table = read_split(words, settings.folder)
        if settings.rows:
            table = table.some(np.arange(settings.rows))
        for top in settings.tops:
            say(f"{table.words.label}, {top}")
            federation, seconds = _trained(partial(table.blind, 0, top, LabelFreeSettings()))
            training.append({"what": name, "kind": "blind", "top": top, "seconds": seconds})
            lines += [
                {"top": top, **_timed(settings, federation, request)}
                for request in _requests(settings, name, federation)
            ]
        if settings.supervised:
            say(f"{table.words.label}: supervised")
            training += _supervised(settings, table, name)
    return {"requests": lines, "training": training}


def _trained(make: Callable[[], Federation]) -> tuple[Federation, float]:
    """Return a trained federation, and the seconds from tables in memory to its end."""
    started = time.perf_counter()
    federation = make()
    federation.train()
    return federation, time.perf_counter() - started


def _requests(
    settings: RefitSpeedSettings, name: str, federation: Federation
) -> list[dict[str, Any]]:
    if name == "label":
        return [{"what": "one label", "labels": [settings.forgotten], "ids": []}]
    held = federation.holdings
    order = np.random.default_rng(0).permutation(held.rows.train.numpy())
    return [
        {
            "what": "one person" if count == 1 else f"{count:,} people",
            "labels": [],
            "ids": [str(held.ids[row]) for row in order[:count]],
        }
        for count in settings.people
    ]


def _timed(
    settings: RefitSpeedSettings, federation: Federation, request: dict[str, Any]
) -> dict[str, Any]:
    """Time one request again and again: the fit alone, and all of `forget` until it is staged."""
    fits, requests = [], []
    for _ in range(settings.repeats + 1):
        started = time.perf_counter()
        outcome = federation.forget(request["labels"], ids=request["ids"])
        requests.append(time.perf_counter() - started)
        fits.append(outcome.result.seconds)
        outcome.rollback()
    return {
        "what": request["what"],
        "first_fit": fits[0],
        "first": requests[0],
        "fit": statistics.median(fits[1:]),
        "request": statistics.median(requests[1:]),
    }


def _supervised(settings: RefitSpeedSettings, table: SplitTable, name: str) -> list[dict[str, Any]]:
    federation, seconds = _trained(lambda: table.supervised(0))
    lines = [{"what": name, "kind": "supervised", "top": "", "seconds": seconds}]
    if name == "label":
        asked = ForgetSettings(method="retrain", measure_drift=False)
        outcome = federation.forget([settings.forgotten], settings=asked)
        seconds = outcome.result.seconds
        lines.append({"what": name, "kind": "retrain", "top": "", "seconds": seconds})
        outcome.rollback()
    return lines


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the times as rows for people."""
    heads = ("fit, first", "fit, median", "whole request, first", "whole request, median", "goal")
    lines = [["request", "top", *heads, ""]]
    for line in result["requests"]:
        names = ("first_fit", "fit", "first", "request")
        goal = GOALS.get(line["top"])
        word = "" if goal is None else ("reached" if line["request"] <= goal else "missed")
        shown = "" if goal is None else f"{goal:g}"
        times = [f"{line[name]:.2f}" for name in names]
        lines.append([line["what"], top_name(line["top"]), *times, shown, word])
    return lines


def _training(result: dict[str, Any]) -> list[list[str]]:
    lines = [["label column for", "what", "top", "seconds"]]
    words = {"blind": "blind training", "retrain": "supervised `retrain` of the label"}
    for line in result["training"]:
        what = words.get(line["kind"], "supervised training")
        lines.append([line["what"], what, top_name(line["top"]), f"{line['seconds']:.2f}"])
    return lines


def page(result: Result) -> str:
    """Return the times as a page."""
    about = result["settings"]
    return markdown.page(
        "# How long a refit takes",
        "Seconds. The fit is what the method does; the whole request is `forget` from the call "
        "until the new top is staged, figures before and after included. It is the first of its "
        f"kind in the run, then the median of {about['repeats']}; each is rolled back. The whole "
        "request is held against the goal.",
        markdown.table(table(result)),
        "Beside it, from tables in memory to the end of the training, and without one label:",
        markdown.table(_training(result)),
    )


BENCHES.add(
    "refit-speed",
    Bench(
        "seconds to refit a top without a label, a person or many, beside training",
        RefitSpeedSettings,
        measure,
        table,
        page,
    ),
)
