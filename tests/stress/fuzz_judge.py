"""A judge of a passive party's answers, from outside.

It knows the policy and what the party holds, and uses none of the party's own checks.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from stress.fuzz_findings import Findings, read
from stress.fuzz_matching import matching_wrongs
from stress.fuzz_messages import LAST, NEXT, ROWS, TABLES, WIDTH
from stress.fuzz_shaping import Shaping, name_wrongs, within
from unlabel.party import PassiveParty
from unlabel.signing import is_signed
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Aligned,
    Attest,
    Attestation,
    AttestBase,
    BeginLabelFree,
    BeginRequest,
    Commit,
    Common,
    CompareLayers,
    ContrastAlone,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Freeze,
    Gradients,
    LayersCompared,
    Match,
    Matched,
    Message,
    Offer,
    Offered,
    Prepare,
    Purge,
    Refused,
    Restore,
    RetainVersions,
    Rollback,
    Save,
    Saved,
    Stage,
    Status,
    StatusReply,
    SyntheticInputs,
    TransformWeights,
    decode,
    encode,
    kind_of,
)

#: The only answer, besides a refusal, that each kind of request may get.
ANSWERS: dict[type[Message], type[Message] | tuple[type[Message], ...]] = {
    Describe: Description,
    Prepare: Done,
    Embed: Embeddings,
    Gradients: Done,
    Save: Saved,
    Restore: Done,
    RetainVersions: Done,
    AccumulateFisher: Done,
    AccumulateUpdates: Done,
    BeginRequest: Done,
    SyntheticInputs: Done,
    TransformWeights: Done,
    Stage: Saved,
    Commit: Done,
    Rollback: Done,
    Purge: Done,
    Status: StatusReply,
    Attest: Attestation,
    Match: Matched,
    Offer: Offered,
    Common: (Aligned, Done),
    BeginLabelFree: Done,
    ContrastAlone: Done,
    Freeze: Saved,
    AttestBase: Attestation,
    CompareLayers: LayersCompared,
}
#: Requests that may change what lies on the party's disk.
WRITES = Save | RetainVersions | Stage | Commit | Rollback | Purge | Attest
#: Tables whose rows may move the weights.
TRAINED = ("main", "public", "synthetic")
SLOW_S = 2.0


class Judge:
    """Watches one party from outside, keeping its own account of what the party may do next."""

    def __init__(self, party: PassiveParty, result: Findings) -> None:
        self.party = party
        self.policy = party.guard.policy
        self.name = "narrow" if party.store is None else "ordinary"
        self.findings = result
        #: The step, shape and mode of embeddings whose gradients may come.
        self.pending: tuple[int, torch.Size, str] | None = None
        self.versions: set[int] = set()
        #: The request under way, with the weights to which its rollback leads.
        self.open: tuple[str, Tensor] | None = None
        #: What waits for a decision, and what was decided: request, version and digest.
        self.staged: tuple[str, int, str] | None = None
        self.committed: set[tuple[str, int, str]] = set()
        self.ledger: list[tuple[str, str, object]] = []
        #: The public key the party signs with, once it has.
        self.key = ""
        self.shaping = Shaping()
        self.weights = self.first = self._weights()
        self.expected: Tensor | None = self.weights
        self.disk = self._disk()

    def feed(self, data: bytes) -> None:
        """Give the party one input, first as bytes and, where it can be read, as a message."""
        request = read(data, self.party.limits, self.name, self.findings)
        if isinstance(request, Commit) and request.digest == LAST and self.staged is not None:
            request = replace(request, digest=self.staged[2])
            data = encode(request)
        if isinstance(request, Save | Stage | Commit | Purge) and request.version == NEXT:
            request = replace(request, version=self._next(request))
            data = encode(request)
        if len(data) > self.party.limits.message and request is not None:
            self.findings.blame(self.name, "decoded a message over its limit", data)
        self._try(lambda: decode(self.party.serve(data)), request, data)
        if request is not None:
            self._try(lambda: self.party.handle(request), request, data)

    def _next(self, request: Save | Stage | Commit | Purge) -> int:
        newest = max(self.versions, default=0)
        if isinstance(request, Commit):
            return self.staged[1] if self.staged is not None else newest
        return newest if isinstance(request, Purge) else newest + 1

    def _try(self, ask: Callable[[], Message], request: Message | None, data: bytes) -> None:
        started = time.perf_counter()
        try:
            answer = ask()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.findings.blame(self.name, f"raised {error!r}", data)
            return
        seconds = time.perf_counter() - started
        self.findings.slowest = max(self.findings.slowest, seconds)
        if seconds > SLOW_S:
            self.findings.blame(self.name, f"took {seconds:.1f} s", data)
        if isinstance(answer, Refused):
            self.findings.refused += 1
        else:
            self.findings.served[kind_of(request) if request else "nothing"] += 1
        for wrong in self._wrongs(request, answer):
            self.findings.blame(self.name, wrong, data)

    def _wrongs(self, request: Message | None, answer: Message) -> Iterator[str]:
        """Name every rule that an answer, or the party's state after it, breaks."""
        self.expected = self.weights
        if not isinstance(answer, Refused):
            if request is None or not isinstance(answer, ANSWERS.get(type(request), ())):
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
        elif isinstance(request, Gradients | AccumulateFisher):
            yield from self._gradient_wrongs(request)
        elif isinstance(request, AccumulateUpdates | SyntheticInputs | TransformWeights):
            yield from self._shaping_wrongs(request)
        elif isinstance(request, Prepare):
            if request.steps < 0 or not within(request.rows, most=ROWS):
                yield "prepared for rows or steps that cannot be"
        elif isinstance(request, Describe) and isinstance(answer, Description):
            text = (answer.rows, answer.width, answer.max_rows, set(answer.versions))
            aligned = self.party.people.digest if self.party.people is not None else ""
            if (*text, answer.aligned) != (
                *(ROWS, WIDTH, self.policy.max_rows, self.versions, aligned),
            ):
                yield "described itself wrongly"
        elif isinstance(request, BeginRequest):
            yield from self._tune_wrongs(request)
        elif isinstance(request, Stage) and isinstance(answer, Saved):
            yield from self._stage_wrongs(request, answer)
        elif isinstance(request, Commit | Rollback | Purge):
            yield from self._decision_wrongs(request)
        elif isinstance(request, Status) and isinstance(answer, StatusReply):
            waiting = self.staged[0] if self.staged else ""
            if (set(answer.versions), answer.staged) != (self.versions, waiting):
                yield "told wrongly where it stands"
            if answer.ledger != self._ledger_end():
                yield "told wrongly where its ledger ends"
        elif isinstance(request, Attest) and isinstance(answer, Attestation):
            yield from self._attest_wrongs(request, answer)
        elif isinstance(request, Match | Offer | Common):
            known = self.party.people is not None
            yield from matching_wrongs(request, answer, self.policy, known)
        else:
            yield from self._version_wrongs(request)

    def _embed_wrongs(self, request: Embed, answer: Embeddings) -> Iterator[str]:
        drafts = self.shaping.drafts if request.table == "synthetic" else 0
        if request.table not in TABLES and not drafts:
            yield "embedded a table it does not have"
        if request.mode == "inputs" and request.table != "synthetic":
            yield "was to move inputs that are no draft"
        if request.mode != "predict" and request.table not in TRAINED:
            yield "trained on a table that is not for training"
        if not within(request.rows, most=self.policy.max_rows, available=ROWS + drafts):
            yield "embedded too many rows, none, or rows that do not exist"
        if answer.values.shape != (request.rows.numel(), WIDTH):
            yield f"sent embeddings of shape {list(answer.values.shape)}"
        if not answer.values.isfinite().all():
            yield "sent embeddings that are not finite"
        if request.mode != "predict":
            self.pending = (request.step, answer.values.shape, request.mode)

    def _gradient_wrongs(self, request: Gradients | AccumulateFisher) -> Iterator[str]:
        if self.pending is None or self.pending[:2] != (request.step, request.values.shape):
            yield "took gradients that belong to nothing it sent"
        values = request.values.double()
        # The party adds in float32, so the last digits of the norm may differ.
        if not values.isfinite().all() or values.norm() > 1.001 * self.policy.max_gradient_norm:
            yield "took gradients that are too large or not finite"
        of_inputs = self.pending is not None and self.pending[2] == "inputs"
        if isinstance(request, AccumulateFisher):
            if of_inputs:
                yield "weighed gradients of inputs"
            yield from self.shaping.wrongs(request, self._opened(), self.policy.max_rows)
        elif not of_inputs:
            self.expected = None
            self.shaping.stepped()
        self.pending = None

    def _shaping_wrongs(
        self, request: AccumulateUpdates | SyntheticInputs | TransformWeights
    ) -> Iterator[str]:
        yield from self.shaping.wrongs(request, self._opened(), self.policy.max_rows)
        if isinstance(request, TransformWeights):
            self.expected = self.first if request.rule == "begin" else None
            if request.rule == "dampen" and (self._weights().abs() > self.weights.abs()).any():
                yield "grew a weight by dampening it"
        if not isinstance(request, AccumulateUpdates):
            self.pending = None

    def _opened(self) -> str:
        return self.open[0] if self.open is not None else ""

    def _tune_wrongs(self, request: BeginRequest) -> Iterator[str]:
        yield from name_wrongs(request.request, "took up a request")
        shares = (request.warmup, request.reinitialise, request.momentum)
        if min(request.steps, request.lr, request.weight_decay, *shares) < 0 or max(shares) > 1:
            yield "took up settings that cannot be"
        if self.staged is not None:
            yield "took up a request while one is staged"
        if self.open is not None and self.open[0] != request.request:
            self.expected = self.open[1]  # the other one was given up
            self.open = None
            self.shaping.settled(self.shaping.before)
        if self.open is None:
            assert self.expected is not None
            self.open = (request.request, self.expected)
            self.shaping.opened()
        if request.reinitialise > 0:
            self.expected = None
        self.pending = None

    def _stage_wrongs(self, request: Stage, answer: Saved) -> Iterator[str]:
        yield from name_wrongs(request.request, "took up a request")
        if self.staged is not None and self.staged[0] != request.request:
            yield "staged a request while another one is"
        if request.version != max(self.versions, default=0) + 1:
            yield "staged a version that does not follow the newest"
        if len(self.versions) >= self.policy.max_versions:
            yield "staged a version for which it has no room"
        if not self._weights().isfinite().all():
            yield "staged weights that are not finite"
        self.staged = (request.request, request.version, answer.digest)

    def _decision_wrongs(self, request: Commit | Rollback | Purge) -> Iterator[str]:
        yield from name_wrongs(request.request, "took up a request")
        is_open = self.open is not None and self.open[0] == request.request
        if isinstance(request, Commit):
            named = (request.request, request.version, request.digest)
            if self.party.store is not None and named not in {self.staged, *self.committed}:
                yield "committed what was not staged"
            if named == self.staged:
                self.staged = None
                self.committed.add(named)
                self.versions.add(request.version)
                self.shaping.kept[request.version] = set()
            self._note("commit", request.request)
            if is_open or self.open is None:
                self.open = None
                self.shaping.settled()
        elif isinstance(request, Rollback):
            if self.staged is not None and self.staged[0] == request.request:
                self.staged = None
                self._note("rollback", request.request)
            if is_open and self.open is not None:
                self.expected = self.open[1]
                self.open = self.pending = None
                self.shaping.settled(self.shaping.before)
        else:
            if request.version not in self.versions:
                yield "purged everything"
            self.versions = {v for v in self.versions if v >= request.version}
            if self.staged is not None and self.staged[1] < request.version:
                self.staged = None
            self._note("purge", request.request, request.version)

    def _attest_wrongs(self, request: Attest, answer: Attestation) -> Iterator[str]:
        self.key = self.key or answer.key
        if answer.key != self.key:
            yield "changed its key"
        if not is_signed(answer.key, answer.part.encode(), answer.signature):
            yield "attested something under a signature that does not hold"
        part = json.loads(answer.part)
        if ("commit", request.request, None) not in self.ledger:
            yield "attested a request that was not committed"
        if (part["request"], part["ledger"]) != (request.request, self._ledger_end()):
            yield "attested something else than it was asked"

    def _note(self, event: str, request: str, version: int | None = None) -> None:
        if (event, request, version) not in self.ledger:
            self.ledger.append((event, request, version))

    def _version_wrongs(self, request: Message) -> Iterator[str]:
        if isinstance(request, Save):
            newest = max(self.versions, default=0)
            if request.version not in (newest, newest + 1):
                yield "saved a version that does not follow the newest"
            if not self._weights().isfinite().all():
                yield "saved weights that are not finite"
            self.versions.add(request.version)
            self.shaping.kept[request.version] = set(self.shaping.moves)
            self.committed = {c for c in self.committed if c[1] != request.version}
        elif isinstance(request, Restore):
            waits = self.staged is not None and self.staged[1] == request.version
            if not (waits or request.version in self.versions) or request.digest:
                yield "restored a version it was never asked to save"
            self.pending = self.open = self.expected = None
            self.shaping.settled(self.shaping.kept.get(request.version))
        elif isinstance(request, RetainVersions):
            self.versions &= set(request.versions)
            if not self.versions:
                yield "dropped every version"
        if self.party.store is None:
            yield "kept versions without a folder"

    def _state_wrongs(self, request: Message | None, answer: Message) -> Iterator[str]:
        """Check what must hold after every answer, refusals above all."""
        weights = self._weights()
        if self.expected is not None and not _same(weights, self.expected):
            turned = isinstance(answer, Done) and isinstance(request, BeginRequest | Rollback)
            yield (
                "did not return to the weights from before a request"
                if turned
                else "weights moved without gradients that were accepted"
            )
        self.weights = weights
        disk = self._disk()
        if disk != self.disk and (isinstance(answer, Refused) or not isinstance(request, WRITES)):
            yield "changed its files though it was not to"
        self.disk = disk
        self.committed = {c for c in self.committed if c[1] in self.versions}
        if self.party.store is not None and isinstance(request, WRITES):
            files = sorted(disk)
            if len(self.versions) > self.policy.max_versions or files != self._files():
                yield f"keeps {files} on disk"
            messages = [
                (
                    line["event"],
                    line["request"],
                    line["note"].get("version") if line["event"] == "purge" else None,
                )
                for line in self._ledger_lines()
            ]
            if messages != self.ledger:
                yield "does not remember what was decided"

    def _files(self) -> list[str]:
        """Name the files there must be, beside which there must be none."""
        kept = [f"own/versions/{version:06d}" for version in self.versions]
        if self.staged is not None:
            kept.append(f"own/staged/{self.staged[1]:06d}")
        ledger = ["own/ledger.jsonl"] if self.ledger else []
        key = ["own/secrets/signing.key"] if self.key else []
        return sorted(
            [f"{each}.{kind}" for each in kept for kind in ("json", "safetensors")] + ledger + key
        )

    def _disk(self) -> dict[str, tuple[int, int]]:
        """Return every file in the party's folder and beside it, with its age and number."""
        if self.party.store is None:
            return {}
        root = str(self.party.store.home.parent)
        by_name = {}
        for folder, _, names in os.walk(root):
            for name in names:
                path = f"{folder}/{name}"
                about = os.stat(path)
                by_name[path[len(root) + 1 :]] = (about.st_mtime_ns, about.st_ino)
        return by_name

    def _ledger_lines(self) -> list[dict[str, Any]]:
        if self.party.store is None or not self.ledger:
            return []
        path = self.party.store.home / "ledger.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def _ledger_end(self) -> str:
        lines = self._ledger_lines()
        return str(lines[-1]["hash"]) if lines else ""

    def _weights(self) -> Tensor:
        weights = [each.detach().view(-1) for each in self.party.bottom.module.parameters()]
        return torch.cat(weights)


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))
