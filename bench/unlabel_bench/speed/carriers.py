"""A step and a whole training over each carrier, beside the same in one process.

Three parties on this machine, over the same drawn table. Two federations run side by side: one has
its messages carried by the engine, one over connections of its own. Steps go over each way:

    local      in one process, without the codec
    direct     over the hub, a gradient and the next request in one frame
    plain      over the hub, gradients in frames of their own
    flare      over the engine, gradients in frames of their own, as 0.6 sent them

Times are medians over steps, of blocks of `steps` that take turns, so that all ways see the same
load. `delayed` is a step over the hub behind a proxy that holds every byte for half of `delay`
milliseconds either way: a step that costs one round trip takes the delay once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unlabel.config import PassiveTable, expect
from unlabel.data import ACTIVE
from unlabel.federation import Federation
from unlabel.wire import Pipelined, Transport
from unlabel_bench.registry import BENCHES, Bench, Result, Say

if TYPE_CHECKING:
    from unlabel.remote.connect import RemoteFederation

PASSIVE = ("shop", "bank")
#: Steps before any is timed.
WARM_UP = 10
#: How often `status` is asked for.
STATUSES = 5


@dataclass(frozen=True)
class CarriersSettings:
    """Settings of the bench.

    rows    of the table
    columns of each passive party
    batch   rows a step
    steps   a block
    blocks  of each way
    epochs  of the whole trainings, supervised and blind; 0 leaves them out
    delay   milliseconds of a simulated round trip; 0 leaves it out
    flare   whether the engine is measured too
    """

    rows: int = 20_000
    columns: int = 20
    batch: int = 64
    steps: int = 25
    blocks: int = 4
    epochs: int = 1
    delay: int = 20
    flare: bool = True

    def __post_init__(self) -> None:
        expect("rows", self.rows, self.rows >= 500, "at least 500")
        expect("blocks", self.blocks, self.blocks >= 1, "at least 1")
        expect("steps", self.steps, self.steps >= 1, "at least 1")


def measure(settings: CarriersSettings, say: Say) -> Result:
    """Time steps of all ways in turns, then whole trainings."""
    with contextlib.ExitStack() as on:
        folder = Path(on.enter_context(tempfile.TemporaryDirectory(prefix="unlabel-carriers-")))
        tables = write_tables(folder, settings)
        say("starting the federations")
        direct = on.enter_context(federation(folder / "direct", tables, settings, "direct"))
        ways: dict[str, tuple[Federation, Transport]] = {
            "local": (local := _local(direct, tables, folder), local.active.transport)
        }
        ways["direct"] = (direct, direct.client.pipelined)
        ways["plain"] = (direct, direct.client.transport)
        if settings.flare:
            engine = on.enter_context(federation(folder / "flare", tables, settings, "flare"))
            ways["flare"] = (engine, engine.client.transport)
        steps = _in_turns(ways, settings, say)
        result: dict[str, Any] = {"steps": {way: _times(each) for way, each in steps.items()}}
        result["profile"] = _profile(ways["direct"], settings)
        say("status, in the open session and as a command of its own")
        result["status"] = _status(folder / "standing", settings)
        if settings.delay:
            say("a step over a slow line")
            result["delayed"] = _delayed(folder / "slow", tables, settings)
    middle = {way: median(each) for way, each in steps.items()}
    result["ratios"] = {
        "direct to local": middle["direct"] / middle["local"],
        "plain to local": middle["plain"] / middle["local"],
        **({"direct to flare": middle["direct"] / middle["flare"]} if settings.flare else {}),
    }
    if settings.epochs:
        result["trainings"] = _trainings(settings, say)
    return {"cores": os.cpu_count(), "load": os.getloadavg()[0], **result}


def write_tables(folder: Path, settings: CarriersSettings) -> dict[str, Path]:
    """Write a table a party: drawn columns, a label that depends on them a little."""
    rng = np.random.default_rng(0)
    ids = np.array([f"p{number:07d}" for number in range(settings.rows)])
    blocks = {name: rng.normal(size=(settings.rows, settings.columns)) for name in PASSIVE}
    score = sum(block[:, :3].sum(1) for block in blocks.values()) + rng.normal(size=settings.rows)
    labels = np.digitize(score, np.quantile(score, [0.33, 0.66]))
    paths = {ACTIVE: folder / "active.csv"}
    names = np.array(["low", "middle", "high"])[labels]
    lines = [f"{person},{name}" for person, name in zip(ids, names, strict=True)]
    paths[ACTIVE].write_text("id,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    for name, block in blocks.items():
        head = ",".join(["id", *(f"x{column}" for column in range(settings.columns))])
        rows = (",".join(f"{value:.5f}" for value in row) for row in block)
        body = [f"{person},{row}" for person, row in zip(ids, rows, strict=True)]
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text(head + "\n" + "\n".join(body) + "\n", encoding="utf-8")
    return paths


@contextlib.contextmanager
def federation(
    folder: Path,
    tables: Mapping[str, Path],
    settings: CarriersSettings,
    carrier: str,
    *,
    port: int | None = None,
    listen: int | None = None,
    bottoms: str = "supervised",
    epochs: int = 10,
) -> Iterator[RemoteFederation]:
    """Provision a federation, start its parties, and connect to it."""
    from unlabel.config.loader import dump, read_party
    from unlabel.remote.connect import connect
    from unlabel.remote.local_cluster import LocalCluster, free_port
    from unlabel.remote.provision import provision

    folder.mkdir()
    file = folder / "federation.yaml"
    passive = ", ".join(f"{{name: {name}}}" for name in PASSIVE)
    file.write_text(
        f"server: {{port: {port or free_port()}, carrier: {carrier}}}\n"
        f"active: {{label: y}}\npassive: [{passive}]\nmodel: {{bottom: mlp}}\n"
        + ("bottoms: blind\n" if bottoms == "blind" else "")
        + (f"train: {{epochs: {epochs}, batch: {settings.batch}}}\n" if bottoms != "blind" else ""),
        encoding="utf-8",
    )
    kits_by_name = provision(file, folder / "kits")
    kits = {name: kits_by_name[name] for name in (ACTIVE, *PASSIVE)}
    if listen is not None:
        party_file = kits[ACTIVE] / "party.yaml"
        party_file.write_text(dump(replace(read_party(party_file), port=listen)), encoding="utf-8")
    with LocalCluster(kits, tables), connect(kits[ACTIVE], resume=True) as connected:
        yield connected


def _local(remote: RemoteFederation, tables: Mapping[str, Path], folder: Path) -> Federation:
    """Return the same federation in one process."""
    config = remote.kit.run_config(tables[ACTIVE])
    passive = [PassiveTable(name=name, table=tables[name].resolve()) for name in PASSIVE]
    return Federation.create(replace(config, passive=passive), folder / "local")


def _in_turns(
    ways: Mapping[str, tuple[Federation, Transport]], settings: CarriersSettings, say: Say
) -> dict[str, list[float]]:
    """Return the seconds of every step, the ways taking turns in blocks."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for each in ways.values():
        _steps(*each, settings.batch, WARM_UP)
    for block in range(settings.blocks):
        say(f"block {block + 1} of {settings.blocks}")
        for way in list(ways)[:: 1 if block % 2 else -1]:
            seconds[way] += _steps(*ways[way], settings.batch, settings.steps)
    return seconds


