"""What the way between parties costs: our transport beside the engine's own call, and its bytes.

One federation with a certificate a party runs on this machine, every party in processes of its
own, and one job stays open. Blocks of calls take turns within it:

    ours   a message of gradients to a party's own process and embeddings of the same size back,
           encoded, carried and decoded, as the active party's code sees it
    bare   the engine's call of a published function that returns the same bytes at once

Parties are asked side by side. What several of them need of the processor grows with their number
on any machine, so next to the time of a call stands the least that these cores allow:

    least(K) = max(time(1), processor time of all processes a call / cores)

and the bare call of as many parties: what both share is the engine's and the machine's.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from unlabel.config import expect
from unlabel.errors import SettingsError
from unlabel.wire import Gradients, Message, encode
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.speed.wire_half import half_precision
from unlabel_bench.speed.wire_page import page, table
from unlabel_bench.speed.wire_rig import Rig, rig

#: Columns of the tensors that are sent.
WIDTH = 64
#: Calls of each kind before any is timed.
WARM_UP = 20


@dataclass(frozen=True)
class WireSettings:
    """Settings of the bench.

    sizes    KiB of the tensor in each direction
    compare  passive parties where ours and the bare call are compared
    parties  numbers of passive parties for which a call of ours is timed
    calls    timed calls of each kind
    block    calls in a row before the other kind has its turn
    think    milliseconds for which a party waits before it answers, in a further measurement
    data     datasets on which half precision is tried; none leaves that out
    model    bottom model there
    epochs   of the trainings there
    batch    rows a step there
    seeds    how many seeds there, from 0 on
    page     Markdown file to write the tables into
    """

    sizes: tuple[int, ...] = (64, 512)
    compare: int = 2
    parties: tuple[int, ...] = (1, 2, 3, 4)
    calls: int = 200
    block: int = 20
    think: int = 50
    data: tuple[str, ...] = ("digits", "mnist")
    model: str = "mlp"
    epochs: int = 5
    batch: int = 64
    seeds: int = 3
    page: str = ""

    def __post_init__(self) -> None:
        expect("sizes", self.sizes, bool(self.sizes) and min(self.sizes) >= 1, "at least 1 KiB")
        expect("compare", self.compare, self.compare >= 1, "at least 1")
        expect("block", self.block, self.block >= 1, "at least 1")
        expect("calls", self.calls, self.calls >= self.block, "at least one block")
        expect("think", self.think, self.think >= 0, "0 or more")
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        if not self.parties or min(self.parties) < 1:
            raise SettingsError("Expected numbers of parties from 1 on.")


def measure(settings: WireSettings, say: Say) -> Result:
    """Time calls of both kinds, then calls of several parties, then count bytes."""
    started = time.perf_counter()
    most = max(settings.compare, *settings.parties)
    with tempfile.TemporaryDirectory(prefix="unlabel-wire-") as folder:
        say(f"starting a federation of {most} passive parties")
        with rig(Path(folder), most) as federation:
            round_trips = [_compared(federation, settings, kib, say) for kib in settings.sizes]
            by_parties = [
                line
                for kib in settings.sizes
                for line in _by_parties(federation, settings, kib, 0, say)
            ]
            thinking = _by_parties(federation, settings, settings.sizes[0], settings.think, say)
    return {
        "federation": most,
        "cores": os.cpu_count(),
        "round_trips": round_trips,
        "by_parties": by_parties,
        "thinking": thinking if settings.think else [],
        "half": half_precision(settings, say),
        "seconds": round(time.perf_counter() - started, 1),
    }


def request_of(kib: int, think: int = 0) -> Gradients:
    """Return gradients of so many KiB; the party reads from their step how long it may wait."""
    rows = kib * 1024 // (4 * WIDTH)
    drawn = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))
    return Gradients(think, drawn)


def _compared(federation: Rig, settings: WireSettings, kib: int, say: Say) -> dict[str, Any]:
    """Return the times of our calls and of bare ones, taken in turns."""
    parties = federation.parties[: settings.compare]
    message = request_of(kib)
    request = encode(message)
    federation.bare(parties, request, WARM_UP)
    _ours(federation, parties, message, WARM_UP)
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    for number in range(-(-settings.calls // settings.block)):
        say(f"{kib} KiB: {number * settings.block} of {settings.calls} calls of each kind")
        # Whoever goes second finds the machine as the other left it, so they take turns.
        for kind in ("ours", "bare") if number % 2 else ("bare", "ours"):
            if kind == "ours":
                ours.append(_ours(federation, parties, message, settings.block))
            else:
                bare.append(federation.bare(parties, request, settings.block))
    every = [seconds for block in ours for seconds in block]
    plain = [seconds for block in bare for seconds in block]
    pairs = [median(a) / median(b) for a, b in zip(ours, bare, strict=True)]
    return {
        "kib": kib,
        "parties": len(parties),
        "calls": len(every),
        "message_bytes": len(request),
        "ours": _times(every),
        "bare": _times(plain),
        "ratio": median(every) / median(plain),
        "ratio_of_blocks": {"lowest": min(pairs), "median": median(pairs), "highest": max(pairs)},
    }


def _by_parties(
    federation: Rig, settings: WireSettings, kib: int, think: int, say: Say
) -> list[dict[str, Any]]:
    """Return the time and processor time of a call for each number of parties, taken in turns."""
    message = request_of(kib, think)
    request = encode(message)
    seconds: dict[int, list[float]] = {number: [] for number in settings.parties}
    bare: dict[int, list[float]] = {number: [] for number in settings.parties}
    worked = dict.fromkeys(settings.parties, 0.0)
    _ours(federation, federation.parties, message, WARM_UP)
    for turn in range(-(-settings.calls // settings.block)):
        say(f"{kib} KiB: {turn * settings.block} of {settings.calls} calls for each number")
        for number in settings.parties:
            before = federation.processor_seconds()
            seconds[number] += _ours(
                federation, federation.parties[:number], message, settings.block
            )
            worked[number] += federation.processor_seconds() - before
            if not think:  # the bare call knows no waiting
                some = federation.parties[:number]
                bare[number] += federation.bare(some, request, settings.block)
    alone = median(seconds[min(settings.parties)])
    lines = []
    for number, times in seconds.items():
        processor = worked[number] / len(times)
        least = max(alone, processor / (os.cpu_count() or 1))
        lines.append(
            {
                "kib": kib,
                "think_ms": think,
                "parties": number,
                "calls": len(times),
                **_times(times),
                "processor_ms": 1000 * processor,
                "least_ms": 1000 * least,
                "over_least": median(times) / least,
                "bare_ms": 1000 * median(bare[number]) if bare[number] else None,
                "ratio": median(times) / median(bare[number]) if bare[number] else None,
            }
        )
    return lines


def _ours(federation: Rig, parties: Sequence[str], message: Message, times: int) -> list[float]:
    """Return the seconds that so many calls over our transport took."""
    requests = dict.fromkeys(parties, message)
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        federation.transport.tell(requests)
        seconds.append(time.perf_counter() - started)
    return seconds


def _times(seconds: Sequence[float]) -> dict[str, float]:
    p90 = quantiles(seconds, n=10)[-1] if len(seconds) > 1 else seconds[0]
    return {"median_ms": 1000 * median(seconds), "p90_ms": 1000 * p90}


BENCHES.add(
    "wire",
    Bench(
        "what the way between parties costs, in time and bytes", WireSettings, measure, table, page
    ),
)
