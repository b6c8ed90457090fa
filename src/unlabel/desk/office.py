"""What people do at the desk: each action checked, noted in the trail, and left to the worker.

An action is one transaction: the request's state, the task and the line of the trail are there
together or not at all. Who may do what is for `pages` to know; here it is looked at whether a
request is in a state in which the action makes sense.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from unlabel.desk import accounts, deadline, requests, sessions, tasks, trail
from unlabel.desk.accounts import Account, Accounts
from unlabel.desk.demands import Demand, safe_name
from unlabel.desk.failures import WrongState, wrong_state
from unlabel.desk.place import STORE, Place
from unlabel.desk.requests import UNCERTIFIED, About, Request, Requests
from unlabel.desk.sessions import Sessions
from unlabel.desk.settings import DeskSettings, read_settings
from unlabel.desk.store import Store
from unlabel.desk.tasks import Tasks
from unlabel.desk.trail import Trail
from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, sha256, write_atomically
from unlabel.forget import Status
from unlabel.train.label_record import LabelRecord

#: Facts about the whole run that the desk keeps, by name, with when they were noted.
SCHEMA = "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT, at TEXT NOT NULL)"
SCHEMAS = (*(each.SCHEMA for each in (accounts, sessions, requests, tasks, trail)), SCHEMA)
#: Characters of a reason.
LONGEST_REASON = 2000


class Desk:
    """A desk: its store, and what people do there."""

    def __init__(self, place: Place, settings: DeskSettings | None = None) -> None:
        self.place = place
        self.settings = settings or read_settings(place.desk)
        self.store = Store(place.desk / STORE, SCHEMAS)
        self.accounts, self.sessions = Accounts(self.store), Sessions(self.store)
        self.requests, self.tasks, self.trail = (
            Requests(self.store),
            Tasks(self.store),
            Trail(self.store),
        )

    @classmethod
    def open(cls, run: str | Path | None = None, *, kit: str | Path | None = None) -> Desk:
        """Open the desk of a run, or of a federation between organisations by its kit."""
        folders = [None if each is None else Path(each) for each in (run, kit)]
        return cls(Place.of(*folders))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    @staticmethod
    def today() -> date:
        """Return the day as the desk counts it."""
        return datetime.now(UTC).date()

    def labels(self) -> tuple[str, ...]:
        """Return the names of the labels that the run knows, by what lies at the label holder."""
        record = LabelRecord.read(self.place.home)
        return () if record is None else record.names

    # Taking demands up

    def receive(self, demand: Demand, by: Account) -> int:
        """Take a demand up, and have a look at what each choice would mean; return its number."""
        demand = demand.checked(self.today())
        with self.store.transaction():
            taken = self.requests.of_form(demand.once)
            if taken is not None:
                return taken
            facts = {"language": demand.language, "once": demand.once}
            number = self.requests.add(_about(demand), by=by.name, facts=facts)
            attached = self._attach(number, demand.file)
            self.trail.add("received", number, by.name, **demand.note(), **attached)
            self.tasks.add("plan", number, by.name)
        return number

    def expect_changeable(self, number: int) -> Request:
        """Return a request that nothing was done for yet, or raise."""
        return self._in(number, "received", "planned")

    def change(self, number: int, demand: Demand, by: Account) -> None:
        """Change what a request is about, before anything is done for it."""
        demand = demand.checked(self.today())
        with self.store.transaction():
            before = self._in(number, "received", "planned")
            self._expect_idle(number)
            # The person was told of an extension, and of the day that follows from that receipt.
            same_day = before.received == str(demand.received)
            extension = before.fact("extension") if same_day else None
            self.requests.change(number, _about(demand, extension or ""))
            facts = {"previews": None, "trouble": None, "language": demand.language}
            self.requests.note(number, "received", **facts, extension=extension)
            attached = self._attach(number, demand.file)
            self.trail.add("changed", number, by.name, **demand.note(), **attached)
            self.tasks.add("plan", number, by.name)

    def _attach(self, number: int, file: tuple[str, bytes] | None) -> dict[str, str]:
        """Keep the file of a demand; return what the trail says of it."""
        if file is None:
            return {}
        name, content = file
        write_atomically(self.place.files(number) / "demand", content, mode=OWNER_ONLY)
        digest = sha256(content)
        facts = {"name": safe_name(name), "sha256": digest, "size": len(content)}
        self.requests.note(number, demand=facts)
        return {"demand": digest}

    def extend(self, number: int, reason: str, by: Account) -> None:
        """Extend the term of a request by two months, for a reason that the person is told."""
        with self.store.transaction() as connection:
            request = self.requests.get(number)
            if request.is_ended:
                raise wrong_state(request, "open")
            received, before = date.fromisoformat(request.received), request.fact("extension", "")
            kept = deadline.extended(received, _reason(reason), self.today(), before)
            due = deadline.due(received, kept).isoformat()
            connection.execute("UPDATE requests SET due = ? WHERE number = ?", (due, number))
            self.requests.note(number, extension=kept)
            self.trail.add("extended", number, by.name, due=due)

    def withdraw(self, number: int, reason: str, by: Account) -> None:
        """End a request of which nothing was carried out."""
        with self.store.transaction():
            self._in(number, "received", "planned")
            task = self.tasks.live(number)
            if task is not None and task.state == "running":
                raise WrongState("Stop what is under way first.")
            if task is not None:
                self.tasks.end(task, "stopped")
            self.requests.note(number, "withdrawn", reason=_reason(reason), trouble=None)
            self.trail.add("withdrawn", number, by.name)

    # Carrying them out

    def plan(self, number: int, by: Account) -> None:
        """Have another look at what each choice would mean."""
        with self.store.transaction():
            self._in(number, "received", "planned")
            self._queue("plan", number, by)

    def plan_waiting(self) -> None:
        """Have those looked at that waited for a decision on another request."""
        for request in self.requests.list(state="received", count=1000).requests:
            if request.fact("waits") and self.tasks.live(request.number) is None:
                self.requests.note(request.number, waits=None, trouble=None)
                self.tasks.add("plan", request.number, request.created_by)

    def start(self, number: int, choice: str, by: Account, *, reason: str = "") -> None:
        """Have a request carried out by one of the choices, and audited.

        reason  for telling partners what was hidden before; the trail has its SHA-256, and no text
        """
        with self.store.transaction():
            request = self._in(number, "planned")
            previews: list[Mapping[str, Any]] = request.fact("previews", [])
            chosen = next((each for each in previews if each["key"] == choice), None)
            if chosen is None or chosen["trouble"]:
                raise SettingsError("Choose one of the ways that are possible.")
            other = self.in_the_way()
            if other is not None:
                first = "purged and certified" if other.state in UNCERTIFIED else "decided on"
                raise WrongState(
                    f"Request {other.number} is {other.state}; the run carries out one at a time, "
                    f"so have that one {first} first."
                )
            # The key decides every draw, and tells this request's outcome from any other's.
            key = secrets.token_hex(32)
            disclosed = None
            if chosen.get("discloses"):
                disclosed = {"reason": _reason(reason), "by": by.name}
            why = {"reason": sha256(disclosed["reason"].encode())} if disclosed else {}
            self._queue("forget", number, by, choice=choice, **why)
            facts = {"choice": choice, "key": key, "disclosed": disclosed}
            self.requests.note(number, "running", **facts)

    def in_the_way(self) -> Request | None:
        """Return the request that has to be decided on, or certified, before the next begins."""
        last = self.last_committed()
        uncertified = last is not None and last.state in UNCERTIFIED
        return self.requests.open() or (last if uncertified else None)

    def last_committed(self) -> Request | None:
        """Return the request of the last commit in the run's ledger, if it is of this desk."""
        ids = [entry.request for entry in self.place.ledger() if entry.event == "commit"]
        return self.requests.of_run(ids[-1]) if ids else None

    def audit(self, number: int, retrained: int, by: Account) -> None:
        """Have what is staged audited again."""
        with self.store.transaction():
            self._in(number, "staged", "audited")
            if not 0 <= retrained <= 20:
                raise SettingsError("Expected 0 to 20 models to compare with.")
            self._queue("audit", number, by, retrained=retrained)
            self.requests.note(number, proposal=None)

    def decide(
        self, number: int, decision: str, by: Account, *, force: bool = False, reason: str = ""
    ) -> None:
        """Decide to commit or to roll back what is staged, or propose it to a second person."""
        if decision not in ("commit", "rollback"):
            raise SettingsError("Decide to commit, or to roll back.")
        with self.store.transaction():
            request = self._in(number, "staged", "audited")
            self._expect_idle(number)
            if request.fact("proposal"):
                raise WrongState("A decision was proposed already; it waits for an answer.")
            if decision == "commit" and request.state == "staged":
                raise WrongState("It was not audited yet, so nobody knows what to decide.")
            reasons = _reason(reason) if force or reason else ""
            proposal = {
                "id": secrets.token_hex(8),
                "decision": decision,
                "force": force and decision == "commit",
                "reason": reasons,
                "by": by.name,
                "at": requests.now(),
            }
            if self.settings.two_persons:
                self.requests.note(number, proposal=proposal, trouble=None)
                self.trail.add(f"proposed {decision}", number, by.name, force=proposal["force"])
            else:
                self._decided(number, proposal, by)

    def confirm(self, number: int, proposal: str, answer: str, by: Account) -> None:
        """Confirm or decline what another person proposed."""
        with self.store.transaction():
            proposed = self._proposed(number, proposal)
            if proposed["by"] == by.name:
                raise WrongState("Another person has to confirm what you proposed.")
            self.requests.note(number, proposal=None)
            if answer == "confirm":
                self._decided(number, proposed, by)
            else:
                self.trail.add(f"declined {proposed['decision']}", number, by.name)

    def take_back(self, number: int, proposal: str, by: Account) -> None:
        """Take back what one proposed oneself, so that something else can be decided."""
        with self.store.transaction():
            proposed = self._proposed(number, proposal)
            if proposed["by"] != by.name:
                raise WrongState("Only who proposed it can take it back.")
            self.requests.note(number, proposal=None)
            self.trail.add(f"took back {proposed['decision']}", number, by.name)

    def _proposed(self, number: int, proposal: str) -> Mapping[str, Any]:
        """Return a proposal that still waits for an answer, or raise."""
        proposed: Mapping[str, Any] | None = self._in(number, "staged", "audited").fact("proposal")
        if not proposed or proposed["id"] != proposal:
            raise WrongState("Nothing waits for this answer any more; look again.")
        return proposed

    def _decided(self, number: int, proposal: Mapping[str, Any], by: Account) -> None:
        decision = proposal["decision"]
        self._queue(decision, number, by, force=proposal["force"])
        facts = {**proposal, "confirmed_by": by.name if by.name != proposal["by"] else ""}
        self.requests.note(number, decision=facts)

    def purge(self, number: int, by: Account) -> None:
        """Have older weights and commitments removed everywhere."""
        with self.store.transaction():
            self._in(number, "committed")
            self._queue("purge", number, by)

    def certify(self, number: int, by: Account) -> None:
        """Have every party sign what it did."""
        with self.store.transaction():
            self._in(number, "purged", "certified")
            self._queue("certify", number, by)

    def cancel(self, number: int | None, by: Account) -> None:
        """Have what is under way stopped, for a request or for none."""
        with self.store.transaction():
            task = self.tasks.live(number)
            if task is None:
                raise WrongState("Nothing is under way any more.")
            if not task.can_stop:
                raise WrongState("This cannot be stopped half-way: every party has to end it.")
            self.tasks.stop(task, by.name)
            self.trail.add(f"stop {task.verb}", number, by.name)

    def look(self, by: Account) -> None:
        """Have every party asked where it stands."""
        with self.store.transaction():
            if self.tasks.live(None) is None:
                self.tasks.add("look", None, by.name)

    # Notes on the whole run

    def keep_status(self, status: Status) -> None:
        """Keep where every party stood when it was last asked."""
        parties = {name: asdict(stands) for name, stands in status.parties.items()}
        seen = {"parties": parties, "differences": list(status.differences)}
        self.keep_note("status", json.dumps({**seen, "unfinished": status.unfinished}))

    def keep_note(self, name: str, value: str) -> None:
        """Keep a fact about the whole run."""
        with self.store.transaction() as connection:
            row = name, value, requests.now()
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", row)

    def kept_note(self, name: str) -> tuple[str, str] | None:
        """Return a fact about the whole run and when it was noted, None where it was not."""
        rows = self.store.rows("SELECT value, at FROM notes WHERE name = ?", name)
        return (rows[0]["value"], rows[0]["at"]) if rows else None

    # Checks

    def _in(self, number: int, *states: str) -> Request:
        request = self.requests.get(number)
        if request.state not in states:
            raise wrong_state(request, " or ".join(states))
        return request

    def _expect_idle(self, number: int) -> None:
        if self.tasks.live(number) is not None:
            raise RunError("Something is under way for this request; wait for it.", code="busy")

    def _queue(self, verb: tasks.Verb, number: int, by: Account, **options: Any) -> None:
        self.tasks.add(verb, number, by.name, **options)
        self.requests.note(number, trouble=None)
        self.trail.add(f"asked for {verb}", number, by.name, **options)


def _about(demand: Demand, extension: str = "") -> About:
    """Return what a request is about, by a demand that was checked."""
    assert demand.received is not None
    due = deadline.due(demand.received, extension)
    received = demand.received.isoformat()
    return About(demand.labels, demand.ids, received, due.isoformat(), demand.reference)


def _reason(reason: str) -> str:
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise SettingsError(f"Give a reason of at most {LONGEST_REASON} characters.")
    return reason.strip()
