"""The figures of `forgetting` over requests and seeds, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from unlabel.audit import residual
from unlabel.bench.measures import labels_of, spread
from unlabel.bench.records import Records


def summary(methods: Sequence[str], records: Records) -> list[dict[str, Any]]:
    """Return one line a method and kind of request: means and spread over requests and seeds."""
    found = []
    for method in ("original", *methods, "retrained"):
        lines = [line for line in records.own() if line.get("method") == method]
        found += [
            _summarise(records, method, [x for x in lines if _size(x) == count])
            for count in sorted({_size(line) for line in lines})
        ]
    return found


def _size(line: dict[str, Any]) -> int:
    return len(labels_of(line["request"]))


def _summarise(records: Records, method: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    changes = [
        100 * (x["retained"] - x["retained_before"]) for x in lines if "retained_before" in x
    ]
    line: dict[str, Any] = {
        "method": method,
        "labels_a_request": _size(lines[0]),
        "runs": len(lines),
        "retained": spread([100 * x["retained"] for x in lines]),
        "retained_change": spread(changes),
        "retained_change_worst": min(changes, default=None),
        "forgotten": spread([100 * x["forgotten"] for x in lines]),
        "forgotten_worst": 100 * max(x["forgotten"] for x in lines),
        "seconds": spread([x["seconds"] for x in lines if "seconds" in x]),
        "drift_share": spread([x["drift_share"] for x in lines if _drifts(x)]),
        "forgottenat_rate_0": spread([100 * at_rate_0(x) for x in lines if _drifts(x)]),
        "asr": spread([100 * x["asr"] for x in lines if "asr" in x]),
    }
    ratios = []
    for name in ("probe_linear", "probe_nearest"):
        left = []
        for x in lines:
            original = _mean(records, "original", x["request"], name)
            retrained = _mean(records, "retrained", x["request"], name)
            if name in x and original is not None and retrained is not None:
                left.append(residual(x[name], original, retrained))
        line[f"residual_{name[6:]}"] = spread([v for v in left if v is not None])
    for x in lines:
        retrained = _mean(records, "retrained", x["request"], "asr")
        if "asr" in x and retrained:
            ratios.append(x["asr"] / retrained)
    line["asr_ratio"] = spread(ratios)
    return line


def _drifts(line: dict[str, Any]) -> bool:
    return line.get("drift_share") is not None


def at_rate_0(line: dict[str, Any]) -> float:
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
