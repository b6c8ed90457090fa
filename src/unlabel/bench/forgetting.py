"""Methods of forgetting side by side, from the same weights, beside models retrained without.

Every figure is a line of a JSONL file, keyed by what it is a figure of; a bench that starts again
on the same file repeats nothing that is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from unlabel.audit import attack_success, entropy, linear_probe, nearest_probe, residual
from unlabel.bench.forgetting_picture import draw
from unlabel.bench.recipe import Recipe
from unlabel.bench.registry import BENCHES, Bench
from unlabel.federation import Federation
from unlabel.files import sha256
from unlabel.forget import METHODS, Forgotten, Method
from unlabel.forget.method import settings_of
from unlabel.words import parse_settings

#: Retained training rows that the membership attack learns from.
MEMBERS = 10_000


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


class Records:
    """The figures so far."""

    def __init__(self, path: str, recipe: str) -> None:
        self._path = Path(path) if path else None
        self._recipe = recipe
        self.lines: list[dict[str, Any]] = []
        if self._path is not None and self._path.exists():
            text = self._path.read_text(encoding="utf-8")
            self.lines = [json.loads(line) for line in text.splitlines() if line]

    def find(self, **key: Any) -> dict[str, Any] | None:
        """Return the line of a key."""
        wanted = {"recipe": self._recipe, **key}
        for line in self.lines:
            if all(line.get(name) == value for name, value in wanted.items()):
                return line
        return None

    def own(self) -> list[dict[str, Any]]:
        """Return the lines of this recipe; a file may hold those of others."""
        return [line for line in self.lines if line["recipe"] == self._recipe]

    def add(self, **line: Any) -> None:
        """Keep a line at once, so that an interruption loses nothing."""
        kept = {"recipe": self._recipe, **line}
        self.lines.append(kept)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept) + "\n")


def run(settings: ForgettingSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train the originals, forget with every method, retrain; return figures and summaries."""
    recipe = {name: getattr(settings, name) for name in RECIPE}
    records = Records(settings.records, sha256(json.dumps(recipe).encode())[:12])
    ends = time.monotonic() + settings.budget if settings.budget else float("inf")
    originals: dict[int, Federation] = {}
    # What everybody asks first comes first, in case the time runs out.
    for part in ("methods", "frontier"):
        for seed in settings.seeds:
            for request, method in _todo(settings, records, seed, part):
                if time.monotonic() > ends:
                    break
                if seed not in originals:
                    originals[seed] = _original(settings, records, seed, say)
                _forget(settings, records, originals[seed], seed, request, method, say)
        if part == "methods":
            _retrain_all(settings, records, ends, say)
    result = {"records": records.lines, "summary": summary(settings, records)}
    if settings.picture:
        draw(result, Path(settings.picture))
    return result


def _retrain_all(
    settings: ForgettingSettings, records: Records, ends: float, say: Callable[[str], None]
) -> None:
    for seed in settings.retrain:
        for request in settings.probed:
            key = {"kind": "retrained", "request": request, "seed": seed}
            if records.find(**key) is None and time.monotonic() < ends:
                _retrain(settings, records, seed, request, say)


def _todo(
    settings: ForgettingSettings, records: Records, seed: int, part: str
) -> list[tuple[str, str]]:
    """Return the requests and methods that have no figures yet."""
    if part == "methods":
        wanted = [(request, method) for method in settings.methods for request in settings.labels]
        if settings.methods:
            wanted += [(request, "original") for request in settings.probed]
    else:
        wanted = [(request, method) for method in settings.frontier for request in settings.probed]
    return [
        (request, method)
        for request, method in wanted
        if records.find(**_key(request, method, seed)) is None
    ]


def _key(request: str, method: str, seed: int) -> dict[str, Any]:
    """Return what a line is a figure of; a method whose defaults changed is another one."""
    key: dict[str, Any] = {"kind": "forget", "request": request, "method": method, "seed": seed}
    if method != "original":
        key["settings"] = settings_digest(method)
    return key


def settings_digest(method: str) -> str:
    """Return a fingerprint of all settings of a method."""
    found = settings_of(read_method(method))
    return sha256(json.dumps(found, sort_keys=True).encode())[:12]


