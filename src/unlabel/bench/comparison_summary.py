"""Means over seeds of every method of a comparison, and what they say of our default."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, variance
from typing import Any

from unlabel.audit import residual
from unlabel.bench.measures import read_method, spread
from unlabel.forget.settings import DEFAULT_METHOD

#: The method that stands for models trained without the labels.
RETRAINED = "retrain"
#: Mean y_u in percent up to which a method counts as one that forgets.
GONE = 1.0
#: Points of D_r within which methods are tied.
TIE = 0.5
#: Points between the probes on the original and the retrained model, and standard errors of their
#: difference over the seeds, below which what lies between them cannot be told.
APART, ERRORS = 5.0, 3.0
#: How many times faster our default is to be.
FASTER = 16.0

Line = dict[str, Any]


def plain_name(name: str) -> str:
    """Return a method's name without preset and settings.

    >>> plain_name("mixup-ascent@resnet18-cifar10:epochs=3")
    'mixup-ascent'
    """
    return name.partition(":")[0].partition("@")[0]


def summarise(lines: Sequence[Line], names: Sequence[tuple[str, bool]]) -> list[Line]:
    """Return an entry a method: means and deviations over seeds, in percent, points and seconds.

    lines  figures of one request
    names  methods in order, each with whether its settings were tuned

    `asr_over_retrained` is the attack's success minus the retrained model's of the same seed;
    `residual_*` is what is left by a probe (`audit.residual`), between the mean original and the
    mean retrained model, and None where these two differ by less than 5 points or by less than 3
    standard errors from the seeds, which is too near to tell; `time_to_*` is its time as a share of
    another method's.
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


def _entry(own: list[Line], name: str, tuned: bool, lines: Sequence[Line]) -> Line:
    whole = [x for x in own if "failed" not in x]
    retrained = {x["seed"]: x["asr"] for x in _of(lines, RETRAINED) if "asr" in x}
    entry: Line = {
        "method": name,
        "tuned": tuned,
        "runs": len(whole),
        "failed": [x["failed"] for x in own if "failed" in x],
        "seconds": spread([x["seconds"] for x in whole if "seconds" in x]),
        "bytes": spread([x["bytes"] for x in whole if "bytes" in x]),
        "steps": spread([x["steps"] for x in whole if "steps" in x]),
        "asr_over_retrained": spread(
            [100 * (x["asr"] - retrained[x["seed"]]) for x in _having(whole, "asr", retrained)]
        ),
    }
    for figure in ("retained", "forgotten", "asr", "probe_linear", "probe_nearest"):
        values = [x[figure] for x in whole if x.get(figure) is not None]
        entry[figure] = spread([100 * value for value in values])
    for probe in ("linear", "nearest"):
        entry[f"residual_{probe}"] = _residual(whole, lines, f"probe_{probe}")
    for fact in ("needs", "tells", "names_rows", "control"):
        entry[fact] = own[0].get(fact) if own else None
    entry["shows_rows"] = name != "original" and read_method(name).shows_rows()
    return entry


def _having(lines: list[Line], figure: str, seeds: dict[int, float]) -> list[Line]:
    return [x for x in lines if figure in x and x["seed"] in seeds]


def _residual(own: list[Line], lines: Sequence[Line], probe: str) -> dict[str, float] | None:
    ends, error = [], 0.0
    for name in ("original", RETRAINED):
        values = [x[probe] for x in _of(lines, name) if probe in x]
        if not values:
            return None
        ends.append(mean(values))
        error += variance(values) / len(values) if len(values) > 1 else 0.0
    if abs(ends[0] - ends[1]) < max(APART / 100, ERRORS * error**0.5):
        return None
    left = [residual(x[probe], *ends) for x in own if probe in x]
    return spread([value for value in left if value is not None])


