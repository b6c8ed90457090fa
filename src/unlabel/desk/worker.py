"""The one thread that carries out what people ask for at the desk, task after task.

What it does is noted in the store before it begins and after it has ended. A desk that is killed in
between finds its task under way when it starts again, and begins it once more; `verbs.py` says how
nothing is done twice. A desk that is ended in good order stops what it can stop, and goes on with
it the next time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlabel.desk.requests import OPEN, State
from unlabel.desk.tasks import CANCELLABLE, Task
from unlabel.desk.verbs import ACTS, REPORT, VERDICT, Doing, staged_by
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel.progress import Watch, watch_nothing
from unlabel.report.certificate import committed
from unlabel.report.service import state_since
from unlabel.serve.shield import where
from unlabel.train.facts import staged_in

if TYPE_CHECKING:
    from unlabel.desk.office import Desk

log = logging.getLogger("unlabel.desk")

#: Seconds between two looks for something to do, where nobody says that there is.
LOOK = 1.0
#: How often a task is begun that ends its process every time.
TRIES = 3
INTERNAL = "It failed for a reason that the desk does not know; its log says where."
KILLED = f"The desk was ended {TRIES} times while it did this, so it is not begun again by itself."
#: Facts that go with a choice where nothing came of it.
CHOSEN = ("choice", "disclosed", "request", "figures", "why_not", "audit", "proposal")
#: The account that notes what nobody at this desk did.
NOBODY = "desk"


class Stopped(BaseException):
    """Somebody wants the task stopped, or the desk ends. Like an interrupt, it is no `Exception`:
    whatever is under way puts things back and lets it pass.
    """


@dataclass(frozen=True)
class Progress:
    """How far a task has come: so many steps of so many, and what the step is."""

    task: int
    done: int = 0
    total: int = 0
    note: str = ""


class Worker:
    """Does the tasks of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._thread: threading.Thread | None = None
        self._held: contextlib.ExitStack | None = None
        self._wake, self._ending = threading.Event(), threading.Event()
        self.progress: Progress | None = None
        #: Grows whenever the state of anything changes: whoever shows it looks again.
        self.changes = 0

    def start(self) -> None:
        """Hold the desk and begin to work."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._desk.place.held())
            self._held = stack.pop_all()
        self._ending.clear()
        self._thread = threading.Thread(target=self._run, name="desk-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop what is under way where that can be stopped, wait for it otherwise, and end."""
        self.end()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._held is not None:
            self._held.close()
            self._held = None

    def end(self) -> None:
        """Begin nothing any more, and stop what can be stopped."""
        self._ending.set()
        self._wake.set()

    @property
    def is_ending(self) -> bool:
        """Whether the desk ends: whoever waits for something is to stop waiting."""
        return self._ending.is_set()

    def of(self, task: Task | None) -> Progress | None:
        """Return how far it has come with a task, None where it has not begun."""
        progress = self.progress
        known = progress is not None and task is not None and progress.task == task.number
        return progress if known else None

    def wake(self) -> None:
        """Look for something to do now."""
        self.changes += 1
        self._wake.set()

    def _run(self) -> None:
        if self._desk.place.kit is None and self._desk.kept_note("status") is None:
            with contextlib.suppress(UnlabelError):  # in a folder it costs no message to anybody
                self._desk.keep_status(Federation.status_of(self._desk.place.run))
        while not self._ending.is_set():
            self._wake.clear()
            try:
                if not self.work():
                    self._look_around()
                    self._wake.wait(LOOK)
            except UnlabelError as error:  # of the store: its disk is full, say
                log.error("the desk cannot go on for now: %s", type(error).__name__)
                self._ending.wait(LOOK)

    def work(self) -> bool:
        """Do the next task, if there is one; return whether there was."""
        task = self._desk.tasks.next()
        if task is None:
            return False
        if task.stop and task.state == "waiting":
            self._stopped(task)
        else:
            self._do(task)
        self.progress = None
        self.changes += 1
        return True

    def _do(self, task: Task) -> None:
        resumed = task.state == "running"
        if task.tries >= TRIES:
            self._failed(task, KILLED)
            return
        self._desk.tasks.begin(task)
        self.progress = Progress(task.number)
        self.changes += 1
        try:
            with self._logged(task):
                ACTS[task.verb](Doing(self._desk, task, resumed, self._watching(task)))
        except Stopped:
            with self._putting_back(task):
                if self._desk.tasks.stopped_by(task):
                    self._stopped(task)
                else:  # the desk ends, and goes on with it when it starts again
                    self._desk.tasks.put_off(task)
        except UnlabelError as error:
            self._failed(task, str(error))
        except Exception as error:
            log.error("a task failed (%s): %s", task.verb, where(error))
            self._failed(task, INTERNAL)

    def _logged(self, task: Task) -> contextlib.AbstractContextManager[None]:
        """Leave a line of what is asked of other organisations, as every command does."""
        kit = self._desk.place.kit
        if kit is None:
            return contextlib.nullcontext()
        from unlabel.remote.noting import noted_as

        return noted_as(kit, task.asked_by, f"desk {task.verb}")

    def _watching(self, task: Task) -> Watch:
        def watch(done: int, total: int, note: str) -> None:
            self.progress = Progress(task.number, done, total, note)
            if task.verb not in CANCELLABLE:
                return
            if self._ending.is_set() or self._desk.tasks.stopped_by(task):
                raise Stopped

        return watch

    @contextlib.contextmanager
    def _putting_back(self, task: Task) -> Iterator[None]:
        """Have all parties where they were before a task that was stopped."""
        try:
            if task.verb in ("forget", "audit"):
                with self._desk.place.open(watch_nothing, afresh=True):
                    pass
        except UnlabelError as error:
            log.error("what a stopped task left is put back later: %s", error.code)
        yield

    def _stopped(self, task: Task) -> None:
        with self._desk.store.transaction():
            self._back(task, "")
            self._desk.tasks.end(task, "stopped")
            by = self._desk.tasks.stopped_by(task)
            self._desk.trail.add("stopped", task.request, by or NOBODY, what=task.verb)

    def _failed(self, task: Task, trouble: str) -> None:
        with self._desk.store.transaction():
            self._back(task, trouble)
            self._desk.tasks.end(task, "failed")
            self._desk.trail.add("failed", task.request, task.asked_by, what=task.verb)
            if task.request is None:
                self._desk.keep_note("trouble", trouble)

    def _back(self, task: Task, trouble: str) -> None:
        """Note that a request is where it was before a task, and why."""
        if task.request is None:
            return
        state: State | None = None
        facts: dict[str, Any] = {"trouble": trouble or None}
        if task.verb == "forget":
            # What failed may have been what comes after the staging.
            key = self._desk.requests.get(task.request).fact("key")
            id = staged_by(self._desk.place.home, key)
            if not id:
                self._start_over(task.request, trouble)
                return
            state, facts = "staged", {**facts, "request": id}
        elif task.verb in ("commit", "rollback"):
            facts["decision"] = None
        self._desk.requests.note(task.request, state, **facts)

    def _start_over(self, number: int, trouble: str) -> None:
        """Note that nothing came of the way that was chosen, and look at those that waited."""
        for name in (VERDICT, REPORT):
            (self._desk.place.files(number) / name).unlink(missing_ok=True)
        facts = {**dict.fromkeys(CHOSEN), "trouble": trouble or None}
        self._desk.requests.note(number, "planned", **facts)
        self._desk.plan_waiting()

    def _look_around(self) -> None:
        """Note what became of a request that somebody decided on by other means."""
        request = self._desk.requests.open()
        if request is None or request.state not in ("staged", "audited"):
            return
        id, home = str(request.fact("request", "")), self._desk.place.home
        staged = staged_in(home)
        if staged is not None and staged.id == id:
            return
        entries = self._desk.place.ledger()
        state = state_since(entries, id, "none")
        with self._desk.store.transaction():
            request = self._desk.requests.get(request.number)
            if request.state not in OPEN or self._desk.tasks.live(request.number) is not None:
                return
            if state == "committed":
                at = committed(entries, id).at
                self._desk.requests.note(request.number, "committed", committed=at, proposal=None)
            elif state == "rolled-back":
                self._desk.requests.note(request.number, "rolled-back", proposal=None)
            else:
                trouble = "What was staged for this request is gone; it has to be started again."
                self._start_over(request.number, trouble)
            self._desk.trail.add("noticed", request.number, NOBODY, state=state)
            self._desk.plan_waiting()
        self.changes += 1
