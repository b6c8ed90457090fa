"""How each task is done, by one verb of `Federation`, and how far one came that was interrupted.

What was decided stands in the label holder's ledger, what is staged in its folder. Each verb looks
there first, so that one that is begun again after a kill does nothing twice.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel.audit.binding import verdict_of
from unlabel.desk import preview
from unlabel.desk.failures import WrongState
from unlabel.desk.requests import Request, State
from unlabel.desk.tasks import Task, Verb
from unlabel.errors import RunError, UnlabelError
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY, sha256, write_atomically
from unlabel.forget.copies import Copy
from unlabel.forget.exact_methods import is_exact
from unlabel.forget.plan import has_hidden
from unlabel.forget.request_secrets import RequestSecrets
from unlabel.progress import Watch
from unlabel.report.certificate import committed
from unlabel.report.service import purge_times, state_since
from unlabel.runfolder import CERTIFICATE
from unlabel.train.facts import staged_in
from unlabel.verification import verify

if TYPE_CHECKING:
    from unlabel.desk.office import Desk

#: Models to compare with where people are judged by figures, unless the settings ask for more.
REFERENCES = 5
REPORT, VERDICT = "report.html", "verdict.json"


@dataclass(frozen=True)
class Doing:
    """A task that is under way.

    resumed  whether a desk that was interrupted had begun it
    watch    is told how far it has come, and raises where it is to be stopped
    """

    desk: Desk
    task: Task
    resumed: bool
    watch: Watch

    @property
    def number(self) -> int:
        """The number of the request."""
        assert self.task.request is not None
        return self.task.request

    @property
    def request(self) -> Request:
        """The request, as it is now."""
        return self.desk.requests.get(self.number)

    @property
    def id(self) -> str:
        """The id that the request has in the run."""
        return str(self.request.fact("request", ""))

    def standing(self) -> str:
        """Return what became of the request in the run: staged, committed, rolled-back or none."""
        staged = staged_in(self.desk.place.home)
        before = "staged" if staged is not None and staged.id == self.id else "none"
        return state_since(self.desk.place.ledger(), self.id, before)

    def ended(self, state: State, event: str, facts: dict[str, Any], **note: Any) -> None:
        """Note, all at once, what the task came to."""
        with self.desk.store.transaction():
            self.desk.requests.note(self.number, state, **{"trouble": None, **facts})
            self.desk.trail.add(event, self.number, self.task.asked_by, **note)
            self.desk.tasks.end(self.task, "done")


def plan(doing: Doing) -> None:
    """Look at what each choice would mean; nothing is changed."""
    request, ids = doing.request, doing.desk.requests.people(doing.number)
    other = doing.desk.requests.open()
    if other is not None:
        waits = (
            f"Request {other.number} waits for a decision. What can be done for this one depends "
            f"on it, and is looked at as soon as it is decided on."
        )
        doing.ended("received", "waits", {"trouble": waits, "waits": True}, until=other.number)
        return
    shown: list[preview.Preview] = []
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        for choice in _choices(federation, ids):
            doing.watch(len(shown), len(shown) + 1, choice.title)
            try:
                work = federation.plan(request.labels, ids=ids, settings=choice.settings)
            except UnlabelError as error:
                shown.append(preview.impossible(choice, error))
            else:
                shown.append(preview.preview(federation, choice, work))
    if all(each.trouble for each in shown):
        raise RunError(shown[0].trouble, code="impossible")
    facts = {"previews": [each.to_json() for each in shown], "waits": None}
    doing.ended("planned", "planned", facts)


def forget(doing: Doing) -> None:
    """Carry the request out, and have it audited next."""
    request, ids = doing.request, doing.desk.requests.people(doing.number)
    figures: dict[str, Any] = {}
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        id = staged_by(doing.desk.place.home, request.fact("key"))
        if not id:
            wanted = [c for c in _choices(federation, ids) if c.key == request.fact("choice")]
            if not wanted:
                raise WrongState("What can be done has changed since; look at it again.")
            choice = wanted[0]
            settings = replace(choice.settings, key=request.fact("key"))
            outcome = federation.forget(
                request.labels, ids=ids, settings=settings, watch=doing.watch
            )
            figures = outcome.to_json()
            id = outcome.result.request
    staged = staged_in(doing.desk.place.home)
    why_not = "" if staged is None else staged.why_not()
    with doing.desk.store.transaction():
        facts = {"request": id, "figures": figures, "why_not": why_not, "key": None}
        doing.ended("staged", "staged", facts, run=id)
        retrained = _references(doing, {} if staged is None else staged.note)
        doing.desk.tasks.add("audit", doing.number, doing.task.asked_by, retrained=retrained)


def audit(doing: Doing) -> None:
    """Judge what is staged, and write the report."""
    home = doing.desk.place.home
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        verdict = verdict_of(home, doing.id) if doing.resumed else None
        # One that was interrupted may have ended, and been noted in the run's ledger.
        if verdict is None or verdict.facts.at < doing.task.asked:
            retrained = int(doing.task.options.get("retrained", 0))
            verdict = federation.audit(retrained=retrained, watch=doing.watch)
    content = json.dumps(verdict.to_json(), indent=1).encode()
    write_atomically(doing.desk.place.files(doing.number) / VERDICT, content, mode=OWNER_ONLY)
    _write_report(doing)
    facts = {"depth": verdict.depth, "demanded": verdict.demanded, "passed": verdict.passed}
    doing.ended("audited", "audited", {"audit": facts, "proposal": None}, **facts)


def commit(doing: Doing) -> None:
    """Make what is staged every party's model, and list what is left of the label where."""
    force = bool(doing.task.options.get("force"))
    if doing.standing() == "staged":
        Federation.expect_committable(doing.desk.place.run, force=force)  # nobody is asked for it
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        if doing.standing() == "staged":
            federation.commit(doing.id, force=force)
        _expect("committed", doing)
        copies = [asdict(each) for each in federation.copies()]
        doing.desk.keep_status(federation.status())
    _write_report(doing)
    facts = {
        "copies": copies,
        "committed": committed(doing.desk.place.ledger(), doing.id).at,
        "forced": force,
    }
    with doing.desk.store.transaction():
        doing.ended("committed", "committed", facts, head=doing.desk.place.ledger()[-1].hash)
        doing.desk.plan_waiting()


