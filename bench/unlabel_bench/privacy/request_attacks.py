"""Many requests at random labels, attacked: how often is the label named, and what is told?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unlabel.audit.figures import Figure
from unlabel.errors import ForgetError, why
from unlabel.federation import Federation
from unlabel_bench.measures import code_digest, key_of, read_method, settings_digest
from unlabel_bench.originals import open_original, recipe_digest
from unlabel_bench.privacy.request_guess import Named, name_requests
from unlabel_bench.privacy.scenes import Scene, Shown
from unlabel_bench.privacy.traces import Trace, Traces, gather
from unlabel_bench.recipe import Recipe
from unlabel_bench.records import Records
from unlabel_bench.registry import Say
from unlabel_bench.summary import mean_of
from unlabel_bench.trials import SENSELESS

#: Digits that figures are kept with, wherever the point stands: small ones may tell as much.
DIGITS = 6


@dataclass(frozen=True)
class Plan:
    """Which requests are made.

    requests   how many
    originals  independently trained models they are spread over
    few_shot   public samples of a forgotten label, and `retained` of every other
    files      made to runs in folders, so that a party's files are seen too
    """

    requests: int
    originals: int
    few_shot: int
    retained: int
    files: bool = False

    def label(self, number: int, count: int) -> int:
        """Return the label of a request: any, equally likely, the same every time."""
        return int(key_of("label", number), 16) % count

    def options(self, method: str, number: int) -> dict[str, Any]:
        """Return what else a request is made with."""
        key = key_of("request", method, number)
        return {"key": key, "few_shot": self.few_shot, "retained": self.retained}


class Requests:
    """Requests to the originals of a recipe, each a line of the records."""

    def __init__(self, recipe: Recipe, plan: Plan, records: str, say: Say) -> None:
        self._recipe, self._plan, self._say = recipe, plan, say
        about = f"{recipe_digest(recipe)} {plan.few_shot} {plan.retained} {plan.files}"
        self.records = Records(records, about)

    def lines(self, method: str) -> list[dict[str, Any]]:
        """Return a line for every request by a method, making those that are not there yet."""
        key = {"method": method, "settings": settings_digest(method), "code": code_digest(method)}
        lines: dict[int, dict[str, Any]] = {}
        for origin in range(self._plan.originals):
            numbers = range(origin, self._plan.requests, self._plan.originals)
            known = {n: self.records.find(**key, number=n) for n in numbers}
            missing = [n for n, line in known.items() if line is None]
            if missing:
                self._say(f"{method}: {len(missing)} requests to original {origin}")
                with self._scene(origin) as scene:
                    for n in missing:
                        line = self._make(scene, method, n)
                        known[n] = self.records.add(**key, number=n, origin=origin, **line)
            lines |= {n: line for n, line in known.items() if line is not None}
        return [lines[n] for n in sorted(lines)]

    def _make(self, scene: Scene, method: str, number: int) -> dict[str, Any]:
        label = self._plan.label(number, len(scene.names))
        line: dict[str, Any] = {"label": label, "labels": len(scene.names)}
        try:
            return line | _plain(scene.show([label], method, **self._plan.options(method, number)))
        except SENSELESS as error:
            return line | {"failed": why(error)}

    @contextmanager
    def _scene(self, origin: int) -> Iterator[Scene]:
        if not self._plan.files:
            yield Scene(open_original(self._recipe, origin, self._say).federation)
            return
        config = self._recipe.federation(origin).config
        with TemporaryDirectory() as folder:
            run = Path(folder) / "original"
            federation = Federation.create(config, run, record=True)
            federation.train()
            for party in federation.passives.values():
                if party.transcript is not None:
                    party.transcript.flush()
            yield Scene(federation, run)


def attack(lines: list[dict[str, Any]]) -> Named:
    """Return how well the requests of some lines are named."""
    whole = [line for line in lines if "failed" not in line]
    settings: dict[str, Traces] = {}
    for who in whole[0]["traces"] if whole else ():
        traces = [
            Trace(np.array(line["traces"][who]["by_label"]), line["traces"][who]["whole"])
            for line in whole
        ]
        secrets, origins = ([line[name] for line in whole] for name in ("label", "origin"))
        settings[who] = gather(traces, secrets, origins, named=who != "no labels")
    if not settings:
        failed = lines[0]["failed"] if lines else "none was made"
        raise ForgetError(f"Every request failed, so there is nothing to attack: {failed}.")
    return name_requests(settings)


def account(method: str, labels: int) -> dict[str, Any] | None:
    """Return the accountant's bound for one request, if there is one."""
    bound = read_method(method).account
    return None if bound is None else bound.to_json(labels)


def summary(method: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the attacks made of a method's requests, beside its bound."""
    whole = [line for line in lines if "failed" not in line]
    named = attack(lines)
    labels = int(whole[0]["labels"])
    bound = account(method, labels)
    limit = float(named.information.detail["limit"])
    return {
        "method": method,
        "visibility": read_method(method).visibility,
        "requests": len(whole),
        "failed": len(lines) - len(whole),
        "labels": labels,
        "chance": 1 / labels,
        "best": plain(named.best),
        "chosen": list(named.chosen),
        "attacks": {name: plain(share) for name, share in named.attacks.items()},
        "information": plain(named.information),
        "most": math.log(labels),
        "alike": alike(whole),
        "bound": bound,
        "bound_holds": None if bound is None else limit <= bound["information"] + 1e-9,
        "rows": _means([line["rows"] for line in whole]),
        "outcome": _means([line["outcome"] for line in whole]),
    }


def plain(figure: Figure) -> dict[str, Any]:
    """Return a figure as plain data."""
    return {"value": figure.value, "low": figure.low, "high": figure.high, **figure.detail}


def _plain(shown: Shown) -> dict[str, Any]:
    traces = {
        who: {
            "by_label": [[_short(value) for value in row] for row in trace.by_label.tolist()],
            "whole": {name: _short(value) for name, value in trace.whole.items()},
        }
        for who, trace in shown.traces.items()
    }
    return {"traces": traces, "rows": shown.rows, "outcome": shown.outcome}


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def alike(lines: list[dict[str, Any]]) -> bool:
    """Return whether no figure of any request differs from those of others to the same model."""
    first: dict[int, Any] = {}
    return all(first.setdefault(line["origin"], line["traces"]) == line["traces"] for line in lines)


def _means(figures: list[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of each figure over the requests that have it."""
    return {name: mean_of([each.get(name) for each in figures]) for name in figures[0]}
