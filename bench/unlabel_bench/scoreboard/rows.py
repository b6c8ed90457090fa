"""Records of benches as rows of one table: a method on a dataset, with what was measured of it.

A figure is its mean, its deviation over runs (None of one run) and their count; None where the
record has none. Visibility, aim and guarantee are the method's own words, not measurements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel.errors import SettingsError, UnlabelError
from unlabel_bench.markdown import plain_name
from unlabel_bench.measures import read_method
from unlabel_bench.summary import RETRAINED, spread

#: Names of datasets by how the records name them, or how that begins.
DATA = {
    "cifar100": "CIFAR-100",
    "cifar10": "CIFAR-10",
    "fashion-mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "digits": "Digits",
    "brain_tumor": "Brain Tumor MRI",
    "chest_xray": "Chest X-rays",
    "covid19": "COVID-19 Radiography",
    "modelnet40": "ModelNet40",
    "modelnet10": "ModelNet10",
    "banking77": "Banking77",
    "dbpedia": "DBpedia",
    "yahoo": "Yahoo Answers",
}
#: Requests of runs whose bottoms never saw a label: the method behind each kind of line.
EXACT = {"refit": "blind", "restart": "tuned"}

Row = dict[str, Any]
Record = Mapping[str, Any]


def read(folder: Path) -> list[Row]:
    """Return the rows of all records of a folder by dataset; blind and tuned runs come first."""
    rows = [row for path in sorted(folder.glob("*.json")) for row in _of_file(path)]
    if not rows:
        raise SettingsError(f"Folder '{folder}' has no record of methods beside each other.")
    order = list(dict.fromkeys(DATA.values()))

    def place(row: Row) -> tuple[Any, ...]:
        return _place(row["data"], order), row["data"], row["bottoms"] == "supervised"

    return sorted(rows, key=place)


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _of_file(path: Path) -> Iterator[Row]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and isinstance(record.get("records"), str):  # lies beside it
            lines = (path.parent / record["records"]).read_text(encoding="utf-8")
            record["records"] = [json.loads(line) for line in lines.splitlines()]
    except (OSError, ValueError) as error:
        raise SettingsError(f"Record '{path}' cannot be read ({error}).") from error
    reader = READERS.get(record.get("bench", "")) if isinstance(record, dict) else None
    if reader is None:
        return
    for row in reader(record):
        yield {"record": path.name, **_told(row), **row}


def data_name(name: str) -> str:
    """Return a dataset's name for people.

    >>> data_name("brain_tumor_64.npz"), data_name("cifar10"), data_name("other.csv")
    ('Brain Tumor MRI', 'CIFAR-10', 'other.csv')
    """
    return next((shown for start, shown in DATA.items() if name.startswith(start)), name)


def _told(row: Row) -> Row:
    """Return what is told of a method by its class: no figure, but its words for a request."""
    if row["bottoms"] != "supervised":
        # Exact by how the bottoms were made; only the tuned run's partners are told of it.
        visibility = "hidden" if row["bottoms"] == "blind" else "open"
        return {"visibility": visibility, "depth": "bottoms", "aim": None, "guarantee": "exact"}
    try:
        method = read_method(row["method"])
    except UnlabelError:  # the original, or a method of an earlier version
        return {"visibility": None, "depth": None, "aim": None, "guarantee": None}
    return {
        "visibility": method.visibility,
        "depth": None,  # no record of a comparison holds an audit
        "aim": method.aim,
        "guarantee": method.guarantee,
    }


def _comparison(record: Record) -> Iterator[Row]:
    """Yield the rows of a comparison; one by numbers of parties has a summary of each."""
    about, lines = record["about"], record.get("records", ())
    for entry in record["summary"]:
        parties = entry.get("parties", about.get("parties"))
        beside = [x for x in lines if x.get("parties", parties) == parties]
        mine = [x for x in beside if x.get("method") == entry["method"] and "failed" not in x]
        mine = [x for x in mine if x["kind"] in ("forget", "timing")]
        yield {
            "data": data_name(about["data"]),
            "model": about["model"],
            "parties": parties,
            "request": record["request"],
            "bottoms": "supervised",
            "method": entry["method"],
            "swept": entry["tuned"],
            "retained": _figure(entry["retained"]),
            "forgotten": _figure(entry["forgotten"]),
            "attack_ratio": _ratio(mine, beside),
            "residual": _figure(entry["residual_linear"]),
            **_times(mine),
            "bytes": _figure(entry["bytes"]),
            "runs": entry["runs"],
            "failed": len(entry["failed"]),
            "against_retrained": _against(entry, record["summary"], parties),
        }


def _figure(known: Mapping[str, Any] | None, scale: float = 1, count: int = 0) -> Row | None:
    """Return a figure as this page keeps it; `count` where the record's has none, 0 unknown."""
    if not known:
        return None
    runs = known.get("count", count) or None
    apart = None if runs == 1 else known["deviation"]
    return {
        "mean": scale * known["mean"],
        "deviation": None if apart is None else scale * apart,
        "runs": runs,
    }


