"""The engine's own call beside ours, in one job: what `unlabel bench wire` compares.

A frame whose header says `bare` is not handed to the parties' processes. The job's process at the
active party then makes so many calls of the engine's own with the same bytes, one after the other,
and tells how long each took. Engines that a bench starts allow these classes, and no others do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.proxy_list import ProxyList

from unlabel.errors import WireError
from unlabel.link import pack
from unlabel.remote import rules
from unlabel.remote.bridge import ActiveBridge, PassiveBridge
from unlabel.remote.job import write_job


class MeasuringBridge(ActiveBridge):
    """The end at the active party, which can also call past the parties."""

    def answer(
        self,
        pool: ThreadPoolExecutor,
        proxies: dict[str, Any],
        header: dict[str, Any],
        requests: dict[str, bytes],
    ) -> bytes:
        """Return what comes back to one frame, or the seconds of so many bare calls."""
        if "bare" not in header:
            return super().answer(pool, proxies, header, requests)
        callee = ProxyList([proxies[party] for party in requests])
        (request,) = set(requests.values())
        seconds = []
        for _ in range(int(header["bare"])):
            started = time.perf_counter()
            answers = dict(callee(timeout=float(header["timeout"])).echo(request))
            seconds.append(time.perf_counter() - started)
            if answers.keys() != requests.keys() or any(a != request for a in answers.values()):
                raise WireError("A bare call did not bring the same bytes back.")
        return pack({}, seconds=seconds, call=header.get("call"))


class EchoingBridge(PassiveBridge):
    """The end at a passive party, which can also answer by itself."""

    @collab.publish  # type: ignore[untyped-decorator]
    def echo(self, request: bytes) -> bytes:
        """Return the same bytes."""
        return request


def write_measuring_job(folder: Path, parties: int) -> Path:
    """Write the job of the bench."""
    return write_job(folder, parties, MeasuringBridge(), EchoingBridge())


def allow_measuring() -> None:
    """Let jobs name the classes of the bench at sites that this process starts."""
    for role, bridge in (("server", MeasuringBridge), ("client", EchoingBridge)):
        rules.ALLOWED[role] = (*rules.ALLOWED[role], f"{bridge.__module__}.{bridge.__qualname__}")


def processor_seconds(processes: Iterable[int]) -> float:
    """Return the processor time that these processes have used so far, in all their threads."""
    import psutil

    total = 0.0
    for number in processes:
        used = psutil.Process(number).cpu_times()
        total += used.user + used.system
    return total
