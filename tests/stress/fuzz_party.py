"""A passive party that runs on and on under hostile messages: no crash, no growth, no harm.

Where `fuzz-wire` begins anew every thousand inputs, here the parties live through all of them:

    ordinary  serves everything and keeps versions; a judge holds every answer against the rules
    narrow    only describes itself and embeds four rows at a time; it can never move
    waiting   does not know yet which of its rows the others have (where the library for that is)

Whatever the ordinary party serves is also told to a twin that hears nothing else. At the end both
must send the same embeddings to the last bit, so nothing that was refused left a trace; the narrow
one must send those of a twin that was never asked anything. Memory is what the process holds after
a warm-up and at the end, disk the most its folder ever held.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from unlabel_bench.registry import BENCHES, Bench

from stress.fuzz_findings import KEPT, Findings
from stress.fuzz_inputs import inputs
from stress.fuzz_judge import Judge
from stress.fuzz_matching import IDS
from stress.fuzz_messages import ROWS, TABLES
from stress.fuzz_wire import make_narrow_party, make_party, one_thread, quiet
from unlabel.align import People
from unlabel.align.psi import MissingLibrary
from unlabel.config import expect
from unlabel.party import PassiveParty
from unlabel.party.passive import UNALIGNED
from unlabel.wire import (
    Attest,
    Describe,
    Embed,
    Embeddings,
    Match,
    Message,
    Offer,
    Prepare,
    Refused,
    Restore,
    Save,
    Status,
    decode,
    encode,
    kind_of,
)

#: Requests that are answered and change nothing.
QUESTIONS = Describe | Status | Attest | Match | Offer
#: Messages between two looks at memory, disk and health.
LOOK = 2_000
#: Share of a worker's messages after which memory must not grow any more.
WARM_UP = 0.2
GROWTH_MIB = 32.0
#: The most the folder of the ordinary party may hold: versions, what is staged, ledger and key.
DISK_MIB = 8.0


@dataclass(frozen=True)
class FuzzPartySettings:
    """Settings of the bench.

    count    messages, over all workers
    seed     of their draw
    workers  processes that each feed parties of their own
    """

    count: int = 20_000
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        expect("count", self.count, self.count >= 1, "at least 1")
        expect("workers", self.workers, self.workers >= 1, "at least 1")


class Mirrored(PassiveParty):
    """A party that passes on to a twin whatever it serves, and nothing it refuses."""

    twin: PassiveParty | None = None
    findings: Findings | None = None

    def _answer(self, message: Message) -> Message:
        answer = super()._answer(message)
        if self.twin is not None and not isinstance(answer, Refused):
            self._mirror(self.twin, message)
        return answer

    def _mirror(self, twin: PassiveParty, message: Message) -> None:
        # Questions leave no trace, and masking ids takes long.
        if isinstance(message, QUESTIONS) or getattr(message, "mode", "") == "predict":
            return
        text = twin.handle(message)
        if isinstance(text, Refused) and self.findings is not None:
            what = f"served {kind_of(message)} where its twin did not: {text.reason[:100]}"
            self.findings.blame("ordinary", what, encode(message))


@dataclass
class Watched:
    """The parties of one worker, and what was found."""

    folder: Path
    findings: Findings = field(default_factory=Findings)
    restarts: int = -1

    def __post_init__(self) -> None:
        self.narrow = make_narrow_party()
        self.untouched = make_narrow_party()
        self.judge = Judge(self.narrow, self.findings)
        self.waiting = waiting_party()
        self.restart()

    def restart(self) -> None:
        """Start the ordinary party and its twin, in new folders."""
        self.restarts += 1
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home = self.folder / "party"
        party = make_party(Mirrored, folder=self.home)
        assert isinstance(party, Mirrored)
        self.party = party
        party.twin = make_party(folder=self.folder / "twin")
        party.findings = self.findings
        self.ordinary = Judge(party, self.findings)
        for first in (Prepare(0, torch.arange(ROWS), 10), Save(0, 1)):
            self.ordinary.feed(encode(first))

    def feed(self, data: bytes) -> None:
        """Give all parties one message."""
        self.findings.inputs += 1
        self.ordinary.feed(data)
        self.judge.feed(data)
        if self.waiting is not None:
            self._feed_waiting(self.waiting, data)

    def _feed_waiting(self, party: PassiveParty, data: bytes) -> None:
        answer = decode(party.serve(data))
        if not isinstance(answer, Refused):
            asked = kind_of(decode(data, party.limits))
            self.findings.served[f"{asked} (waiting)"] += 1
            if asked not in UNALIGNED:
                self.findings.blame("waiting", f"served {asked} before it was aligned", data)

    def revive(self) -> None:
        """Bring a party whose weights diverged within the rules back to a version, or restart."""
        if self._embeds(self.party):
            return
        for version in sorted(self.ordinary.versions):
            self.ordinary.feed(encode(Restore(0, version, "")))
            if self._embeds(self.party):
                return
        self.restart()

    def _embeds(self, party: PassiveParty) -> bool:
        asked = Embed(0, torch.arange(ROWS), "predict")
        return isinstance(party.handle(asked), Embeddings)

    def compare(self) -> None:
        """Blame a party that does not send what its twin sends."""
        pairs = (
            ("ordinary", self.party, self.party.twin, ROWS),
            ("narrow", self.narrow, self.untouched, 4),
        )
        for name, one, other, most in pairs:
            assert other is not None
            for table in TABLES:
                asked = Embed(0, torch.arange(most), "predict", table)
                answers = [party.handle(asked) for party in (one, other)]
                values = [a.values if isinstance(a, Embeddings) else None for a in answers]
                if values[0] is None or values[1] is None or not torch.equal(values[0], values[1]):
                    self.findings.blame(name, f"differs from its twin in '{table}'", b"")

    def disk_mib(self) -> float:
        """Return what the ordinary party's folder holds."""
        files = (path.stat().st_size for path in self.home.rglob("*") if path.is_file())
        return sum(files) / 2**20


