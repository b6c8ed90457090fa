"""Methods of forgetting side by side, from the same weights, beside models retrained without.

Every figure is a line of a JSONL file, keyed by what it is a figure of; a bench that starts again
on the same file repeats nothing that is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from unlabel.errors import ForgetError, PartyRefused, TrainingError
from unlabel.federation import Federation
from unlabel.files import sha256
from unlabel.forget import ForgetSettings
from unlabel.train import Forgotten
from unlabel_bench.drawing import Panel, Picture, Series, colour
from unlabel_bench.markdown import FIGURES, number
from unlabel_bench.measures import (
    accuracies,
    figures_of,
    key_of,
    labels_of,
    probe,
    read_method,
    residual,
    samples_of,
    settings_digest,
)
from unlabel_bench.originals import open_original
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import Recipe
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import failures, mean_of, spread, spread_of
from unlabel_bench.trials import end_of, in_words

Line = dict[str, Any]


@dataclass(frozen=True)
class ForgettingSettings(Recipe):
    """Settings of the bench.

    labels    requests: a label, or labels joined by +
    methods   by name; with settings as NAME:SETTING=VALUE:..., presets as NAME@PRESET
    frontier  methods for the probed requests only
    probed    requests for which probes and the membership attack are measured as well
    retrain   seeds for which models without the probed labels are trained
    budget    seconds after which no new piece of work begins; 0 is no limit
    picture   PNG file to draw into; needs matplotlib
    records   JSONL file of the figures; it is read first, and what is there is not repeated
    """

    validation: float = 0.0
    seeds: tuple[int, ...] = (0,)
    labels: tuple[str, ...] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
    methods: tuple[str, ...] = ("renormalise", "mask")
    frontier: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    retrain: tuple[int, ...] = ()
    budget: float = 0.0
    records: str = ""
    picture: str = ""


#: Settings that decide the original model's weights.
RECIPE = ("data", "model", "parties", "epochs", "batch", "lr", "warmup", "nesterov", "validation")


def measure(settings: ForgettingSettings, say: Say) -> Result:
    """Train the originals, forget with every method, retrain; return figures and summaries."""
    recipe = {name: getattr(settings, name) for name in RECIPE}
    records = Records(settings.records, sha256(json.dumps(recipe).encode())[:12])
    work = Requests(settings, records, say)
    ends = end_of(settings.budget)
    # What is of most interest comes first, in case the time runs out.
    for part in ("methods", "frontier"):
        for seed in settings.seeds:
            for request, method in work.missing(seed, part):
                if time.monotonic() > ends:
                    break
                work.forget(seed, request, method)
        for seed in settings.retrain if part == "methods" else ():
            for request in settings.probed:
                key = {"kind": "retrained", "request": request, "seed": seed}
                if records.find(**key) is None and time.monotonic() < ends:
                    work.retrain(seed, request)
    names = (*settings.methods, *settings.frontier)
    return {"records": records.lines, "summary": summary(names, records)}


def _key(request: str, method: str, seed: int) -> dict[str, Any]:
    """Return what a line is a figure of; a method whose defaults changed is another one."""
    key: dict[str, Any] = {"kind": "forget", "request": request, "method": method, "seed": seed}
    if method != "original":
        key["settings"] = settings_digest(method)
    return key


class Requests:
    """Requests to the originals of some settings, each a line of the records."""

    def __init__(self, settings: ForgettingSettings, records: Records, say: Say) -> None:
        self._settings, self._records, self._say = settings, records, say
        self._originals: dict[int, Federation] = {}

    def missing(self, seed: int, part: str) -> list[tuple[str, str]]:
        """Return the requests and methods that have no figures yet."""
        settings = self._settings
        methods, requests = settings.frontier, settings.probed
        if part == "methods":
            methods, requests = settings.methods, settings.labels
        pairs = [(request, method) for method in methods for request in requests]
        if part == "methods" and settings.methods:
            pairs += [(request, "original") for request in settings.probed]
        return [pair for pair in pairs if self._records.find(**_key(*pair, seed)) is None]

    def retrain(self, seed: int, request: str) -> None:
        """Train a model without the labels of a request, and measure it."""
        self._say(f"seed {seed}: training without {request}")
        federation, labels = self._settings.federation(seed), labels_of(request)
        federation.forgotten = Forgotten(labels=labels)
        history = federation.train().history
        retained, forgotten = accuracies(federation, labels)
        self._records.add(
            kind="retrained",
            request=request,
            seed=seed,
            method="retrained",
            retained=retained,
            forgotten=forgotten,
            train_seconds=sum(epoch.seconds for epoch in history),
            **probe(federation, labels),
        )

    def forget(self, seed: int, request: str, method: str) -> None:
        """Forget with a method, measure, and roll back."""
        federation, labels = self._original(seed), labels_of(request)
        line = _key(request, method, seed)
        if method == "original":
            retained, forgotten = accuracies(federation, labels)
            line |= {"retained": retained, "forgotten": forgotten}
            self._records.add(**line, **probe(federation, labels))
            return
        settings = ForgetSettings(
            method=read_method(method),
            key=key_of(seed, request),
            allow_collapse=True,
            allow_disclosure=True,
            **samples_of(method),
        )
        try:
            outcome = federation.forget(labels, settings=settings)
        except (ForgetError, PartyRefused, TrainingError) as error:
            line["failed"] = str(error)  # a method that fails is a figure too
        else:
            line |= {**figures_of(outcome.result), "drift_share": outcome.result.drift_share}
            if request in self._settings.probed:
                line |= probe(federation, labels)
            outcome.rollback()
        self._records.add(**line, where=place_of(self._settings, federation.active.device.type))
        self._say(f"seed {seed} {method} {request}: {in_words(line)}")

    def _original(self, seed: int) -> Federation:
        """Return the original of a seed, trained where that is not done."""
        if seed not in self._originals:
            original = open_original(self._settings, seed, self._say)
            self._originals[seed] = original.federation
            if self._records.find(kind="original", seed=seed) is None:
                self._records.add(
                    kind="original",
                    seed=seed,
                    accuracy=original.federation.evaluate().accuracy,
                    train_seconds=original.seconds,
                    epoch_seconds=original.epoch_seconds,
                )
        return self._originals[seed]


def summary(methods: Sequence[str], records: Records) -> list[Line]:
    """Return one line a method and kind of request: means and spread over requests and seeds."""
    entries = []
    for method in ("original", *methods, "retrained"):
        lines, _ = failures([x for x in records.of_recipe() if x.get("method") == method])
        entries += [
            _entry(records, method, [x for x in lines if _size(x) == count])
            for count in sorted({_size(line) for line in lines})
        ]
    return entries


def _size(line: Line) -> int:
    return len(labels_of(line["request"]))


def _entry(records: Records, method: str, lines: list[Line]) -> Line:
    changes = [
        100 * (x["retained"] - x["retained_before"]) for x in lines if "retained_before" in x
    ]
    drifting = [x for x in lines if x.get("drift_share") is not None]
    entry: Line = {
        "method": method,
        "labels_a_request": _size(lines[0]),
        "runs": len(lines),
        "retained": spread_of(lines, "retained", 100),
        "retained_change": spread(changes),
        "retained_change_worst": min(changes, default=None),
        "forgotten": spread_of(lines, "forgotten", 100),
        "forgotten_worst": 100 * max(x["forgotten"] for x in lines),
        "seconds": spread_of(lines, "seconds"),
        "drift_share": spread_of(drifting, "drift_share"),
        "forgottenat_rate_0": spread([100 * at_rate_0(x) for x in drifting]),
        "asr": spread_of(lines, "asr", 100),
    }
    for name in ("probe_linear", "probe_nearest"):
        left = []
        for x in lines:
            ends = [
                _mean(records, other, x["request"], name) for other in ("original", "retrained")
            ]
            if name in x and ends[0] is not None and ends[1] is not None:
                left.append(residual(x[name], ends[0], ends[1]))
        entry[f"residual_{name[6:]}"] = spread([v for v in left if v is not None])
    aims = {x["request"]: _mean(records, "retrained", x["request"], "asr") for x in lines}
    ratios = [x["asr"] / aim for x in lines if "asr" in x and (aim := aims[x["request"]])]
    return entry | {"asr_ratio": spread(ratios)}


def at_rate_0(line: Line) -> float:
    """Return the forgotten accuracy of the same run at rate 0.

    drift_share = (before - it) / (before - after)
    """
    before, after = line["forgotten_before"], line["forgotten"]
    return float(before - line["drift_share"] * (before - after))


def _mean(records: Records, method: str, request: str, name: str) -> float | None:
    lines = [
        x for x in records.of_recipe() if (x.get("method"), x.get("request")) == (method, request)
    ]
    return mean_of([x.get(name) for x in lines])


def table(result: Result) -> list[list[str]]:
    """Return the summaries as rows for people."""
    heads = {
        "retained": FIGURES["retained"],
        "retained_change": "change",
        "retained_change_worst": "worst",
        "forgotten": FIGURES["forgotten"],
        "asr_ratio": f"{FIGURES['asr']} ratio",
        "residual_linear": "linear",
        "residual_nearest": "nearest",
        "seconds": "s",
    }
    entries = result["summary"]
    heads = {k: v for k, v in heads.items() if any(entry[k] is not None for entry in entries)}
    rows = [["method", "labels", "runs", *heads.values()]]
    for entry in entries:
        values = [entry[name] for name in heads]
        means = [value["mean"] if isinstance(value, dict) else value for value in values]
        cells = [entry["method"], str(entry["labels_a_request"]), str(entry["runs"])]
        rows.append([*cells, *(number(value, missing="-") for value in means)])
    return rows


def picture(result: Result) -> Picture:
    """Return what stays and what goes by label, and the frontier."""
    changed = _by_label(
        result, "retained", "change of retained accuracy against the original, points"
    )
    left = _by_label(result, "forgotten", "accuracy on the forgotten label, %")
    return Picture([[changed, left, _frontier(result)]], (17, 4.6))


def _by_label(result: Result, name: str, title: str) -> Panel:
    lines = [x for x in result["records"] if x["kind"] == "forget" and f"{name}_before" in x]
    requests = sorted({x["request"] for x in lines}, key=lambda text: (len(text), text))
    by_method: dict[str, list[Line]] = {}
    for line in lines:
        by_method.setdefault(line["method"], []).append(line)
    # Methods of the frontier alone would leave most places empty.
    common = {
        method: some
        for method, some in by_method.items()
        if 2 * len({x["request"] for x in some}) > len(requests)
    }
    series = []
    for place_of_method, (method, some) in enumerate(common.items()):
        shift = (place_of_method - (len(common) - 1) / 2) * 0.22
        base = "retained_before" if name == "retained" else ""
        series.append(
            Series(
                [requests.index(x["request"]) + shift for x in some],
                [100 * (x[name] - (x[base] if base else 0)) for x in some],
                method,
                options={"marker": "o", "ls": "", "ms": 4, "color": colour(place_of_method)},
            )
        )
    return Panel(
        series,
        xlabel="request (labels)",
        ylabel=title,
        lines=[("y", 0, {"color": "#888888", "lw": 0.8})],
        xticks=(range(len(requests)), requests),
        ticks={"rotation": 45 if len(requests) > 10 else 0},
        legend={"fontsize": 8},
    )


def _frontier(result: Result) -> Panel:
    """Return residual knowledge by both probes against the change of retained accuracy."""
    lines = [x for x in result["records"] if "probe_linear" in x and "retained_before" in x]
    entries = {
        x["method"]: x for x in result["summary"] if x["residual_linear"] and x["residual_nearest"]
    }
    series = []
    for place, method in enumerate(dict.fromkeys(x["method"] for x in lines)):
        if method not in entries:
            continue
        change = mean(
            100 * (x["retained"] - x["retained_before"]) for x in lines if x["method"] == method
        )
        for kind, mark, label in (("linear", "o", method), ("nearest", "^", None)):
            value = entries[method][f"residual_{kind}"]["mean"]
            options = {"marker": mark, "ls": "", "color": colour(place)}
            series.append(Series([change], [value], label, options=options))
    grey = {"color": "#888888", "lw": 0.8}
    requests = sorted({x["request"] for x in lines})
    return Panel(
        series,
        xlabel=f"mean change of retained accuracy, points (labels {', '.join(requests)})",
        ylabel="residual knowledge: o linear, ^ nearest",
        lines=[("y", 0, grey), ("y", 1, {**grey, "ls": ":"})],
        legend={"fontsize": 7, "loc": "upper left", "bbox_to_anchor": (1.0, 1.0)},
    )


BENCHES.add(
    "forgetting",
    Bench(
        "methods of forgetting beside retrained models: accuracies, attack, probes, seconds",
        ForgettingSettings,
        measure,
        table,
        picture=picture,
    ),
)
