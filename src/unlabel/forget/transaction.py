"""All parties forget, or none: two phases, decided by one file of the active party.

    stage      every passive party writes its new weights aside; the active party writes its own
               last, with the digests of the others
    commit     the active party makes its own staged version a version: from here on it is decided;
               then it tells the others, who do the same
    rollback   the active party notes it in its ledger: decided; then it drops its own staged
               version and tells the others

A request that is silent (nothing that others see or keep depends on it) is dropped in the words in
which it would be kept: the active party keeps its old models once more as the next version, which
decides, and the others are told to commit the weights they had all along.

A crash leaves one of five traces, and `recover` finishes what was decided:
    the active party has a version that another lacks       the commit, or silent drop, goes on
    the active party has staged what it noted as dropped    the rollback goes on
    a party has staged what the active party has not        that is rolled back
    the active party has staged what another has not        that is rolled back
    the active party has staged what all others have too    nothing was decided; it waits
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unlabel.errors import CheckpointError, ForgetError, WireError
from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.forget.queue import QUEUE
from unlabel.forget.request import Request
from unlabel.forget.spending import ACCOUNT
from unlabel.party import ActiveParty
from unlabel.party.ledger import Event
from unlabel.train import Conduct, Forgotten, RequestFacts, VersionFacts
from unlabel.wire import Commit, Purge, Rollback, Saved, Stage, Standing, Status

#: Where the active party notes what it knew of a request when it decided to commit it.
DECISION = "decision.json"
NOTHING = "No request is staged; run `unlabel forget` first."
INTERRUPTED = "A request was interrupted; run `unlabel recover` on the run first."


@dataclass(frozen=True)
class PartyStatus:
    """Where one party stands: its newest version, all versions, and what it has staged."""

    version: int | None
    versions: tuple[int, ...]
    staged: str
    ledger: str


class Transaction:
    """Decides, for all parties, what becomes of what a request made."""

    def __init__(self, active: ActiveParty) -> None:
        self.active = active
        self.store = active.versions.store
        self.ledger = active.versions.ledger

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
        """Raise where a request is staged, or where a crash interrupted a decision."""
        self.expect_together()
        waiting = self.staged()
        if waiting is not None:
            raise ForgetError(f"Request {waiting.id} is staged; commit it or roll it back first.")

    def expect_settled(self) -> None:
        """Raise where a request is staged with anybody, or was while a crash interrupted it."""
        self.expect_none()
        if any(stands.staged for stands in self.standing().values()):
            raise ForgetError(INTERRUPTED)

    def expect_together(self) -> None:
        """Raise where a decision was interrupted; the active party notes a commit last."""
        own, waiting = self.store.versions(), self.staged()
        if own:
            # A version of training that somebody lost is no commit.
            request = self.facts(own[-1]).request
            if request is not None and (
                not self._noted(_event(request), request.id)
                or own[-1] not in self.active.versions.common()
            ):
                raise ForgetError(
                    f"A {_event(request)} was interrupted; run `unlabel recover` on the run first."
                )
        if waiting is not None and self._noted("rollback", waiting.id):
            raise ForgetError("A rollback was interrupted; run `unlabel recover` on the run first.")

    def _noted(self, event: Event, request: str) -> bool:
        return any(e.event == event and e.request == request for e in self.ledger.entries())

    def stage(
        self,
        request: Request,
        method: str,
        gone: Forgotten,
        *,
        base: int | None,
        control: bool = False,
        still_known: bool = False,
        silent: bool = False,
        conduct: Conduct | None = None,
    ) -> None:
        """Have every party write its new weights aside; the active party last.

        base         the version the new weights were made from, which must still be the newest
        control      whether nothing was to be learned; such a request can only be rolled back
        still_known  whether the labels are still predicted; such a request needs a second word
        silent       whether others may not see whether it is kept or dropped
        conduct      how it was carried out
        """
        common = self.active.versions.common()
        if not common or base != common[-1]:
            raise ForgetError("The run has changed since it was opened; try again.")
        facts = self.facts(common[-1])
        version = common[-1] + 1
        self._keep_secret(request)
        note = json.dumps(request.note(method))
        answers = self.active.transport.ask(Stage(0, request.id, version, note))
        digests = {p: a.digest for p, a in answers.items() if isinstance(a, Saved)}
        if digests.keys() != answers.keys():
            raise WireError(f"Not every party told the digest of request {request.id}.")
        made = RequestFacts(
            id=request.id,
            note=request.own_note(method),
            control=control,
            still_known=still_known,
            silent=silent,
            conduct=conduct or Conduct(),
        )
        staged = replace(_continued(facts, version), parties=digests, request=made, forgotten=gone)
        try:
            self.store.staged.save(version, self.active.versions.model_state(), staged.to_json())
        except BaseException:
            # Whoever gives the request up takes it back from the others: none may be left alone
            # with it, for a commit of that could never come to its end.
            self.store.staged.keep(())
            raise

    def commit(
        self,
        request: str | None = None,
        *,
        force: bool = False,
        audit: dict[str, Any] | None = None,
    ) -> str:
        """Decide for the staged request, and bring every party to it; return its id.

        Where a request is named, no other is decided on. One after which the labels are still
        predicted is committed only by `force`. What an audit said is noted in the ledger.
        """
        # Before anybody is asked: that a commit was tried in vain would be seen.
        staged = self.staged()
        if staged is not None and request in (None, staged.id) and staged.why_not(force=force):
            raise ForgetError(staged.why_not(force=force))
        waiting = self._waiting(request)
        version = self.store.staged.versions()[-1]
        # Written before anything is decided: a commit that a crash interrupts keeps what it knew.
        decision = {"request": waiting.id, **({"audit": audit} if audit else {})}
        write_atomically(self._decision, json.dumps(decision).encode(), mode=OWNER_ONLY)
        self.store.adopt(version, self.store.staged.digest(version))
        self._finish_commit(version)
        return waiting.id

    @property
    def _decision(self) -> Path:
        return self.store.home / "secrets" / DECISION

    def _decided(self, request: str) -> dict[str, Any]:
        """Return what was known of a request when it was decided to commit it."""
        try:
            found = dict(json.loads(self._decision.read_bytes()))
        except (OSError, ValueError):
            return {}
        return found if found.pop("request", None) == request else {}

    def _finish_commit(self, version: int) -> None:
        facts = self.facts(version)
        request, digests = _made_by(facts), facts.parties
        # What a silent drop kept its old models in place of goes now.
        self.store.adopt(version, self.store.digest(version))
        self.active.transport.tell(
            {p: Commit(0, request.id, version, digests[p]) for p in self.active.parties}
        )
        if request.dropped:
            self.drop_key(request.id)
        # A purge or later training takes the weights away; what they were can still be attested.
        made = {"version": version, "weights": self.store.change(version)}
        note = {**request.note, **self._decided(request.id), **made, "heads": self._heads()}
        self.ledger.append(_event(request), request.id, note)
        with writing(self._decision):
            self._decision.unlink(missing_ok=True)
        self.active.versions.restore(version)

    def _heads(self) -> dict[str, str]:
        """Return where the others' ledgers end: a line that is cut off later is missed."""
        return {party: stands.ledger for party, stands in self.standing().items()}

    def _waiting(self, request: str | None) -> RequestFacts:
        """Return the staged request, which must be the one that is named."""
        self.expect_together()
        waiting = self.staged()
        if waiting is None:
            raise ForgetError(NOTHING)
        if request is not None and waiting.id != request:
            raise ForgetError(f"Request {request} was decided on; {waiting.id} is staged.")
        if any(stands.staged != waiting.id for stands in self.standing().values()):
            raise ForgetError(INTERRUPTED)
        return waiting

    def rollback(self, request: str | None = None) -> str:
        """Decide against the staged request, and have every party drop it; return its id."""
        waiting = self._waiting(request)
        if waiting.silent:
            self._drop_silently(waiting)
            return waiting.id
        self.ledger.append("rollback", waiting.id, dict(waiting.note))
        self._drop(waiting.id)
        self.active.transport.ask(Rollback(0, waiting.id))
        return waiting.id

    def _drop_silently(self, request: RequestFacts) -> None:
        """Drop a request in the words in which it would be kept: others commit what they had.

        No message but those before a commit is sent: a return to the old version would give it
        away.
        """
        staged = self.staged_version()
        assert staged is not None
        version, base = self.store.staged.versions()[-1], self.store.versions()[-1]
        tensors, before = self.store.load(base)
        dropped = RequestFacts(request.id, request.note, silent=True, dropped=True)
        facts = _continued(VersionFacts.from_json(before), version)
        self.store.save(
            version,
            {name: tensors[name] for name in self.active.versions.model_state()},
            replace(facts, parties=staged.parties, request=dropped).to_json(),
        )
        self._finish_commit(version)

    def _drop(self, request: str) -> None:
        self.store.staged.keep(())
        self.drop_key(request)

    def drop_key(self, request: str) -> None:
        """Remove the key of a request that came to nothing."""
        secret = self.store.home / "secrets" / f"{request}.json"
        with writing(secret):
            secret.unlink(missing_ok=True)

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
            raise ForgetError("Nothing was committed yet, so there is nothing to purge.")
        self.active.transport.ask(Purge(0, request, version))
        self.store.keep((version,))
        self.store.staged.keep(())
        also()
        self.ledger.append("purge", request, {"version": version, "heads": self._heads()})
        return version

    def recover(self) -> str:
        """Finish what a crash interrupted; return in words what was done."""
        standing = self.standing()
        own = self.store.versions()
        if own and any(own[-1] not in s.versions for s in standing.values()):
            request = self.facts(own[-1]).request
            if request is None:
                raise CheckpointError(
                    f"A party lost version {own[-1]}; restore its folder from a backup."
                )
            self._finish_commit(own[-1])
            done = "rolled back" if request.dropped else "committed"
            return f"{done} request {request.id}"
        if own and self.facts(own[-1]).request is not None:
            # Everybody has the version, but a ledger's line may be missing; saying it again
            # changes nothing.
            self._finish_commit(own[-1])
        dropped: list[str] = []
        waiting = self.staged()
        if waiting is not None and self._noted("rollback", waiting.id):
            self._drop(waiting.id)
            waiting = None
        if waiting and any(s.staged != waiting.id for s in standing.values()):
            dropped.append(waiting.id)
            self._drop(waiting.id)
            waiting = None
        kept = waiting.id if waiting else ""
        for party, stands in standing.items():
            if stands.staged and stands.staged != kept:
                self.active.transport.tell({party: Rollback(0, stands.staged)})
                dropped.append(stands.staged)
        self._drop_strays(kept)
        if dropped:
            return f"rolled back request {dropped[0]}"
        if kept:
            return f"request {kept} is staged and waits for commit or rollback"
        newest = own[-1] if own else 0
        if any(version > newest for stands in standing.values() for version in stands.versions):
            # The active party writes a version of training last, and lacks it.
            return "no request was interrupted, but a training: go on with `unlabel train --resume`"
        return "nothing to recover"

    def _drop_strays(self, kept: str) -> None:
        """Remove keys of requests that were not committed, and drafts that a crash left."""
        known = {e.request for e in self.ledger.entries() if e.event == "commit"} | {kept}
        for path in sorted((self.store.home / "secrets").glob("*.json*")):
            wanted = path.stem in known or path.name in (QUEUE, ACCOUNT, DECISION)
            if path.suffix == ".part" or not wanted:
                with writing(path):
                    path.unlink()

    def standing(self) -> dict[str, PartyStatus]:
        """Ask every passive party where it stands."""
        found = {}
        for party, answer in self.active.transport.ask(Status(0)).items():
            if not isinstance(answer, Standing):
                raise WireError(f"Party '{party}' did not tell where it stands.")
            found[party] = _status(answer.versions, answer.staged, answer.ledger)
        return found

    def own_standing(self) -> PartyStatus:
        """Return where the active party itself stands."""
        waiting = self.staged()
        staged = waiting.id if waiting else ""
        return _status(self.store.versions(), staged, self.ledger.head())

    def _keep_secret(self, request: Request) -> None:
        """Keep the key of a request's commitment, readable to nobody else."""
        path = self.store.home / "secrets" / f"{request.id}.json"
        text = json.dumps({**request.what(), "key": request.key})
        write_atomically(path, text.encode(), mode=0o600)


def _status(versions: tuple[int, ...], staged: str, ledger: str) -> PartyStatus:
    return PartyStatus(versions[-1] if versions else None, versions, staged, ledger)


def _event(request: RequestFacts) -> Event:
    """Return what a version that a request made is noted as."""
    return "rollback" if request.dropped else "commit"


def _made_by(facts: VersionFacts) -> RequestFacts:
    """Return the request that made a version."""
    assert facts.request is not None
    return facts.request


def _continued(facts: VersionFacts, version: int) -> VersionFacts:
    """Return the facts of a version that goes on from another without training."""
    progress = facts.progress and facts.progress.continued(version)
    return replace(facts, progress=progress, request=None)
