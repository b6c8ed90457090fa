"""The worker: what was interrupted goes on where the run stands, and nothing is done twice."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from cli.command_line import one_thread

from desk.conftest import MakeDesk
from unlabel import Federation
from unlabel.desk import verbs
from unlabel.desk.accounts import Account
from unlabel.desk.demands import Demand
from unlabel.desk.office import Desk
from unlabel.desk.place import Place
from unlabel.desk.requests import Request
from unlabel.desk.tasks import Verb
from unlabel.desk.worker import INTERNAL, KILLED, TRIES, Worker
from unlabel.errors import RunError
from unlabel.party import Ledger, PassiveParty
from unlabel.train.facts import staged_in
from unlabel.wire import Message

__all__ = ["one_thread"]  # a fixture for every test here

ADA = Account("ada", "caseworker")
#: What is asked for in turn, and the state that each ends in.
STEPS: tuple[tuple[Verb, str], ...] = (
    *(("plan", "planned"), ("forget", "staged"), ("audit", "audited")),
    *(("commit", "committed"), ("purge", "purged"), ("certify", "certified")),
)
KINDS = ("blind", "supervised")


class Killed(BaseException):
    """The process is no more: nothing catches this."""


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()


def received(desk: Desk, *ids: str) -> int:
    return desk.receive(Demand(ids=ids or ("P005",), received=desk.today()), ADA)


def work(desk: Desk) -> None:
    worker = Worker(desk)
    while worker.work():
        pass


def ask(desk: Desk, number: int, verb: Verb) -> None:
    """Ask for a step, where nobody has to be asked for it by the one before."""
    if verb == "forget":
        previews = desk.requests.get(number).fact("previews")
        desk.start(number, next(p["key"] for p in previews if not p["trouble"]), ADA)
    elif verb in ("commit", "rollback"):
        forced = not desk.requests.get(number).fact("audit")["passed"]
        desk.decide(number, verb, ADA, force=forced, reason="a test" if forced else "")
    elif verb in ("purge", "certify"):
        getattr(desk, verb)(number, ADA)


def request(desk: Desk, number: int = 1) -> Request:
    return desk.requests.get(number)


def events(desk: Desk) -> list[str]:
    """Return what the label holder's ledger has, in its order."""
    return [entry.event for entry in Ledger(desk.place.home).entries()]


