"""What private set intersection costs: our layer on all cores against the plain library on one."""

from __future__ import annotations

import gc
import resource
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from unlabel.align.psi import Receiver, Sender, cores, library
from unlabel.config import expect
from unlabel.errors import TrainingError
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class PsiSettings:
    """Settings of the bench.

    size     ids of each side, of which half are common
    repeats  how often both are measured, in turns
    plain    also measure the plain library on one core
    """

    size: int = 100_000
    repeats: int = 1
    plain: bool = True

    def __post_init__(self) -> None:
        expect("size", self.size, self.size >= 2, "at least 2")
        expect("repeats", self.repeats, self.repeats >= 1, "at least 1")


def measure(settings: PsiSettings, say: Say) -> Result:
    """Return the seconds of each way, their ratio, the bytes sent and the peak of memory.

    All four steps are timed, those of both sides one after the other, as they are on two machines
    that wait for each other. The ratio is the median over the repeats. `cpu_seconds` is the work of
    all cores in the last repeat: it shows what the layer adds, also where others use the machine.
    The peak of memory is that of this process, which holds both sides here.
    """
    half = settings.size // 2
    asking = [f"person-{number:09d}" for number in range(settings.size)]
    answering = [f"person-{number + half:09d}" for number in range(settings.size)]
    times: dict[str, list[float]] = {"cores": [], "plain": []}
    worked: dict[str, float] = {}
    common: list[int] = []
    sent = peak = 0
    for repeat in range(settings.repeats):
        # Ours first, so that the peak of memory is not the plain library's.
        say(f"repeat {repeat + 1} of {settings.repeats}: {settings.size} x {settings.size} ids")
        gc.collect()
        started, before = time.perf_counter(), time.process_time()
        common, sent = _on_all_cores(asking, answering, say)
        times["cores"].append(time.perf_counter() - started)
        worked["cores"] = time.process_time() - before
        if repeat == 0:
            peak = _peak_mib()
        if common != list(range(half, settings.size)):
            raise TrainingError(f"Expected {settings.size - half} common ids, found {len(common)}.")
        if settings.plain:
            say(f"repeat {repeat + 1}: the plain library on one core")
            gc.collect()
            started, before = time.perf_counter(), time.process_time()
            expected = _plainly(asking, answering)
            times["plain"].append(time.perf_counter() - started)
            worked["plain"] = time.process_time() - before
            if expected != common:
                raise TrainingError("The plain library has found other ids.")
    ratios = [a / b for a, b in zip(times["cores"], times["plain"], strict=False)]
    return {
        "size": settings.size,
        "common": len(common),
        "cores": cores(),
        "seconds": round(median(times["cores"]), 3),
        "plain_seconds": round(median(times["plain"]), 3) if ratios else None,
        "ratio": round(median(ratios), 4) if ratios else None,
        "ratios": [round(ratio, 4) for ratio in ratios],
        "cpu_seconds": {way: round(spent, 3) for way, spent in worked.items()},
        "ids_a_second": round(settings.size / median(times["cores"])),
        "bytes_sent": sent,
        "peak_memory_mib": peak,
    }


def _on_all_cores(asking: list[str], answering: list[str], say: Say) -> tuple[list[int], int]:
    """Return the positions of the common ids, and the bytes that crossed between the sides."""

    def watch(done: int, total: int, note: str) -> None:
        say(f"{note}: {done} of {total}")

    receiver = Receiver(asking, watch=watch)
    sender = Sender(answering, watch=watch)
    response = sender.answer(receiver.masked)
    common = receiver.common(sender.setup, response).tolist()
    return common, sum(part.numel() for part in (receiver.masked, sender.setup, response))


def _plainly(asking: list[str], answering: list[str]) -> list[int]:
    """Return the same by the library as its own examples use it."""
    psi = library()
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    request = client.CreateRequest(asking)
    setup = server.CreateSetupMessage(1e-9, len(asking), answering, psi.DataStructure.RAW)
    response = server.ProcessRequest(request)
    return sorted(client.GetIntersection(setup, response))


def _peak_mib() -> int:
    # Threads of one process do the work; children are counted in case a library starts any.
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = sum(resource.getrusage(each).ru_maxrss for each in who)
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    lines = [["what", "figure"], ["ids of each side", f"{result['size']:,}"]]
    lines.append([f"on {result['cores']} cores", f"{result['seconds']:.1f} s"])
    if result["ratio"] is not None:
        lines.append(["plain library on one core", f"{result['plain_seconds']:.1f} s"])
        lines.append(["ratio", f"{result['ratio']:.3f}"])
    lines.append(["bytes sent", f"{result['bytes_sent']:,}"])
    lines.append(["peak memory of both sides", f"{result['peak_memory_mib']:,} MiB"])
    return lines


BENCHES.add(
    "psi",
    Bench(
        "private set intersection on all cores against the plain library on one",
        PsiSettings,
        measure,
        table,
    ),
)
