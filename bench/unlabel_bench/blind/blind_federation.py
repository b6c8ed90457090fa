"""Training between organisations: a blind run beside a supervised one, over mutual TLS.

Both have the same two parties in processes of their own, the same tables and the same rows, and the
engine that carries their messages. For each:

    connecting  a session is begun, and the rows are aligned by private set intersection
    training    from there to a model that is kept
    end to end  both together

A message is a request to the partner or its answer; bytes are those of messages as they are
encoded, without what the engine and TLS add.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.config import expect
from unlabel.data import ACTIVE
from unlabel.federation import Federation
from unlabel.wire import Message, kind_of
from unlabel.wire.codec import encoded_size
from unlabel_bench import markdown
from unlabel_bench.blind.split_tables import ID, PARTNER, TABLES, SplitTable, read_split
from unlabel_bench.registry import BENCHES, Bench, Result, Say

if TYPE_CHECKING:
    from unlabel.wire.linked import LinkedTransport

#: How many times faster a blind training is to be.
GOAL = 20.0
KINDS = ("blind", "supervised")


@dataclass(frozen=True)
class BlindFederationSettings:
    """Settings of the bench.

    table    FILE:NAME=VALUE:.. between a label holder and a partner
    folder   where the table lies; no part of what is recorded
    width    of the partner's components, as a share of its columns
    top      of the blind run; the default one if empty
    epochs   of supervised training; 0 for as many as the product takes by itself
    batch    rows of its steps
    repeats  of each kind, one after the other
    rows     of the table, 0 for all
    page     Markdown file to write the table into
    """

    table: str = TABLES[0]
    folder: str = "."
    width: float = 0.5
    top: str = ""
    epochs: int = 0
    batch: int = 64
    repeats: int = 1
    rows: int = 0
    page: str = ""

    def __post_init__(self) -> None:
        expect("epochs", self.epochs, self.epochs >= 0, "0 or more")
        expect("repeats", self.repeats, self.repeats >= 1, "at least 1")


@dataclass
class Traffic:
    """What crossed the boundary of the partner: messages by kind, and bytes."""

    kinds: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the figures, and begin anew."""
        facts = {
            "messages": 2 * sum(self.kinds.values()),
            "bytes_to_partner": self.sent,
            "bytes_from_partner": self.received,
            "requests": dict(self.kinds),
        }
        self.kinds, self.sent, self.received = Counter(), 0, 0
        return facts


@contextlib.contextmanager
def counting() -> Iterator[Traffic]:
    """Count what the label holder's transports carry, inside the block."""
    from unlabel.wire.linked import LinkedTransport

    traffic, exchange = Traffic(), LinkedTransport.exchange_in_turn

    def counted(
        self: LinkedTransport, requests: Mapping[str, Sequence[Message]]
    ) -> dict[str, list[Message]]:
        answers = exchange(self, requests)
        asked = [message for some in requests.values() for message in some]
        traffic.kinds.update(map(kind_of, asked))
        traffic.sent += sum(map(encoded_size, asked))
        traffic.received += sum(encoded_size(each) for some in answers.values() for each in some)
        return answers

    LinkedTransport.exchange_in_turn = counted  # type: ignore[method-assign]
    try:
        yield traffic
    finally:
        LinkedTransport.exchange_in_turn = exchange  # type: ignore[method-assign]


def measure(settings: BlindFederationSettings, say: Say) -> Result:
    """Train both kinds, each in a federation of its own."""
    table = read_split(settings.table, settings.folder)
    if settings.rows:
        table = table.some(np.arange(min(settings.rows, len(table.labels))))
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for repeat in range(settings.repeats):
        for kind in KINDS:
            with tempfile.TemporaryDirectory(prefix="unlabel-blind-") as place:
                say(f"{kind}, repeat {repeat + 1} of {settings.repeats}")
                runs[kind].append(_trained(Path(place), table, kind, settings, say))
    ratios = {
        part: [
            slow[part] / fast[part]
            for fast, slow in zip(runs["blind"], runs["supervised"], strict=True)
        ]
        for part in ("training", "end_to_end")
    }
    return {
        "table": table.name,
        "rows": len(table.labels),
        "columns": {name: len(part) - 1 for name, part in table.frames.items()},
        "cores": os.cpu_count(),
        "runs": runs,
        "ratios": ratios,
        "goal": GOAL,
        "reached": {part: min(times) >= GOAL for part, times in ratios.items()},
    }