def waiting_party() -> PassiveParty | None:
    """Return a party whose rows are not aligned yet, or none without the library for it."""
    try:
        people = People(IDS)
    except MissingLibrary:
        return None
    party = make_party()
    party.people = people
    return party


def work(count: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed one set of parties, and return what was found."""
    started, warm, disk = time.perf_counter(), 0.0, 0.0
    with (
        quiet(),
        one_thread(),
        torch.random.fork_rng(devices=[]),
        tempfile.TemporaryDirectory() as folder,
    ):
        watched = Watched(Path(folder) / "all")
        result = watched.findings
        for data in inputs(count, seed):
            watched.feed(data)
            if result.inputs % LOOK == 0:
                say(f"{result.inputs} of {count} messages")
                watched.revive()
                disk = max(disk, watched.disk_mib())
            if result.inputs == max(1, int(count * WARM_UP)):
                warm = resident_mib()
        watched.revive()
        watched.compare()
        disk = max(disk, watched.disk_mib())
        grown = resident_mib() - warm
        if grown > GROWTH_MIB:
            result.blame("all", f"memory grew by {grown:.1f} MiB", b"")
        if disk > DISK_MIB:
            result.blame("ordinary", f"its folder grew to {disk:.1f} MiB", b"")
        seconds = time.perf_counter() - started
    return {
        "messages": result.inputs,
        "refused": result.refused,
        "served": dict(sorted(result.served.items())),
        "violations": result.violations,
        "slowest_ms": round(1000 * result.slowest, 3),
        "restarts": watched.restarts,
        "resident_mib": round(warm, 1),
        "memory_growth_mib": round(grown, 2),
        "disk_mib": round(disk, 3),
        "waiting": watched.waiting is not None,
        "seconds": seconds,
    }


def _work_quietly(job: tuple[int, int]) -> dict[str, Any]:
    return work(*job, say_nothing)


def say_nothing(text: str) -> None:
    """Report progress to nobody."""


def measure(settings: FuzzPartySettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed the messages, in one process or in several."""
    started = time.perf_counter()
    share, rest = divmod(settings.count, settings.workers)
    counts = [share + (number < rest) for number in range(settings.workers)]
    jobs = [(count, settings.seed + 1_000_003 * n) for n, count in enumerate(counts) if count]
    if len(jobs) == 1:
        parts = [work(*jobs[0], say)]
    else:
        say(f"{settings.count} messages in {len(jobs)} processes")
        # Fresh processes: what this one holds in memory is not theirs.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(len(jobs), mp_context=context) as pool:
            parts = list(pool.map(_work_quietly, jobs))
    return {**_join(parts), "wall_seconds": round(time.perf_counter() - started, 1)}


def _join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    served: Counter[str] = Counter()
    for part in parts:
        served.update(part["served"])
    seconds = sum(part["seconds"] for part in parts)
    messages = sum(part["messages"] for part in parts)
    most = ("slowest_ms", "resident_mib", "memory_growth_mib", "disk_mib")
    return {
        "messages": messages,
        **{name: sum(part[name] for part in parts) for name in ("refused", "restarts")},
        **{name: max(part[name] for part in parts) for name in most},
        "served": dict(sorted(served.items())),
        "violations": [wrong for part in parts for wrong in part["violations"]][:KEPT],
        "waiting": all(part["waiting"] for part in parts),
        "process_seconds": round(seconds, 1),
        "messages_a_second": round(messages / seconds, 1),
    }


def resident_mib() -> float:
    """Return what this process holds in memory now; where that is not told, the most it held."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    return pages * resource.getpagesize() / 2**20


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the counts as rows for people."""
    names = (
        *("messages", "refused", "restarts", "memory_growth_mib", "resident_mib", "disk_mib"),
        *("slowest_ms", "messages_a_second", "wall_seconds"),
    )
    lines = [["what", "count"], *([name, str(result[name])] for name in names)]
    lines += [[f"served {kind}", str(count)] for kind, count in result["served"].items()]
    return [*lines, ["violations", str(len(result["violations"]))]]


BENCHES.add(
    "fuzz-party",
    Bench("hostile messages against parties that run on and on", FuzzPartySettings, measure, table),
)
