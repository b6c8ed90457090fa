"""A judge of a passive party's answers, from outside.

It knows the policy and what the party holds, and uses none of the party's own checks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unlabel.bench.fuzz_inputs import ROWS, TABLES, WIDTH
from unlabel.errors import WireError
from unlabel.party import PassiveParty
from unlabel.wire import (
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
    Saved,
    decode,
    kind_of,
)

#: The only answer, besides a refusal, that each kind of request may get.
ANSWERS: dict[type[Message], type[Message]] = {
    Describe: Description,
    Prepare: Done,
    Embed: Embeddings,
    Gradients: Done,
    Save: Saved,
    Restore: Done,
    Keep: Done,
}
SLOW_S = 2.0
#: Violations that are kept; a party that breaks one rule tends to break it often.
KEPT = 20


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


def read(data: bytes, limits: Limits, where: str, found: Findings) -> Message | None:
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
        request = read(data, self.party.limits, self.name, self.found)
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
            told = (answer.rows, answer.width, answer.max_rows, set(answer.versions))
            if told != (ROWS, WIDTH, self.policy.max_rows, self.versions):
                yield "described itself wrongly"
        else:
            yield from self._version_wrongs(request)

    def _embed_wrongs(self, request: Embed, answer: Embeddings) -> Iterator[str]:
        if request.table not in TABLES:
            yield "embedded a table it does not have"
        if request.mode == "train" and request.table != "main":
            yield "trained on a table that is not for training"
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
            if not self._weights().isfinite().all():
                yield "saved weights that are not finite"
            self.versions.add(request.version)
        elif isinstance(request, Restore):
            if request.version not in self.versions or request.digest:
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