def rollback(doing: Doing) -> None:
    """Drop what is staged at every party."""
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        if doing.standing() == "staged":
            federation.rollback(doing.id)
        _expect("rolled-back", doing)
        # As after a commit: partners of a hidden request are to see the same of either.
        federation.copies()
        doing.desk.keep_status(federation.status())
    _write_report(doing)
    with doing.desk.store.transaction():
        doing.ended("rolled-back", "rolled back", {}, head=doing.desk.place.ledger()[-1].hash)
        doing.desk.plan_waiting()


def purge(doing: Doing) -> None:
    """Remove what stems from before, everywhere; list what is left."""
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        if not _purges(doing):
            federation.purge()
        copies = [asdict(each) for each in federation.copies()]
        doing.desk.keep_status(federation.status())
        parties = federation.ledger()
        purged = purge_times(parties, doing.id)
    _write_report(doing)
    facts = {"copies": copies, "purged": purged}
    doing.ended("purged", "purged", facts, head=doing.desk.place.ledger()[-1].hash)


def certify(doing: Doing) -> None:
    """Have every party sign what it did, and check the certificate."""
    files, request = doing.desk.place.files(doing.number), doing.request
    demand = files / "demand" if request.fact("demand") else None
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        issued = federation.certificate(request=doing.id, received=request.received, demand=demand)
        with contextlib.suppress(UnlabelError):  # not all can be reached: the list stays as it was
            _list_copies(doing, federation.copies())
    content = issued.path.read_bytes()
    checks = verify(issued.path, run=doing.desk.place.run, demand=demand)
    known = {
        "sha256": sha256(content),
        "depth": issued.body["depth"],
        "faults": list(checks.faults),
        "signed": list(issued.body["parties"]),
        "not_signed": dict(issued.body["not_signed"]),
    }
    _expect_no_less(known, request.fact("certificate"))
    write_atomically(files / CERTIFICATE, content, mode=OWNER_ONLY)
    _write_report(doing)
    facts = {"certificate": known, "purged": _purge_times(issued.body)}
    doing.ended("certified", "certified", facts, certificate=known["sha256"])