def _original(
    settings: ForgettingSettings, records: Records, seed: int, say: Callable[[str], None]
) -> Federation:
    say(f"seed {seed}: training the original")
    federation = settings.federation(seed)
    history = federation.train().history
    if records.find(kind="original", seed=seed) is None:
        records.add(
            kind="original",
            seed=seed,
            accuracy=federation.evaluate().accuracy,
            train_seconds=sum(epoch.seconds for epoch in history),
            epoch_seconds=history[-1].seconds,
        )
    return federation


def _retrain(
    settings: ForgettingSettings,
    records: Records,
    seed: int,
    request: str,
    say: Callable[[str], None],
) -> None:
    say(f"seed {seed}: training without {request}")
    federation = settings.federation(seed)
    federation.forgotten = Forgotten(labels=_labels(request))
    history = federation.train().history
    stay, gone = _accuracies(federation, _labels(request))
    records.add(
        kind="retrained",
        request=request,
        seed=seed,
        method="retrained",
        retained=stay,
        forgotten=gone,
        train_seconds=sum(epoch.seconds for epoch in history),
        **_probe(federation, _labels(request)),
    )


def _forget(
    settings: ForgettingSettings,
    records: Records,
    federation: Federation,
    seed: int,
    request: str,
    method: str,
    say: Callable[[str], None],
) -> None:
    labels = _labels(request)
    line = _key(request, method, seed)
    if method == "original":
        stay, gone = _accuracies(federation, labels)
        records.add(**line, retained=stay, forgotten=gone, **_probe(federation, labels))
        return
    outcome = federation.forget(
        labels, method=read_method(method), key=key_of(seed, request), **_samples(method)
    )
    result = outcome.result
    line |= {
        "retained": result.retained_accuracy.after,
        "retained_before": result.retained_accuracy.before,
        "forgotten": result.forgotten_accuracy.after,
        "forgotten_before": result.forgotten_accuracy.before,
        "steps": result.steps,
        "seconds": result.seconds,
        "bytes": result.transcript_bytes,
        "drift_share": result.drift_share,
    }
    if request in settings.probed:
        line |= _probe(federation, labels)
    outcome.rollback()
    records.add(**line)
    say(
        f"seed {seed} {method} {request}: D_r {100 * (line['retained'] or 0):.2f} "
        f"y_u {100 * (line['forgotten'] or 0):.2f} in {result.seconds:.3f} s"
    )


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


def _samples(method: str) -> dict[str, Any]:
    """Return how many samples go with the preset that a method names."""
    name, _, preset = method.split(":")[0].partition("@")
    if not preset:
        return {}
    found = METHODS.get(name)().presets()[preset]
    return {"few_shot": found.few_shot, "retained": found.retained}


def key_of(*what: object) -> str:
    """Return a key for a request that can be repeated; a real one is random."""
    return sha256("/".join(map(str, what)).encode())


def _labels(request: str) -> tuple[int, ...]:
    return tuple(int(part) for part in request.split("+"))


def _accuracies(federation: Federation, labels: Sequence[int]) -> tuple[float | None, float | None]:
    found = federation.evaluate()
    stays = [n for n in range(len(federation.labels)) if n not in labels]
    return found.accuracy_on(stays), found.accuracy_on(labels)


def _probe(federation: Federation, labels: tuple[int, ...]) -> dict[str, float]:
    """Return the membership attack's success and both probes' accuracies on the labels."""
    active, rows = federation.active, federation.holdings.rows
    train, test = rows.train.to(active.device), rows.test.to(active.device)
    y, truth = active.labels[train], active.labels[test]
    seen, tested = active.embeddings(train), active.embeddings(test)
    with torch.no_grad():
        active.top.begin("predict", 0)
        train_entropy = entropy(active.apply_top(seen))
        test_entropy = entropy(active.apply_top(tested))
    gone = torch.isin(y, torch.tensor(labels, device=y.device))
    asked = torch.isin(truth, torch.tensor(labels, device=y.device))
    members = train_entropy[~gone]
    some = torch.randperm(len(members), generator=torch.Generator().manual_seed(0))[:MEMBERS]
    joined, queries = torch.cat(seen, 1), torch.cat(tested, 1)[asked]
    count = len(federation.labels)
    strangers = test_entropy
    return {
        "asr": attack_success(members[some.to(members.device)], strangers, train_entropy[gone]),
        "probe_linear": linear_probe(joined, y, queries, truth[asked], count),
        "probe_nearest": nearest_probe(joined, y, queries, truth[asked], count),
    }