def headline(entries: Sequence[Line]) -> dict[str, Line]:
    """Return what the figures say of our default: each a claim that holds or not, with numbers.

    retained  no other method with a mean y_u of 1 % at most has a mean D_r more than 0.5 points
              above; controls, which forget nothing, do not count
    asr       its mean ASR is not above the retrained model's, and of the methods of which both
              hold (y_u of 1 % at most, ASR not above) none is nearer
    time      it takes at most a sixteenth of the mean time of the fastest other method that needs
              rows of the other labels
    faster    and of the fastest that needs all rows of the forgotten labels, and no others

    `holds` is None where what it takes was not measured.
    """
    ours, retrained = find(entries, DEFAULT_METHOD), find(entries, RETRAINED)
    others = [
        entry
        for entry in entries
        if plain_name(entry["method"]) not in (DEFAULT_METHOD, "original")
        and not entry["control"]
        and entry["runs"]
    ]
    if ours is None or not ours["runs"] or not others:
        missing = {"holds": None, "sentence": f"Not measured: {DEFAULT_METHOD} beside others."}
        return dict.fromkeys(("retained", "asr", "time", "faster"), missing)
    gone = [entry for entry in others if _mean(entry, "forgotten") <= GONE]
    return {
        "retained": _retained(ours, gone),
        "asr": _asr(ours, [x for x in gone if plain_name(x["method"]) != RETRAINED], retrained),
        "time": _time(ours, others, ("retained", "all"), "need rows of the other labels"),
        "faster": _time(ours, others, ("forgotten",), "need all rows of the label alone"),
    }


def _mean(entry: Line, figure: str) -> float:
    return float(entry[figure]["mean"]) if entry[figure] else float("inf")


def _retained(ours: Line, gone: list[Line]) -> Line:
    own, own_left = _mean(ours, "retained"), _mean(ours, "forgotten")
    text = f"`{DEFAULT_METHOD}` has D_r {own:.2f} at y_u {own_left:.2f}"
    if not gone:
        return _claim(
            own_left <= GONE, f"{text}, and no other method has y_u of {GONE:g} % or less"
        )
    best = max(gone, key=lambda entry: _mean(entry, "retained"))
    holds = own_left <= GONE and _mean(best, "retained") <= own + TIE
    return _claim(
        holds,
        f"{text}; the best of the {len(gone)} others with y_u of {GONE:g} % or less, "
        f"`{best['method']}`, has {_mean(best, 'retained'):.2f} (a tie is within {TIE:g} points)",
    )


def _asr(ours: Line, gone: list[Line], retrained: Line | None) -> Line:
    if retrained is None or not retrained["asr"] or not ours["asr"]:
        return _claim(None, "the attack on a retrained model was not measured")
    aim, own = _mean(retrained, "asr"), _mean(ours, "asr")
    text = f"`{DEFAULT_METHOD}` has ASR {own:.2f} where retrained models have {aim:.2f}"
    below = [entry for entry in gone if _mean(entry, "asr") <= aim]
    if not below:
        return _claim(own <= aim, f"{text}, and no other method that forgets is below that")
    nearest = max(below, key=lambda entry: _mean(entry, "asr"))
    return _claim(
        _mean(ours, "forgotten") <= GONE and _mean(nearest, "asr") <= own <= aim,
        f"{text}; the nearest from below among the {len(below)} others that forget and are not "
        f"above, `{nearest['method']}`, has {_mean(nearest, 'asr'):.2f}",
    )


def _time(ours: Line, others: list[Line], needs: Sequence[str], need: str) -> Line:
    full = [x for x in others if x["needs"] in needs and x["seconds"]]
    if not full:
        return _claim(None, f"no methods that {need} were measured")
    fastest = min(full, key=lambda entry: _mean(entry, "seconds"))
    ratio = _mean(fastest, "seconds") / _mean(ours, "seconds")
    return _claim(
        ratio >= FASTER,
        f"`{DEFAULT_METHOD}` takes {_mean(ours, 'seconds'):.3f} s, and the fastest of the "
        f"{len(full)} methods that {need}, `{fastest['method']}`, "
        f"{_mean(fastest, 'seconds'):.3f} s, which is {ratio:.1f} times as long "
        f"(at least {FASTER:g} is claimed)",
    )


def _claim(holds: bool | None, sentence: str) -> Line:
    return {"holds": holds, "sentence": f"{sentence[0].upper()}{sentence[1:]}."}