def look(doing: Doing) -> None:
    """Ask every party where it stands."""
    with doing.desk.place.open(doing.watch, afresh=doing.resumed) as federation:
        status, copies = federation.status(), federation.copies()
    with doing.desk.store.transaction():
        doing.desk.keep_status(status)
        _list_copies(doing, copies)
        doing.desk.trail.add("looked", None, doing.task.asked_by)
        doing.desk.tasks.end(doing.task, "done")


ACTS: dict[Verb, Callable[[Doing], None]] = {
    "plan": plan,
    "forget": forget,
    "audit": audit,
    "commit": commit,
    "rollback": rollback,
    "purge": purge,
    "certify": certify,
    "look": look,
}


def staged_by(home: Path, key: str | None) -> str:
    """Return the id of what is staged, if it was made with a key: it is this desk's then."""
    staged = staged_in(home)
    is_ours = staged is not None and key and RequestSecrets(home).key(staged.id) == key
    return staged.id if staged is not None and is_ours else ""


def _choices(federation: Federation, ids: list[str]) -> tuple[preview.Choice, ...]:
    """Return the ways to carry a request out, as the run stands."""
    people, hidden = bool(ids), has_hidden(federation)
    return preview.choices(federation.config, people=people, hidden=hidden)


def _references(doing: Doing, note: Mapping[str, Any]) -> int:
    """Return how many models an audit trains to compare with: people need some to be judged."""
    wanted = doing.desk.settings.retrained
    of_people = doing.request.people and not is_exact(note) and doing.desk.place.kit is None
    return max(wanted, REFERENCES) if of_people else wanted


def _expect(state: str, doing: Doing) -> None:
    """Raise where something else became of the request than was wanted."""
    now = doing.standing()
    if now != state:
        words = "is not staged any more" if now == "none" else f"was {now} by somebody else"
        raise WrongState(f"The request {words}, so that it cannot be {state}.")


def _list_copies(doing: Doing, copies: list[Copy]) -> None:
    """Note where something is left of the last request, until its letter is sent or another comes.

    What is left then is of that other one too.
    """
    request = doing.desk.last_committed()
    if request is not None and not request.is_ended and staged_in(doing.desk.place.home) is None:
        doing.desk.requests.note(request.number, copies=[asdict(each) for each in copies])


def _expect_no_less(known: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    """Raise where a certificate lacks what the one has that was issued before and holds."""
    if before is None or before["faults"]:
        return
    less = ["states no depth"] if before.get("depth") and not known["depth"] else []
    less += [f"is not signed by {each}" for each in before["signed"] if each in known["not_signed"]]
    less += ["does not hold"] if known["faults"] else []
    if less:
        words = " and ".join(less)
        raise WrongState(f"The certificate that was issued stays, since one made now {words}.")


def _purges(doing: Doing) -> bool:
    """Return whether the label holder's ledger has a purge after the request's commit."""
    return any(purge_times({"active": doing.desk.place.ledger()}, doing.id).values())


def _purge_times(body: Mapping[str, Any]) -> dict[str, str | None]:
    """Return when each party attests a purge, by a certificate."""
    times: dict[str, str | None] = dict.fromkeys(body["not_signed"])
    for party, signed in body["parties"].items():
        purged = signed["part"]["purge"]
        times[party] = purged["at"] if purged else None
    return times


def _write_report(doing: Doing) -> None:
    """Write the report of the request as it stands, where the run's last audit is of it."""
    verdict = verdict_of(doing.desk.place.home, doing.id)
    if verdict is not None:
        Federation.report_of(doing.desk.place.run, doing.desk.place.files(doing.number) / REPORT)