def _ratio(mine: Sequence[Row], lines: Sequence[Row]) -> Row | None:
    """Return the attack's success over that on the retrained model of the same seed."""
    retrained = {
        x["seed"]: x["asr"] for x in lines if x.get("method") == RETRAINED and x.get("asr")
    }
    return _figure(
        spread(
            [
                x["asr"] / retrained[x["seed"]]
                for x in mine
                if x.get("asr") is not None and x["seed"] in retrained
            ]
        )
    )


def _times(mine: Sequence[Row]) -> dict[str, Row | None]:
    """Return the seconds of first requests and of warm ones, where a request was repeated."""
    first: list[float] = []
    warm: list[float] = []
    for line in mine:
        seconds = line.get("seconds_all") or [line["seconds"]] if "seconds" in line else []
        first += seconds[:1]
        warm += seconds[1:][-1:]
    return {"seconds_first": _figure(spread(first)), "seconds_warm": _figure(spread(warm))}


def _against(entry: Row, summary: Sequence[Row], parties: object) -> float | None:
    """Return how many points the retained accuracy lies above retrained models'."""
    same = [x for x in summary if x["method"] == RETRAINED and x.get("parties", parties) == parties]
    if not same or not same[0]["retained"] or not entry["retained"]:
        return None
    return float(entry["retained"]["mean"] - same[0]["retained"]["mean"])


def _blind(record: Record) -> Iterator[Row]:
    """Yield the requests of blind and tuned runs on images, which are exact."""
    settings, by_kind = record["settings"], record["summary"]
    retrained = next((x["retained"] for x in by_kind if x["kind"] == "retrained"), None)
    for line in by_kind:
        if line["kind"] not in EXACT:
            continue
        first = [
            x["first"]
            for x in record["lines"]
            if x["kind"] == line["kind"] and x.get("top", "") == line["top"] and "first" in x
        ]
        seconds = _figure(line["seconds"], 1, line["seeds"])
        above = None if retrained is None else line["retained"]["mean"] - retrained["mean"]
        yield {
            "data": data_name(settings["data"]),
            "model": settings["model"],
            "parties": settings["parties"],
            "request": settings["label"],
            "bottoms": EXACT[line["kind"]],
            "method": line["kind"] + (f" ({line['top']} top)" if line["top"] else ""),
            "swept": False,
            "retained": _figure(line["retained"], 100, line["seeds"]),
            "forgotten": _figure(line["forgotten"], 100, line["seeds"]),
            "attack_ratio": None,
            "residual": None,
            "seconds_first": _figure(spread(first)) if first else seconds,
            "seconds_warm": seconds if first else None,
            "bytes": None,
            "runs": line["seeds"],
            "failed": 0,
            "against_retrained": None if above is None else 100 * above,
        }


def _in_turn(record: Record, entry: Mapping[str, Any]) -> str:
    """Return how many labels a method was asked to forget, one at a time."""
    lines = [line for line in record["records"] if line.get("method") == entry["method"]]
    return f"each of {len({x['request'] for x in lines if '+' not in x['request']})} labels"


def _forgetting(record: Record) -> Iterator[Row]:
    """Yield the rows of a bench of all labels in turn; its runs are labels times seeds."""
    settings = record["settings"]
    for entry in record["summary"]:
        runs, single = entry["runs"], entry["labels_a_request"] == 1
        yield {
            "data": data_name(settings["data"]),
            "model": settings["model"],
            "parties": settings["parties"],
            "request": _in_turn(record, entry) if single else f"{entry['labels_a_request']} labels",
            "bottoms": "supervised",
            "method": RETRAINED if entry["method"] == "retrained" else entry["method"],
            "swept": False,
            "retained": _figure(entry["retained"], 1, runs),
            "forgotten": _figure(entry["forgotten"], 1, runs),
            # Measured for some of the labels alone; of how many runs is not in the summary.
            "attack_ratio": _figure(entry["asr_ratio"]),
            "residual": _figure(entry["residual_linear"]),
            "seconds_first": _figure(entry["seconds"], 1, runs),
            "seconds_warm": None,
            "bytes": None,
            "runs": runs,
            "failed": 0,
            # Retrained models are of fewer labels than the rest.
            "against_retrained": None,
        }


#: What reads the records of a bench, by its name.
READERS: dict[str, Callable[[Record], Iterator[Row]]] = {
    **dict.fromkeys(("single-label", "two-label", "four-label", "runtime"), _comparison),
    "blind-images": _blind,
    "forgetting": _forgetting,
}


def group(row: Row) -> str:
    """Return which of five groups a row belongs to, by what its method is."""
    name = plain_name(row["method"])
    if row["guarantee"] == "exact" or name == RETRAINED:
        return "exact"
    if name in ("mask", "original"):
        return "control"
    if name in ("mixup-ascent", "ascent"):
        return "paper"
    return "ours" if name in ("hidden", "renormalise", "deep") else "published"
