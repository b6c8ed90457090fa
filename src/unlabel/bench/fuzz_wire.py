"""Whether a passive party withstands hostile bytes: what it answers is judged from outside.

The judge knows the policy and what the party holds, and uses none of the party's own checks.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlabel.bench.fuzz_inputs import COLUMNS, ROWS, TABLES, WIDTH, inputs
from unlabel.bench.registry import BENCHES, Bench
from unlabel.data import Features
from unlabel.errors import WireError
from unlabel.models import build_bottom
from unlabel.party import (
    Bottom,
    CheckpointStore,
    OptimiserSettings,
    PassiveParty,
    Place,
    Policy,
    Stream,
)
from unlabel.wire import (
    DEFAULT_LIMITS,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Keep,
    Limits,
    Message,
    Prepare,
    Refused,
    Restore,
    Save,
    decode,
    kind_of,
)

#: The only answer, besides a refusal, that each kind of request may get.
ANSWERS: dict[type[Message], type[Message]] = {
    Describe: Description,
    Prepare: Done,
    Embed: Embeddings,
    Gradients: Done,
    Save: Done,
    Restore: Done,
    Keep: Done,
}
SLOW_S = 2.0
GROWTH_MIB = 64
WARM_UP = 1_000
#: Violations that are kept; a party that breaks one rule tends to break it often.
KEPT = 20


@dataclass(frozen=True)
class FuzzWireSettings:
    """Settings of the bench.

    count  inputs to try
    seed   of their draw
    """

    count: int = 10_000
    seed: int = 0


def run(settings: FuzzWireSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed the inputs to an ordinary party and to a narrow one; return what was found."""
    with tempfile.TemporaryDirectory() as folder:
        parties = [make_party(folder=Path(folder)), make_narrow_party()]
        return fuzz(parties, settings, say)


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
    bottom.add_table("new", tables["new"])
    store = CheckpointStore(folder, party="fuzzed", model="mlp") if folder else None
    return kind(
        "fuzzed", bottom, width=WIDTH, policy=policy, store=store, limits=limits or DEFAULT_LIMITS
    )


def make_narrow_party(kind: type[PassiveParty] = PassiveParty) -> PassiveParty:
    """Build a party that only describes itself and embeds four rows at a time."""
    policy = Policy(serves=("Describe", "Embed"), max_rows=4)
    party = make_party(kind, policy=policy, limits=Limits(message=4096, header=512, side=64))
    party.bottom.prepare(torch.arange(ROWS), steps=10)
    return party


@dataclass
class Findings:
    """What a fuzz has found so far."""

    inputs: int = 0
    decoded: int = 0
    refused: int = 0
    served: Counter[str] = field(default_factory=Counter)
    violations: list[dict[str, Any]] = field(default_factory=list)
    slowest: float = 0.0

    def blame(self, party: str, what: str, data: bytes) -> None:
        """Note a violation with the input that brought it about."""
        if len(self.violations) < KEPT:
            self.violations.append(
                {"party": party, "what": what, "bytes": len(data), "input": data[:200].hex()}
            )