def reopened(desk: Desk) -> Desk:
    """Return the desk as the next process opens it."""
    return Desk(Place.of(desk.place.run), desk.settings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_kills_interrupted_is_done_once(
    kind: str, make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is killed before the verb did anything, and after all of it, before that was noted."""
    desk = make_desk(kind)
    number = received(desk)

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    for verb, state in STEPS:
        ask(desk, number, verb)
        for place, name in ((Place, "open"), (verbs.Doing, "ended")):
            with monkeypatch.context() as patch:
                patch.setattr(place, name, dies)
                with pytest.raises(Killed):
                    Worker(desk).work()
            assert desk.tasks.live(number) is not None
            desk = reopened(desk)
        assert Worker(desk).work()
        assert request(desk).state == state, request(desk).fact("trouble")
    assert [event for event in events(desk) if event != "freeze"] == ["audit", "commit", "purge"]
    assert request(desk).fact("certificate")["faults"] == []
    assert desk.tasks.next() is None
    noted = [entry.event for entry in desk.trail.of(number)]
    for event in ("planned", "staged", "audited", "committed", "purged", "certified"):
        assert noted.count(event) == 1
    assert not desk.trail.check().trouble


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["stopped", "ended"])
def test_what_can_be_stopped_leaves_every_party_as_it_was(
    how: str, kind: str, make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(kind)
    number = received(desk)
    work(desk)
    before = Federation.status_of(desk.place.run).parties
    ask(desk, number, "forget")
    worker = Worker(desk)
    watching = worker._watching

    def watched(task: Any) -> Callable[[int, int, str], None]:
        watch, seen = watching(task), [0]

        def step(done: int, total: int, note: str) -> None:
            seen[0] += 1
            if done > 1 and how == "stopped" and task.verb == "forget":
                desk.cancel(number, Account("bert", "approver"))
            elif done > 1 and how == "ended":
                worker._ending.set()
            watch(done, total, note)

        return step

    monkeypatch.setattr(worker, "_watching", watched)
    assert worker.work()
    assert Federation.status_of(desk.place.run).parties == before
    assert staged_in(desk.place.home) is None
    if how == "stopped":
        assert request(desk).state == "planned"
        assert request(desk).fact("choice") is None, "nothing was carried out"
        last = desk.trail.of(number)[-1]
        assert (last.event, last.note) == ("stopped", {"by": "bert", "what": "forget"})
        ask(desk, number, "forget")
    desk = reopened(desk)
    work(desk)
    assert request(desk).state in ("staged", "audited")
    assert staged_in(desk.place.home) is not None


def test_what_waits_is_stopped_without_being_begun(desk: Desk) -> None:
    number = received(desk)
    desk.cancel(number, ADA)
    assert Worker(desk).work()
    assert request(desk).state == "received"
    assert [e.event for e in desk.trail.of(number)] == ["received", "stop plan", "stopped"]


def test_who_waited_for_a_request_that_came_to_nothing_is_looked_at(desk: Desk) -> None:
    first = received(desk)
    work(desk)
    second = received(desk, "P007")
    ask(desk, first, "forget")
    assert Worker(desk).work()
    assert request(desk, second).fact("waits")
    desk.cancel(first, ADA)
    work(desk)
    assert [request(desk, number).state for number in (first, second)] == ["planned"] * 2


def test_nothing_stays_of_what_was_staged_and_is_gone(desk: Desk, tmp_path: Path) -> None:
    number, backup = received(desk), tmp_path / "backup"
    work(desk)
    shutil.copytree(desk.place.run, backup)
    ask(desk, number, "forget")
    work(desk)
    assert (desk.place.files(number) / verbs.VERDICT).exists()
    shutil.rmtree(desk.place.run)
    shutil.copytree(backup, desk.place.run)
    Worker(desk)._look_around()
    assert request(desk).state == "planned"
    assert {"previews", "trouble"} <= request(desk).facts.keys()
    assert not {"choice", "request", "figures", "audit"} & request(desk).facts.keys()
    assert list(desk.place.files(number).iterdir()) == []


def test_a_commit_that_the_run_has_lost_is_in_nobodys_way(desk: Desk, tmp_path: Path) -> None:
    first, second, backup = received(desk), received(desk, "P007"), tmp_path / "backup"
    work(desk)
    shutil.copytree(desk.place.run, backup)
    ask(desk, first, "forget")
    work(desk)
    ask(desk, first, "commit")
    work(desk)
    with pytest.raises(RunError):
        ask(desk, second, "forget")
    shutil.rmtree(desk.place.run)
    shutil.copytree(backup, desk.place.run)
    ask(desk, second, "forget")
    work(desk)
    assert request(desk, second).state == "audited"


def test_a_commit_cannot_be_stopped(desk: Desk) -> None:
    number = received(desk)
    work(desk)
    ask(desk, number, "forget")
    work(desk)
    ask(desk, number, "commit")
    task = desk.tasks.live(number)
    assert task is not None
    desk.tasks.begin(task)
    with pytest.raises(RunError) as refused:
        desk.cancel(number, ADA)
    assert refused.value.code == "wrong-state"


def test_what_ends_its_process_every_time_is_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = received(desk)

    def dies(_: Any) -> None:
        raise Killed

    monkeypatch.setitem(verbs.ACTS, "plan", dies)
    for _ in range(TRIES):
        with pytest.raises(Killed):
            Worker(desk).work()
    assert Worker(desk).work()
    assert request(desk).fact("trouble") == KILLED
    assert desk.tasks.live(number) is None


def test_a_failure_that_nobody_foresaw_is_said_without_its_words(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    received(desk)

    def fails(_: Any) -> None:
        raise ValueError("P005 is in it")

    monkeypatch.setitem(verbs.ACTS, "plan", fails)
    work(desk)
    assert request(desk).fact("trouble") == INTERNAL
    assert "test_worker.py" in caplog.text
    assert "P005" not in caplog.text


def test_what_is_staged_stays_the_requests_where_noting_it_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = received(desk)
    work(desk)
    ask(desk, number, "forget")

    def fails(*_: Any) -> None:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(verbs, "_references", fails)
        assert Worker(desk).work()
    assert request(desk).state == "staged"
    assert request(desk).fact("trouble") == INTERNAL
    desk.audit(number, 0, ADA)
    work(desk)
    assert request(desk).state == "audited"


def test_a_request_that_was_decided_on_elsewhere_is_noticed(make_desk: MakeDesk) -> None:
    for decision, state in (("commit", "committed"), ("rollback", "rolled-back")):
        desk = make_desk("blind" if decision == "commit" else "supervised")
        number = received(desk)
        work(desk)
        ask(desk, number, "forget")
        work(desk)
        run = Federation.open(desk.place.run)
        run.commit(force=True) if decision == "commit" else run.rollback()
        Worker(desk)._look_around()
        assert request(desk).state == state
        assert desk.trail.of(number)[-1].note == {"by": "desk", "state": state}


def test_what_is_staged_by_another_is_not_taken_for_the_desks_own(desk: Desk) -> None:
    number = received(desk)
    work(desk)
    ask(desk, number, "forget")
    other = Federation.open(desk.place.run).forget(ids=["P007"])
    work(desk)
    assert request(desk).state == "planned"
    assert other.result.request in request(desk).fact("trouble")
    assert request(desk).fact("request") is None


def test_a_desk_is_held_by_one_process(desk: Desk) -> None:
    worker = Worker(desk)
    worker.start()
    try:
        with pytest.raises(RunError) as refused:
            Worker(reopened(desk)).start()
        assert refused.value.code == "in-use"
    finally:
        worker.stop()
    second = Worker(reopened(desk))
    second.start()
    second.stop()


def test_partners_see_the_same_of_a_hidden_request_that_is_kept_and_of_one_that_is_dropped(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, seen = PassiveParty.handle, list[tuple[str, str]]()

    def noted(party: PassiveParty, message: Message) -> Message:
        seen.append((party.name, type(message).__name__))
        return handle(party, message)

    monkeypatch.setattr(PassiveParty, "handle", noted)
    served: dict[str, list[tuple[str, str]]] = {}
    decisions: tuple[Verb, ...] = ("commit", "rollback")
    for decision in decisions:
        desk = make_desk("supervised", name=decision)
        number = desk.receive(Demand(labels=("alder",), received=desk.today()), ADA)
        work(desk)
        desk.start(number, "hidden", ADA)
        work(desk)
        ask(desk, number, decision)
        seen.clear()
        work(desk)
        state = "committed" if decision == "commit" else "rolled-back"
        assert request(desk).state == state, request(desk).fact("trouble")
        served[decision] = list(seen)
    assert served["commit"] == served["rollback"]
    assert {kind for _, kind in served["commit"]} >= {"Commit", "Status"}


def test_partners_of_a_blind_run_see_nothing_of_a_request(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, seen = PassiveParty.handle, set[str]()

    def noted(party: PassiveParty, message: Message) -> Message:
        seen.add(type(message).__name__)
        return handle(party, message)

    monkeypatch.setattr(PassiveParty, "handle", noted)
    number = received(desk)
    for verb, _ in STEPS:
        ask(desk, number, verb)
        work(desk)
    assert request(desk).state == "certified"
    assert seen == {"Describe"}  # at the opening of a run in one place, whatever it is opened for


def test_the_key_of_a_request_stays_at_the_desk_until_it_is_staged(desk: Desk) -> None:
    number = received(desk)
    work(desk)
    ask(desk, number, "forget")
    key = request(desk).fact("key")
    assert len(key) == 64
    assert key not in "".join(map("".join, desk.trail.pieces()))
    work(desk)
    assert request(desk).fact("key") is None
    assert key not in repr(request(desk).facts)


def test_tasks_of_two_requests_are_done_in_turn(desk: Desk) -> None:
    first, second = received(desk), received(desk, "P007")
    task = desk.tasks.live(second)
    assert task is not None
    assert desk.tasks.before(task) == 1
    with pytest.raises(RunError):
        desk.plan(first, ADA)
    threads = [threading.Thread(target=desk.look, args=(ADA,)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    work(desk)
    assert [request(desk, number).state for number in (first, second)] == ["planned"] * 2
    looks = desk.store.rows("SELECT count(*) FROM tasks WHERE verb = 'look'")
    assert looks[0][0] == 1


def test_every_verb_has_an_act_and_a_name() -> None:
    from unlabel.desk.tasks import CANCELLABLE, DOING

    assert set(get_args(Verb)) == set(verbs.ACTS) == set(DOING)
    assert set(CANCELLABLE) < set(DOING)


def test_settings_of_a_desk_are_read_from_its_folder(desk: Desk, tmp_path: Path) -> None:
    from unlabel.desk.settings import FILE, DeskSettings, read_settings
    from unlabel.errors import SettingsError

    assert read_settings(tmp_path) == DeskSettings()
    (tmp_path / FILE).write_text("two_persons: true\norganisation: Bank\n")
    expected = replace(DeskSettings(), two_persons=True, organisation="Bank")
    assert read_settings(tmp_path) == expected
    for wrong in ("two_person: true", "retrained: 99", "language: fr", "- 1"):
        (tmp_path / FILE).write_text(wrong)
        with pytest.raises(SettingsError):
            read_settings(tmp_path)
