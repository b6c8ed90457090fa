"""Figures over seeds and requests: means, deviations, intervals, and a method's entry of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, stdev, variance
from typing import Any

import numpy as np

from unlabel.forget.settings import DEFAULT_METHOD
from unlabel_bench.markdown import plain_name
from unlabel_bench.measures import read_method, residual

#: The method that stands for models trained without the labels.
RETRAINED = "retrain"
#: Points between the probes on the original and the retrained model, and standard errors of their
#: difference over the seeds, below which what lies between them cannot be told.
APART, ERRORS = 5.0, 3.0
#: Times that groups and what is in them are drawn again for an interval.
DRAWS = 2000

Array = np.ndarray[Any, Any]
Line = dict[str, Any]


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean and standard deviation (0 of a single value) and count, or None of nothing."""
    if not values:
        return None
    deviation = stdev(values) if len(values) > 1 else 0.0
    return {"mean": mean(values), "deviation": deviation, "count": len(values)}


def spread_of(
    lines: Sequence[Mapping[str, Any]], name: str, scale: float = 1
) -> dict[str, float] | None:
    """Return the spread of one figure of lines; a line that lacks it does not count."""
    return spread([scale * x[name] for x in lines if x.get(name) is not None])


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there; None of none."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def interval(groups: Sequence[Array]) -> dict[str, float]:
    """Return the mean and its bootstrap interval of 95 %.

    People of one request share a model, so groups are drawn first, then what is within them.
    """
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS):
        chosen = [groups[n] for n in rng.integers(0, len(groups), len(groups))]
        draws.append(np.concatenate([rng.choice(group, len(group)) for group in chosen]).mean())
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"mean": float(np.concatenate(groups).mean()), "low": float(low), "high": float(high)}


def grouped(lines: Sequence[Line], *names: str) -> Iterator[tuple[Line, list[Line]]]:
    """Yield every combination of what lines say by these names, and the lines that say it."""
    groups: dict[str, tuple[Line, list[Line]]] = {}
    for line in lines:
        key = {name: line.get(name, "") for name in names}
        groups.setdefault(repr(key), (key, []))[1].append(line)
    yield from groups.values()


def failures(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the lines that went through, and why the others did not."""
    return [x for x in lines if "failed" not in x], [x["failed"] for x in lines if "failed" in x]


def summarise(lines: Sequence[Line], names: Sequence[tuple[str, bool]]) -> list[Line]:
    """Return an entry a method: means and deviations over seeds, in percent, points and seconds.

    lines  figures of one request
    names  methods in order, each with whether its settings were tuned

    `asr_over_retrained` is the attack's success minus the retrained model's of the same seed;
    `residual_*` is what is left by a probe (`measures.residual`), between the mean original and the
    mean retrained model, and None where these two differ by less than 5 points or by less than 3
    standard errors from the seeds, which is too near to tell; `seconds_cold` are those of the first
    request where it was repeated; `time_to_*` is its time as a share of another method's.
    """
    entries = [_entry(_of(lines, name), name, tuned, lines) for name, tuned in names]
    entries = [entry for entry in entries if entry["runs"] or entry["failed"]]
    for other, field in ((RETRAINED, "time_to_retrained"), (DEFAULT_METHOD, "time_to_default")):
        base = find(entries, other)
        for entry in entries:
            both = base is not None and base["seconds"] and entry["seconds"]
            entry[field] = entry["seconds"]["mean"] / base["seconds"]["mean"] if both else None  # type: ignore[index]
    return entries


def find(entries: Sequence[Line], name: str) -> Line | None:
    """Return the entry of a method that is not tuned, by its plain name."""
    for entry in entries:
        if plain_name(entry["method"]) == name and not entry["tuned"]:
            return entry
    return None


def _of(lines: Sequence[Line], name: str) -> list[Line]:
    return [x for x in lines if x.get("method") == name and x["kind"] in ("forget", "timing")]


def _entry(method_lines: list[Line], name: str, tuned: bool, lines: Sequence[Line]) -> Line:
    whole, failed = failures(method_lines)
    retrained = {x["seed"]: x["asr"] for x in _of(lines, RETRAINED) if "asr" in x}
    over = [100 * (x["asr"] - retrained[x["seed"]]) for x in whole if _both(x, retrained)]
    entry: Line = {
        "method": name,
        "tuned": tuned,
        "runs": len(whole),
        "failed": failed,
        **{figure: spread_of(whole, figure) for figure in ("seconds", "bytes", "steps")},
        "seconds_cold": spread(
            [x["seconds_all"][0] for x in whole if len(x.get("seconds_all", ())) > 1]
        ),
        "asr_over_retrained": spread(over),
    }
    for figure in ("retained", "forgotten", "asr", "probe_linear", "probe_nearest"):
        entry[figure] = spread_of(whole, figure, 100)
    for probe in ("linear", "nearest"):
        entry[f"residual_{probe}"] = _residual(whole, lines, f"probe_{probe}")
    for fact in ("needs", "tells", "names_rows", "control"):
        entry[fact] = method_lines[0].get(fact) if method_lines else None
    entry["shows_rows"] = name != "original" and read_method(name).shows_rows
    return entry


def _both(line: Line, retrained: Mapping[int, float]) -> bool:
    return "asr" in line and line["seed"] in retrained


def _residual(whole: list[Line], lines: Sequence[Line], probe: str) -> dict[str, float] | None:
    ends, error = [], 0.0
    for name in ("original", RETRAINED):
        values = [x[probe] for x in _of(lines, name) if probe in x]
        if not values:
            return None
        ends.append(mean(values))
        error += variance(values) / len(values) if len(values) > 1 else 0.0
    if abs(ends[0] - ends[1]) < max(APART / 100, ERRORS * error**0.5):
        return None
    left = [residual(x[probe], *ends) for x in whole if probe in x]
    return spread([value for value in left if value is not None])