def summary(settings: ForgettingSettings, records: Records) -> list[dict[str, Any]]:
    """Return one line a method and kind of request: means and spread over requests and seeds."""
    found = []
    for method in ("original", *settings.methods, *settings.frontier, "retrained"):
        lines = [line for line in records.own() if line.get("method") == method]
        found += [
            _summarise(records, method, [x for x in lines if _size(x) == count])
            for count in sorted({_size(line) for line in lines})
        ]
    return found


def _size(line: dict[str, Any]) -> int:
    return len(_labels(line["request"]))


def _summarise(records: Records, method: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    changes = [
        100 * (x["retained"] - x["retained_before"]) for x in lines if "retained_before" in x
    ]
    line: dict[str, Any] = {
        "method": method,
        "labels_a_request": _size(lines[0]),
        "runs": len(lines),
        "retained": _spread([100 * x["retained"] for x in lines]),
        "retained_change": _spread(changes),
        "retained_change_worst": min(changes, default=None),
        "forgotten": _spread([100 * x["forgotten"] for x in lines]),
        "forgotten_worst": 100 * max(x["forgotten"] for x in lines),
        "seconds": _spread([x["seconds"] for x in lines if "seconds" in x]),
        "drift_share": _spread([x["drift_share"] for x in lines if _drifts(x)]),
        "forgotten_at_rate_0": _spread([100 * _at_rate_0(x) for x in lines if _drifts(x)]),
        "asr": _spread([100 * x["asr"] for x in lines if "asr" in x]),
    }
    ratios = []
    for probe in ("probe_linear", "probe_nearest"):
        left = []
        for x in lines:
            original = _mean(records, "original", x["request"], probe)
            retrained = _mean(records, "retrained", x["request"], probe)
            if probe in x and original is not None and retrained is not None:
                left.append(residual(x[probe], original, retrained))
        line[f"residual_{probe[6:]}"] = _spread([v for v in left if v is not None])
    for x in lines:
        retrained = _mean(records, "retrained", x["request"], "asr")
        if "asr" in x and retrained:
            ratios.append(x["asr"] / retrained)
    line["asr_ratio"] = _spread(ratios)
    return line


def _drifts(line: dict[str, Any]) -> bool:
    return line.get("drift_share") is not None


def _at_rate_0(line: dict[str, Any]) -> float:
    """Return y_u of the same run at rate 0: drift_share = (before - it) / (before - after)."""
    before, after = line["forgotten_before"], line["forgotten"]
    return float(before - line["drift_share"] * (before - after))


def _mean(records: Records, method: str, request: str, name: str) -> float | None:
    values = [
        x[name]
        for x in records.own()
        if x.get("method") == method and x.get("request") == request and name in x
    ]
    return mean(values) if values else None


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"mean": mean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the summaries as rows for people."""
    heads = {
        "retained": "D_r",
        "retained_change": "change",
        "retained_change_worst": "worst",
        "forgotten": "y_u",
        "asr_ratio": "ASR ratio",
        "residual_linear": "linear",
        "residual_nearest": "nearest",
        "seconds": "s",
    }
    heads = {
        k: v for k, v in heads.items() if any(line[k] is not None for line in result["summary"])
    }
    rows = [["method", "labels", "runs", *heads.values()]]
    for line in result["summary"]:
        cells = [line["method"], str(line["labels_a_request"]), str(line["runs"])]
        rows.append([*cells, *(_cell(line[name]) for name in heads)])
    return rows


def _cell(found: Any) -> str:
    value = found["mean"] if isinstance(found, dict) else found
    return "-" if value is None else f"{value:.2f}"


BENCHES.add(
    "forgetting",
    Bench(
        "methods of forgetting beside retrained models: D_r, y_u, attack, probes, seconds",
        ForgettingSettings,
        run,
        table,
    ),
)