def fuzz(
    parties: Sequence[PassiveParty], settings: FuzzWireSettings, say: Callable[[str], None]
) -> dict[str, Any]:
    """Feed every input to every party, as bytes and as a message, and judge each answer."""
    found = Findings()
    judges = [Judge(party, found) for party in parties]
    started, warm = time.perf_counter(), _peak_mib()
    data = b""
    with quiet(), one_thread(), torch.random.fork_rng(devices=[]):
        for data in inputs(settings.count, settings.seed):
            if found.inputs == min(WARM_UP, settings.count // 2):
                warm = _peak_mib()
            if found.inputs % 5_000 == 0:
                say(f"{found.inputs} of {settings.count} inputs")
            found.inputs += 1
            found.decoded += _read(data, DEFAULT_LIMITS, "codec", found) is not None
            for judge in judges:
                judge.feed(data)
    grown = _peak_mib() - warm
    if grown > GROWTH_MIB:
        found.blame("all", f"memory grew by {grown:.0f} MiB", data)
    return {
        "inputs": found.inputs,
        "decoded": found.decoded,
        "refused": found.refused,
        "served": dict(sorted(found.served.items())),
        "violations": found.violations,
        "slowest_ms": round(1000 * found.slowest, 3),
        "memory_growth_mib": round(grown, 3),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _read(data: bytes, limits: Limits, where: str, found: Findings) -> Message | None:
    """Decode; anything but a message or a `WireError` is a violation."""
    try:
        return decode(data, limits)
    except WireError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic inside safetensors is not even an Exception
        found.blame(where, f"decode raised {error!r}", data)
        return None


class Judge:
    """Watches one party from outside, keeping its own account of what the party may do next."""

    def __init__(self, party: PassiveParty, found: Findings) -> None:
        self.party = party
        self.policy = party.guard.policy
        self.name = "narrow" if party.store is None else "ordinary"
        self.found = found
        self.pending: tuple[int, torch.Size] | None = None
        self.versions: set[int] = set()
        self.weights = self._weights()

    def feed(self, data: bytes) -> None:
        """Give the party one input, first as bytes and, where it can be read, as a message."""
        request = _read(data, self.party.limits, self.name, self.found)
        if len(data) > self.party.limits.message and request is not None:
            self.found.blame(self.name, "decoded a message over its limit", data)
        self._try(lambda: decode(self.party.serve(data)), request, data)
        if request is not None:
            self._try(lambda: self.party.handle(request), request, data)

    def _try(self, ask: Callable[[], Message], request: Message | None, data: bytes) -> None:
        started = time.perf_counter()
        try:
            answer = ask()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.found.blame(self.name, f"raised {error!r}", data)
            return
        seconds = time.perf_counter() - started
        self.found.slowest = max(self.found.slowest, seconds)
        if seconds > SLOW_S:
            self.found.blame(self.name, f"took {seconds:.1f} s", data)
        if isinstance(answer, Refused):
            self.found.refused += 1
        else:
            self.found.served[kind_of(request) if request else "nothing"] += 1
        for wrong in self._wrongs(request, answer):
            self.found.blame(self.name, wrong, data)

    def _wrongs(self, request: Message | None, answer: Message) -> Iterator[str]:
        """Name every rule that an answer, or the party's state after it, breaks."""
        if not isinstance(answer, Refused):
            if request is None or type(answer) is not ANSWERS.get(type(request)):
                yield f"answered {kind_of(answer)}"
                return
            if kind_of(request) not in self.policy.serves:
                yield f"served {kind_of(request)}, which its policy does not"
            if answer.step != request.step or request.step < 0:
                yield f"answered step {request.step} with step {answer.step}"
            yield from self._served_wrongly(request, answer)
        yield from self._state_wrongs(request, answer)

    def _served_wrongly(self, request: Message, answer: Message) -> Iterator[str]:
        if isinstance(request, Embed) and isinstance(answer, Embeddings):
            yield from self._embed_wrongs(request, answer)
        elif isinstance(request, Gradients):
            yield from self._gradient_wrongs(request)
        elif isinstance(request, Prepare):
            if request.steps < 0 or not _within(request.rows, most=ROWS):
                yield "prepared for rows or steps that cannot be"
        elif isinstance(request, Describe) and isinstance(answer, Description):
            told = (answer.rows, answer.width, set(answer.versions))
            if told != (ROWS, WIDTH, self.versions):
                yield "described itself wrongly"
        else:
            yield from self._version_wrongs(request)

    def _embed_wrongs(self, request: Embed, answer: Embeddings) -> Iterator[str]:
        if request.table not in TABLES:
            yield "embedded a table it does not have"
        if not _within(request.rows, most=self.policy.max_rows):
            yield "embedded too many rows, none, or rows that do not exist"
        if answer.values.shape != (request.rows.numel(), WIDTH):
            yield f"sent embeddings of shape {list(answer.values.shape)}"
        if not answer.values.isfinite().all():
            yield "sent embeddings that are not finite"
        if request.mode == "train":
            self.pending = (request.step, answer.values.shape)

    def _gradient_wrongs(self, request: Gradients) -> Iterator[str]:
        if self.pending != (request.step, request.values.shape):
            yield "took gradients that belong to nothing it sent"
        values = request.values.double()
        # The party adds in float32, so the last digits of the norm may differ.
        if not values.isfinite().all() or values.norm() > 1.001 * self.policy.max_gradient_norm:
            yield "took gradients that are too large or not finite"
        self.pending = None

    def _version_wrongs(self, request: Message) -> Iterator[str]:
        if isinstance(request, Save):
            if request.version < 0:
                yield "saved a version below 0"
            self.versions.add(request.version)
        elif isinstance(request, Restore):
            if request.version not in self.versions:
                yield "restored a version it was never asked to save"
            self.pending = None
        elif isinstance(request, Keep):
            self.versions &= set(request.versions)
            if not self.versions:
                yield "dropped every version"
        if self.party.store is None:
            yield "kept versions without a folder"

    def _state_wrongs(self, request: Message | None, answer: Message) -> Iterator[str]:
        """Check what must hold after every answer, refusals above all."""
        weights = self._weights()
        may_move = isinstance(answer, Done) and isinstance(request, Gradients | Restore)
        same = torch.equal(weights.view(torch.int32), self.weights.view(torch.int32))
        if not (same or may_move):
            yield "weights moved without gradients that were accepted"
        if not weights.isfinite().all():
            yield "weights are not finite"
        self.weights = weights
        if self.party.store is not None and isinstance(request, Save | Keep):
            files = sorted(path.name for path in self.party.store.folder.glob("*"))
            if len(self.versions) > self.policy.max_versions or files != self._files():
                yield f"keeps {files} on disk"

    def _files(self) -> list[str]:
        kinds = ("json", "safetensors")
        return sorted(f"{version:06d}.{kind}" for version in self.versions for kind in kinds)

    def _weights(self) -> Tensor:
        weights = [each.detach().view(-1) for each in self.party.bottom.module.parameters()]
        return torch.cat(weights)


def _within(rows: Tensor, *, most: int) -> bool:
    numbers = rows.tolist()
    return 1 <= len(numbers) <= most and all(0 <= number < ROWS for number in numbers)


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
    Bench("hostile bytes against the codec and two passive parties", FuzzWireSettings, run, table),
)
