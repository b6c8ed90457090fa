"""All parties forget, or none: two phases, decided by one file of the active party.

    stage      every passive party writes its new weights aside; the active party writes its own
               last, with the digests of the others
    commit     the active party makes its staged version a version, which decides; then all others
               do the same
    rollback   the active party notes it in its ledger, which decides; then all drop what is staged

A silent request (nothing that others see or keep depends on it) is dropped with the messages of a
commit: on staging the active party writes its old models aside too, as the same version. Whichever
of the two it makes its version decides, and the others commit the weights they had all along.

What a crash interrupts, `service.finish_interrupted` finishes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from unlabel.errors import ForgetError, WireError
from unlabel.forget.request import Request
from unlabel.forget.request_secrets import RequestSecrets
from unlabel.party import ActiveParty
from unlabel.party.answering import without_answers
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.deciding import expect_no_update
from unlabel.party.ledger import Event
from unlabel.train import Forgotten, RequestFacts, VersionFacts
from unlabel.train.label_record import LabelRecord
from unlabel.wire import Commit, Purge, Rollback, Saved, Stage, Status, StatusReply

NOTHING = "No request is staged; run `unlabel forget` first."


@dataclass(frozen=True)
class PartyStatus:
    """Where one party stands: its newest version, all versions, and what it has staged."""

    version: int | None
    versions: tuple[int, ...]
    staged: str
    ledger: str

    @classmethod
    def of(cls, versions: tuple[int, ...], staged: str, ledger: str) -> PartyStatus:
        """Return the status of a party with these versions."""
        return cls(versions[-1] if versions else None, versions, staged, ledger)


class Transaction:
    """Decides, for all parties, what becomes of what a request made."""

    def __init__(self, active: ActiveParty) -> None:
        self.active = active
        self.store = active.versions.store
        self.ledger = active.versions.ledger
        self.secrets = RequestSecrets(self.store.home)

    def staged(self) -> RequestFacts | None:
        """Return the staged request, if there is one."""
        facts = self.staged_version()
        return None if facts is None else facts.request

    def staged_version(self) -> VersionFacts | None:
        """Return the facts of the version that is staged, if one is."""
        versions = self.store.staged.versions()
        return VersionFacts.from_json(self.store.staged.facts(versions[-1])) if versions else None

    def facts(self, version: int) -> VersionFacts:
        """Return what the active party noted with a version."""
        return VersionFacts.from_json(self.store.facts(version))

    def expect_none(self) -> None:
        """Raise where a request is staged, an update runs, or a crash interrupted a decision."""
        expect_no_update(self.store.home)
        self.expect_together()
        waiting = self.staged()
        if waiting is not None:
            raise request_open(waiting.id)

    def expect_settled(self) -> None:
        """Raise where a request is staged with anybody, or was while a crash interrupted it."""
        self.expect_none()
        if any(status.staged for status in self.statuses().values()):
            raise interrupted("request")

    def expect_together(self) -> None:
        """Raise where a decision was interrupted; the active party notes a commit last."""
        newest, waiting = max(self.store.versions(), default=0), self.staged()
        # A version of training that a party lost is no commit.
        request = self.facts(newest).request if newest else None
        if request is not None:
            event, common = request.event, self.active.versions.common()
            if not self.is_noted(event, request.id) or newest not in common:
                raise interrupted(event)
        if waiting is not None and self.is_noted("rollback", waiting.id):
            raise interrupted("rollback")

    def is_noted(self, event: Event, request: str) -> bool:
        """Return whether the active party's ledger has this event of a request."""
        return any((e.event, e.request) == (event, request) for e in self.ledger.entries())

    def stage(
        self,
        request: Request,
        about: RequestFacts,
        forgotten: Forgotten,
        *,
        base: int | None,
        data: str,
    ) -> None:
        """Have every party write its new weights aside; the active party last.

        about      the same request as it is noted with the version
        forgotten  by all requests, this one included
        base       the version the new weights were made from, which must still be the newest
        data       digest of the people and the labels' names
        """
        if (waiting := self.staged()) is not None:  # by another process, while this one computed
            raise request_open(waiting.id)
        common = self.active.versions.common()
        if not common or base != common[-1]:
            raise ForgetError("The run has changed since it was opened; try again.")
        version = common[-1] + 1
        facts = _continued(self.facts(common[-1]), version)
        self.secrets.keep_key(request)
        note = json.dumps(request.note(about.method))
        answers = self.active.transport.ask(Stage(0, request.id, version, note))
        digests = {p: a.digest for p, a in answers.items() if isinstance(a, Saved)}
        if digests.keys() != answers.keys():
            raise WireError(f"Not every party told the digest of request {request.id}.")
        staged = replace(facts, data=data, parties=digests, request=about, forgotten=forgotten)
        try:
            if about.silent:
                self._keep_unchanged(about, version, digests)
            self.store.staged.save(version, self.active.versions.model_state(), staged.to_json())
        except BaseException:
            # The caller takes the request back from the others; none may be left alone with it, for
            # such a commit could never be finished.
            self.store.drop_staged()
            raise

    def commit(
        self,
        request: str | None = None,
        *,
        force: bool = False,
        audit: dict[str, Any] | None = None,
    ) -> str:
        """Decide for the staged request, and bring every party to it; return its id.

        request  its id; where another one is staged, nothing is decided
        force    commit it even where the labels are still predicted
        audit    what an audit found, for the ledger
        """
        # Before any message: the others would see that a commit was tried in vain.
        staged = self.staged()
        if staged is not None and request in (None, staged.id) and staged.why_not(force=force):
            raise ForgetError(staged.why_not(force=force), code="not-committable")
        waiting = self._waiting(request)
        self._decide(waiting, self.store.staged, audit)
        return waiting.id

    def _decide(
        self, request: RequestFacts, source: CheckpointStore, audit: dict[str, Any] | None = None
    ) -> None:
        """Make what is staged in a store the next version: the same work to keep and to drop."""
        version = self.store.staged.versions()[-1]
        # No answer of the older version is given out once this one is decided on.
        with without_answers(self.store.home):
            self.secrets.note_decision(request.id, audit)
            self.store.adopt(version, source.digest(version), source)
        self.finish_commit(version)

    def finish_commit(self, version: int) -> None:
        """Bring all others to a version that a request made here; to repeat it changes nothing."""
        facts = self.facts(version)
        request, digests = facts.request, facts.parties
        assert request is not None
        # What is staged here of a request that was dropped silently goes now.
        self.store.adopt(version, self.store.digest(version))
        self.active.transport.tell(
            {p: Commit(0, request.id, version, digests[p]) for p in self.active.parties}
        )
        heads = self._heads()  # first: what follows depends on the decision
        if request.dropped:
            self.secrets.drop_key(request.id)
        # A purge or later training takes the weights away; what they were can still be attested.
        weights = {"version": version, "weights": self.store.change(version)}
        self.bury(facts.forgotten)
        decision = self.secrets.decision(request.id)
        kind = {"silent": request.silent} if request.note.get("hidden") else {}
        note = {**request.note, **kind, **decision, **weights, "heads": heads}
        self.ledger.append(request.event, request.id, note)
        self.secrets.drop_decision()
        self.active.versions.restore(version)

    def bury(self, forgotten: Forgotten) -> LabelRecord | None:
        """Put a tombstone on every row whose label is forgotten: its owner may clear the cell."""
        record, labels = LabelRecord.read(self.store.home), self.active.labels.cpu()
        if record is None:  # a run of 0.7, in which nothing was decided since
            return None
        rows = torch.isin(labels, torch.tensor(forgotten.labels, dtype=labels.dtype))
        rows[list(forgotten.rows)] = True
        record = record.buried(rows.numpy())
        record.write(self.store.home)
        return record

    def _heads(self) -> dict[str, str]:
        """Return where the others' ledgers end: a line that is cut off later is missed."""
        return {party: status.ledger for party, status in self.statuses().items()}

    def seen_heads(self) -> dict[str, str]:
        """Return where the others' ledgers ended at the last decision, where that was noted.

        A rollback is decided before the others note it, so after one nothing is known.
        """
        decided = ("commit", "rollback", "purge", "restore")
        lines = [entry for entry in self.ledger.entries() if entry.event in decided]
        return dict(lines[-1].note.get("heads", {})) if lines else {}

    def _waiting(self, request: str | None) -> RequestFacts:
        """Return the staged request, which must be the one that is named."""
        self.expect_together()
        waiting = self.staged()
        if waiting is None:
            raise ForgetError(NOTHING, code="nothing-staged")
        if request is not None and waiting.id != request:
            past = self.is_noted("commit", request) or self.is_noted("rollback", request)
            stands = "was decided on" if past else "does not wait"
            raise ForgetError(
                f"Request {request} {stands}; {waiting.id} is staged.",
                code="request-decided" if past else "nothing-staged",
            )
        if any(status.staged != waiting.id for status in self.statuses().values()):
            raise interrupted("request")
        return waiting

    def rollback(self, request: str | None = None) -> str:
        """Decide against the staged request, and have every party drop it; return its id."""
        waiting = self._waiting(request)
        if waiting.silent:
            version = self.store.staged.versions()[-1]
            if version not in self.store.unchanged.versions():  # staged by version 0.7
                parties = self.store.staged.facts(version)["parties"]
                self._keep_unchanged(waiting, version, parties)
            self._decide(waiting, self.store.unchanged)
            return waiting.id
        self.ledger.append("rollback", waiting.id, dict(waiting.note))
        self.drop_staged(waiting.id)
        self.active.transport.ask(Rollback(0, waiting.id))
        return waiting.id

    def _keep_unchanged(
        self, request: RequestFacts, version: int, parties: Mapping[str, str]
    ) -> None:
        """Write the old models aside, as the version by which a request is dropped silently.

        A return to the old version would give away that it was dropped; and so would the time that
        this takes, were it taken between the messages of the decision.
        """
        tensors, before = self.store.load(self.store.versions()[-1])
        dropped = replace(request, dropped=True)  # no shorter, so that it is read as fast
        facts = _continued(VersionFacts.from_json(before), version)
        self.store.unchanged.save(
            version,
            {name: tensors[name] for name in self.active.versions.model_state()},
            replace(facts, parties=parties, request=dropped).to_json(),
        )

    def drop_staged(self, request: str) -> None:
        """Remove what the active party has staged of a request, and its key."""
        self.store.drop_staged()
        self.secrets.drop_key(request)

    def purge(self, also: Callable[[], None]) -> int:
        """Have every party remove all from before the newest version; return its number.

        `also` removes what lies outside the parties' folders; the ledger's line comes last.
        """
        self.expect_settled()
        common = self.active.versions.common()
        if not common:
            raise ForgetError("Nothing was trained yet, so there is nothing to purge.")
        version = common[-1]
        # To others a silent request that was dropped is a commit like any other: it has heads.
        committed = [
            e.request
            for e in self.ledger.entries()
            if e.event == "commit" or (e.event == "rollback" and "heads" in e.note)
        ]
        made_by = self.facts(version).request
        request = made_by.id if made_by is not None else next(reversed(committed), None)
        if request is None:
            raise ForgetError(
                "Nothing was committed yet, so there is nothing to purge.", code="nothing-committed"
            )
        self.active.transport.ask(Purge(0, request, version))
        self.store.retain((version,))
        self.store.drop_staged()
        also()
        self.ledger.append("purge", request, {"version": version, "heads": self._heads()})
        return version

    def note_restored(self, parties: Sequence[str]) -> None:
        """Note that parties were restored from backups, and where all ledgers end since."""
        request = self.ledger.entries()[-1].request
        note = {"parties": list(parties), "heads": self._heads()}
        self.ledger.append("restore", request, note)

    def statuses(self) -> dict[str, PartyStatus]:
        """Ask every passive party for its status."""
        statuses = {}
        for party, answer in self.active.transport.ask(Status(0)).items():
            if not isinstance(answer, StatusReply):
                raise WireError(f"Party '{party}' did not tell where it stands.")
            statuses[party] = PartyStatus.of(answer.versions, answer.staged, answer.ledger)
        return statuses

    def active_status(self) -> PartyStatus:
        """Return the status of the active party itself."""
        waiting = self.staged()
        staged = waiting.id if waiting else ""
        return PartyStatus.of(self.store.versions(), staged, self.ledger.head())


def request_open(request: str) -> ForgetError:
    """Return the error that a request must be decided on first."""
    return ForgetError(
        f"Request {request} is staged; commit it or roll it back first.", code="request-open"
    )


def interrupted(what: str) -> ForgetError:
    """Return the error that `recover` must end something first."""
    return ForgetError(
        f"A {what} was interrupted; run `unlabel recover` on the run first.", code="interrupted"
    )


def _continued(facts: VersionFacts, version: int) -> VersionFacts:
    """Return the facts of a version that goes on from another without training."""
    progress = facts.progress and facts.progress.continued(version)
    return replace(facts, progress=progress, request=None)
