"""Whether a passive party withstands hostile bytes."""

from __future__ import annotations

import contextlib
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from unlabel_bench.registry import BENCHES, Bench

from stress.fuzz_findings import KEPT, Findings, read
from stress.fuzz_inputs import inputs
from stress.fuzz_judge import Judge
from stress.fuzz_matching import IDS
from stress.fuzz_messages import COLUMNS, MOST_IDS, ROWS, TABLES, WIDTH
from unlabel.align import People
from unlabel.align.psi import MissingLibrary
from unlabel.config import OptimiserSettings, Policy
from unlabel.data import Features
from unlabel.models import build_bottom
from unlabel.party import Bottom, CheckpointStore, PassiveParty, Place, Stream
from unlabel.wire import Limits
from unlabel.wire.codec import DEFAULT_LIMITS

GROWTH_MIB = 64
WARM_UP = 1_000
#: Inputs that one pair of parties gets.
ROUND = 1_000


@dataclass(frozen=True)
class FuzzWireSettings:
    """Settings of the bench.

    count  inputs to try
    seed   of their draw
    """

    count: int = 10_000
    seed: int = 0


def measure(settings: FuzzWireSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed the inputs to an ordinary party and to a narrow one; return what was found.

    Every so often both begin anew: gradients that a policy just allows can leave a party with no
    version worth returning to, and from then on it would refuse nearly everything.
    """
    rounds = []
    for start in range(0, settings.count, ROUND):
        say(f"{start} of {settings.count} inputs")
        part = FuzzWireSettings(min(ROUND, settings.count - start), settings.seed + start)
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(fuzz([make_party(folder=Path(folder)), make_narrow_party()], part, say))
    return _join(rounds)


def _join(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    served: Counter[str] = Counter()
    for each in rounds:
        served.update(each["served"])
    return {
        **{name: sum(each[name] for each in rounds) for name in ("inputs", "decoded", "refused")},
        "served": dict(sorted(served.items())),
        "violations": [wrong for each in rounds for wrong in each["violations"]][:KEPT],
        "slowest_ms": max(each["slowest_ms"] for each in rounds),
        "memory_growth_mib": round(sum(each["memory_growth_mib"] for each in rounds[1:]), 3),
        "seconds": round(sum(each["seconds"] for each in rounds), 3),
    }


def make_party(
    kind: type[PassiveParty] = PassiveParty,
    *,
    folder: Path | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
) -> PassiveParty:
    """Build a small party that holds the tables the inputs ask for."""
    stream = Stream(0, "fuzzed")
    with torch.random.fork_rng(devices=[]):
        stream.start("init", torch.device("cpu"))
        tables = {name: Features(torch.randn(ROWS, COLUMNS)) for name in TABLES}
        module = build_bottom("mlp", (COLUMNS,))
    place = Place(torch.device("cpu"))
    bottom = Bottom(module, tables["main"], OptimiserSettings(), stream=stream, place=place)
    for name in TABLES[1:]:
        bottom.add_table(name, tables[name])
    # A folder within the given one, so that a file beside it would be seen.
    store = CheckpointStore(folder / "own", party="fuzzed", model="mlp") if folder else None
    return kind(
        "fuzzed",
        bottom,
        width=WIDTH,
        policy=policy or Policy(max_ids=MOST_IDS, min_common=2),
        store=store,
        limits=limits or DEFAULT_LIMITS,
        people=_people(tables["main"]),
    )


def _people(main: Features) -> People | None:
    """Return the people of a party that is aligned already, or none without the library."""
    try:
        people = People(IDS, lambda positions: Features(main.values[positions]))
    except MissingLibrary:
        return None
    people.keep(np.arange(ROWS))
    return people


def make_narrow_party(kind: type[PassiveParty] = PassiveParty) -> PassiveParty:
    """Build a party that only describes itself and embeds four rows at a time."""
    policy = Policy(serves=("Describe", "Embed"), max_rows=4)
    party = make_party(kind, policy=policy, limits=Limits(message=4096, header=512, side=64))
    party.bottom.prepare(torch.arange(ROWS), steps=10)
    return party


def fuzz(
    parties: Sequence[PassiveParty], settings: FuzzWireSettings, say: Callable[[str], None]
) -> dict[str, Any]:
    """Feed every input to every party, as bytes and as a message, and judge each answer."""
    result = Findings()
    judges = [Judge(party, result) for party in parties]
    started, warm = time.perf_counter(), _peak_mib()
    data = b""
    with quiet(), one_thread(), torch.random.fork_rng(devices=[]):
        for data in inputs(settings.count, settings.seed):
            if result.inputs == min(WARM_UP, settings.count // 2):
                warm = _peak_mib()
            if result.inputs % 500 == 0:
                say(f"{result.inputs} of {settings.count} inputs in this round")
            result.inputs += 1
            result.decoded += read(data, DEFAULT_LIMITS, "codec", result) is not None
            for judge in judges:
                judge.feed(data)
    grown = _peak_mib() - warm
    if grown > GROWTH_MIB:
        result.blame("all", f"memory grew by {grown:.0f} MiB", data)
    return {
        "inputs": result.inputs,
        "decoded": result.decoded,
        "refused": result.refused,
        "served": dict(sorted(result.served.items())),
        "violations": result.violations,
        "slowest_ms": round(1000 * result.slowest, 3),
        "memory_growth_mib": round(grown, 3),
        "seconds": round(time.perf_counter() - started, 3),
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the parties from writing a warning for every refusal."""
    log = logging.getLogger("unlabel.party")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core: these models are so small that a second one only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the counts as rows for people."""
    names = ("inputs", "decoded", "refused", "slowest_ms", "seconds")
    lines = [["what", "count"], *([name, str(result[name])] for name in names)]
    lines += [[f"served {kind}", str(count)] for kind, count in result["served"].items()]
    return [*lines, ["violations", str(len(result["violations"]))]]


BENCHES.add(
    "fuzz-wire",
    Bench(
        "hostile bytes against the codec and two passive parties", FuzzWireSettings, measure, table
    ),
)