def _steps(on: Federation, transport: Transport, batch: int, count: int) -> list[float]:
    """Train for some steps over a transport; return the seconds of each."""
    active = on.active
    before, active.transport = active.transport, transport
    rows = on.holdings.rows.train
    seconds = []
    try:
        active.prepare(rows, count)
        for number in range(count):
            some = rows[torch.arange(batch * number, batch * (number + 1)) % len(rows)]
            started = time.perf_counter()
            active.step(some, number)
            seconds.append(time.perf_counter() - started)
        transport.flush()
    finally:
        active.transport = before
    return seconds


def _profile(way: tuple[Federation, Transport], settings: CarriersSettings) -> dict[str, float]:
    """Return where the time of a step over the hub goes, in milliseconds of its median."""
    on, transport = way
    assert isinstance(transport, Pipelined)
    waited: list[float] = []
    exchange = transport._inner.exchange_in_turn

    def timed(requests: Any) -> Any:
        started = time.perf_counter()
        try:
            return exchange(requests)
        finally:
            waited.append(time.perf_counter() - started)

    transport._inner.exchange_in_turn = timed  # type: ignore[method-assign]
    try:
        whole = _steps(on, transport, settings.batch, settings.steps)
    finally:
        del transport._inner.exchange_in_turn
    return {
        "step": 1000 * median(whole),
        "waiting for the parties": 1000 * median(waited),
        "label holder": 1000 * (median(whole) - median(waited)),
    }