def _trained(
    place: Path, table: SplitTable, kind: str, settings: BlindFederationSettings, say: Say
) -> dict[str, Any]:
    """Return the figures of one federation."""
    from unlabel.remote.local_cluster import LocalCluster

    tables = _write(place, table)
    kits = _kits(place, table, kind, settings)
    with LocalCluster(kits, tables), counting() as traffic:
        started = time.perf_counter()
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            connected, aligning = time.perf_counter(), traffic.facts()
            say(f"{kind}: training on {len(federation.holdings.rows.train)} rows")
            progress = federation.train()
            ended, training = time.perf_counter(), traffic.facts()
            tested = federation.evaluate()
    return {
        "connecting": connected - started,
        "training": ended - connected,
        "end_to_end": ended - started,
        "epochs": None if kind == "blind" else len(progress.history),
        "training_rows": len(federation.holdings.rows.train),
        "auc": tested.auc,
        "accuracy": tested.accuracy,
        "traffic": {"connecting": aligning, "training": training},
    }


def _write(place: Path, table: SplitTable) -> dict[str, Path]:
    """Write each party's table into a file of its own."""
    paths = {ACTIVE: place / "holder.csv", PARTNER: place / "partner.csv"}
    for path, part in zip(paths.values(), table.frames.values(), strict=True):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(part)
            writer.writerows(zip(*(cells.tolist() for cells in part.values()), strict=True))
    return paths


def _kits(
    place: Path, table: SplitTable, kind: str, settings: BlindFederationSettings
) -> dict[str, Path]:
    """Make the kits of a federation of the label holder and its partner."""
    from unlabel.remote.local_cluster import free_port
    from unlabel.remote.provision import provision

    words = table.words
    columns: list[dict[str, Any]] = [
        {"id": ID, "missing": words.missing, "categories": [c for c in words.categories if c in f]}
        for f in table.frames.values()
    ]
    blind = {
        "bottoms": "blind",
        "label_free": {"objective": "components", "width": settings.width},
        "model": {"top": settings.top} if settings.top else {},
    }
    training: dict[str, Any] = {"batch": settings.batch}
    if settings.epochs:
        training["epochs"] = settings.epochs
    supervised = {"model": {"bottom": "mlp"}, "train": training}
    file = place / "federation.yaml"
    agreed: dict[str, Any] = {
        "name": "bench",
        "server": {"host": "localhost", "port": free_port()},
        "active": {"label": words.label, **columns[0]},
        "passive": [{"name": PARTNER, **columns[1]}],
        **(blind if kind == "blind" else supervised),
    }
    file.write_text(json.dumps(agreed), encoding="utf-8")  # which is YAML too
    kits = provision(file, place / "kits")
    return {name: kits[name] for name in (ACTIVE, PARTNER)}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people: the fastest and the slowest repeat."""
    lines = [["what", *KINDS]]
    for part in ("connecting", "training", "end_to_end"):
        words = part.replace("_", " ")
        lines.append([f"{words}, s", *(_span(result, kind, part) for kind in KINDS)])
    traffic = [result["runs"][kind][0]["traffic"]["training"] for kind in KINDS]
    lines.append(["messages of training", *(f"{t['messages']:,}" for t in traffic)])
    for way in ("to", "from"):
        sizes = (f"{t[f'bytes_{way}_partner'] / 2**20:.1f}" for t in traffic)
        lines.append([f"MiB {way} the partner", *sizes])
    epochs = [result["runs"][kind][0]["epochs"] for kind in KINDS]
    lines.append(["epochs", *("-" if number is None else str(number) for number in epochs)])
    lines.append(["test AUC", *(_span(result, kind, "auc", 3) for kind in KINDS)])
    for part, ratios in result["ratios"].items():
        span = " to ".join(f"{ratio:.1f}" for ratio in sorted({min(ratios), max(ratios)}))
        lines.append([f"times faster, {part.replace('_', ' ')}", span, ""])
    return lines


def _span(result: dict[str, Any], kind: str, part: str, digits: int = 1) -> str:
    values = [run[part] for run in result["runs"][kind]]
    return " to ".join(f"{value:.{digits}f}" for value in sorted({min(values), max(values)}))


def page(result: dict[str, Any]) -> str:
    """Return the figures as a page."""
    words = {True: "reached", False: "missed"}
    training, whole = (words[result["reached"][part]] for part in ("training", "end_to_end"))
    return "\n".join(
        [
            "# Training between organisations, blind and supervised",
            "",
            f"{result['table']}, {result['rows']:,} rows; a label holder and one partner in "
            f"processes of their own on {result['cores']} cores, over mutual TLS. The goal of "
            f"{result['goal']:g} times faster is {training} for the training, from aligned rows to "
            f"a model that is kept. With the start of a job and the alignment of all ids, which "
            f"both kinds need once and alike, it is {whole}.",
            "",
            markdown.table(table(result)),
            "",
        ]
    )


BENCHES.add(
    "blind-federation",
    Bench(
        "training between organisations: seconds, messages and bytes, blind and supervised",
        BlindFederationSettings,
        measure,
        table,
        page,
    ),
)