def _status(folder: Path, settings: CarriersSettings) -> dict[str, Any]:
    """Return seconds of `status` where a session is open, and of the command in a process."""
    folder.mkdir()
    few = replace(settings, rows=1000)
    tables = write_tables(folder, few)
    with federation(folder / "direct", tables, few, "direct", epochs=1) as on:
        on.train()
        opened = [_timed(on.status) for _ in range(STATUSES)]
        words = [sys.executable, "-m", "unlabel", "status", "--federation", str(on.kit.folder)]
        on.close()

        def command() -> None:
            subprocess.run(words, check=True, capture_output=True)

        alone = [_timed(command) for _ in range(STATUSES)]
    return {"open_s": median(opened), "command_s": median(alone), "times": STATUSES}


def _delayed(
    folder: Path, tables: Mapping[str, Path], settings: CarriersSettings
) -> dict[str, Any]:
    """Return the median step where every byte is held for half of the delay, either way."""
    from unlabel.remote.local_cluster import free_port

    listen = free_port()
    with slow_line(listen, settings.delay / 2000) as port:
        kits_by_name = federation(folder, tables, settings, "direct", port=port, listen=listen)
        with kits_by_name as remote:
            ways: dict[str, tuple[Federation, Transport]] = {
                "direct": (remote, remote.client.pipelined),
                "plain": (remote, remote.client.transport),
            }
            few = replace(settings, blocks=1)
            steps = _in_turns(ways, few, lambda _: None)
    return {
        "delay_ms": settings.delay,
        **{way: _times(each) for way, each in steps.items()},
        "round_trips": {way: 1000 * median(each) / settings.delay for way, each in steps.items()},
    }


@contextlib.contextmanager
def slow_line(target: int, seconds: float) -> Iterator[int]:
    """Yield a port whose connections go on to another, each piece so many seconds later."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                try:
                    remote_s = socket.create_connection(("127.0.0.1", target))
                except OSError:
                    near.close()
                    continue
                for pair in ((near, remote_s), (remote_s, near)):
                    for end in pair:
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=_hold, args=(*pair, seconds), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.close()


def _hold(source: socket.socket, sink: socket.socket, seconds: float) -> None:
    """Pass bytes on, each piece so long after it came, however many are under way."""
    import queue

    pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    threading.Thread(target=send, daemon=True).start()
    data = b"."
    while data:
        try:
            data = source.recv(2**18)
        except OSError:
            data = b""
        pieces.put((time.monotonic() + seconds, data))


def _trainings(settings: CarriersSettings, say: Say) -> dict[str, Any]:
    """Return the seconds of whole trainings over the hub and in one process."""
    result: dict[str, Any] = {}
    for bottoms in ("supervised", "blind"):
        say(f"a whole training, {bottoms}")
        with tempfile.TemporaryDirectory(prefix="unlabel-carriers-") as place:
            folder = Path(place)
            tables = write_tables(folder, settings)
            how: dict[str, Any] = {"bottoms": bottoms, "epochs": settings.epochs}
            with federation(folder / "far", tables, settings, "direct", **how) as remote:
                near = _local(remote, tables, folder)
                remote_s = _timed(remote.train)
            result[bottoms] = {"direct_s": remote_s, "local_s": _timed(near.train)}
            result[bottoms]["ratio"] = result[bottoms]["direct_s"] / result[bottoms]["local_s"]
    return result


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _times(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_ms": 1000 * median(seconds),
        "p90_ms": 1000 * ordered[int(0.9 * (len(ordered) - 1))],
        "least_ms": 1000 * ordered[0],
        "steps": len(seconds),
    }


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [["what", "median", "least"]]
    for way, times in result["steps"].items():
        rows.append([f"step, {way}", f"{times['median_ms']:.1f} ms", f"{times['least_ms']:.1f} ms"])
    rows += [[name, f"{ratio:.2f}", ""] for name, ratio in result["ratios"].items()]
    for how, seconds in (("in a session", "open_s"), ("as a command", "command_s")):
        if "status" in result:  # which earlier records lack
            rows.append([f"status, {how}", f"{result['status'][seconds]:.3f} s", ""])
    for way, trips in result.get("delayed", {}).get("round_trips", {}).items():
        rows.append([f"round trips a step, {way}", f"{trips:.2f}", ""])
    for bottoms, times in result.get("trainings", {}).items():
        rows.append([f"training, {bottoms}", f"{times['ratio']:.2f} x one process", ""])
    return rows


BENCHES.add(
    "carriers",
    Bench("a step over each carrier beside one process", CarriersSettings, measure, table),
)
