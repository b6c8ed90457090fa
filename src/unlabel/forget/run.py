"""One request from beginning to end: choose samples, forget, measure, and say what it was worth."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget.method import Method, settings_of
from unlabel.forget.request import Request
from unlabel.forget.task import Task, Watch
from unlabel.forget.work import Work
from unlabel.party import ActiveParty, own_randomness
from unlabel.wire import Recorder, Rollback

#: Share of a label's test rows up to which it counts as gone when they are still called by it.
KNOWN = 0.05
#: Public samples that are looked at to see whether the rest is still there.
MOST_CHECKED = 2000


@dataclass(frozen=True)
class Change:
    """A figure before and after."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class Result:
    """What forgetting came to, before anybody decided on it.

    retained_accuracy   on test rows of labels that stay (D_r)
    forgotten_accuracy  on test rows of the forgotten labels (y_u); for people, on their own rows
    confidence          mean probability of the people's old labels, None for whole labels
    seconds             from the first to the last message: choosing samples and forgetting,
                        without the measurements here and without staging
    transcript_bytes    both ways, over all parties, of choosing samples and forgetting
    tells_partners      what the method tells the passive parties beyond what training does
    cover               rows among which people were asked for, 0 for whole labels
    control             whether nothing was to be learned, so that it cannot be committed
    still_known         whether more than a twentieth of the labels' test rows still go by them
    drift_share         share of the fall of y_u that the same run at rate 0 has too
    """

    request: str
    method: str
    settings: dict[str, Any]
    labels: tuple[str, ...]
    people: int
    steps: int
    seconds: float
    retained_accuracy: Change
    forgotten_accuracy: Change
    confidence: Change | None
    transcript_bytes: int
    few_shot: int
    retained_samples: int
    public: str
    disclosed: bool
    suspects: tuple[dict[str, Any], ...]
    duplicates: int
    drift_share: float | None
    tells_partners: str
    cover: int
    control: bool
    still_known: bool


def forget(
    task: Task, request: Request, method: Method, name: str, watch: Watch
) -> tuple[Result, dict[str, dict[str, Tensor]]]:
    """Carry a request out; return what it came to, and the active party's state from before.

    Where it fails, every party is as it was before.
    """
    active = task.active
    plain, recorder = active.transport, Recorder(active.transport)
    saved = active.snapshot()
    drift = None
    try:
        with own_randomness(active.device):
            before = task.measure(request)
            with _timed(active, recorder) as chosen:
                shots = task.shots(request, method)
            seen = _look(task)
            control = method.control() if task.drift else None
            if control is not None:
                control.run(task.work(request, shots, lambda *_: None))
                drift = task.measure(request)[1]
                take_back(active, request.id, saved)
            work = task.work(request, shots, watch)
            with _timed(active, recorder) as worked:
                method.run(work)
            now = _look(task)
            _expect_alive(work, seen, now)
            after = task.measure(request)
    except BaseException as error:
        active.transport = plain
        take_back(active, request.id, saved)
        if isinstance(error, UnlabelError) and "finite" in str(error):
            why = f" ({error})" if "norm" in str(error) else ""
            raise ForgetError(
                f"Forgetting diverged and was rolled back{why}; lower the method's rates or "
                f"strengths."
            ) from error
        raise
    sent = recorder.transcripts.values()
    result = Result(
        request=request.id,
        method=name,
        settings=settings_of(method),
        labels=tuple(task.names[n] for n in request.labels),
        people=len(request.rows),
        steps=work.total,
        seconds=chosen.seconds + worked.seconds,
        retained_accuracy=Change(before[0], after[0]),
        forgotten_accuracy=Change(before[1], after[1]),
        confidence=Change(before[2], after[2]) if request.rows else None,
        transcript_bytes=sum(t.total_bytes("received") + t.total_bytes("sent") for t in sent),
        few_shot=shots.forgotten,
        retained_samples=len(shots.rows) - shots.forgotten,
        public=task.public.source,
        disclosed=task.public.disclosed,
        suspects=tuple({**asdict(s), "label": task.names[s.label]} for s in shots.suspects),
        duplicates=shots.duplicates,
        drift_share=_share(before[1], drift, after[1]),
        tells_partners=method.discloses,
        cover=len(work.among),
        # A run that left every answer as it was has learned nothing, whatever it was set to do.
        control=method.is_control() or torch.equal(seen.logits, now.logits),
        still_known=not request.rows and (after[1] or 0.0) > KNOWN,
    )
    return result, saved


def expect_fits(task: Task, request: Request, method: Method, name: str) -> None:
    """Raise where a method cannot carry a request out, or would tell what is to stay secret."""
    if method.people != bool(request.rows):
        kind = "the labels of people" if method.people else "whole labels"
        raise ForgetError(f"Method '{name}' forgets {kind}, and the request asks for the other.")
    # Public samples that gradients single out are nobody's secret; people in the training rows are.
    trained = method.tells().rows - {"public"}
    if request.secret and (method.names_rows() or (method.shows_rows() and trained)):
        raise ForgetError(
            f"Method '{name}' names the forgotten rows to every partner ({method.discloses}), so "
            f"the request would not be secret; choose another method or setting."
        )
    if method.people and task.public.disclosed:
        raise ForgetError(
            f"Method '{name}' compares with people nobody trained on, but the public set holds "
            f"training rows; give others with --public."
        )
    task.covers(request)


@dataclass(frozen=True)
class _Seen:
    """What the model says of public samples, and their labels."""

    logits: Tensor
    labels: Tensor


def _look(task: Task) -> _Seen:
    """Ask about the public samples: all of them, so that none is named by being left out."""
    public = task.public.take(torch.arange(min(len(task.public), MOST_CHECKED)))
    logits = task.active.logits(public.rows.to(task.active.device), table=public.table).cpu()
    return _Seen(logits, public.labels)


def _expect_alive(work: Work, before: _Seen, after: _Seen) -> None:
    """Raise where the retained samples changed sides.

    A sample is called by the likeliest label that stays; but one that is called by a forgotten
    label only now has changed sides too. The agreement is a mean over
    the labels that samples got before, so that a model that calls everything by one name has
    1 / labels; it must be nearer to 1 than to that.
    """
    gone = torch.tensor(list(work.gone))
    stay = ~torch.isin(before.labels, gone)
    was, now = (work.without(seen.logits)[stay].argmax(1) for seen in (before, after))
    said, says = (seen.logits[stay].argmax(1) for seen in (before, after))
    now = torch.where(torch.isin(said, gone), now, says)
    groups = was.unique().tolist()
    if groups:
        shares = [float((now[was == label] == label).float().mean()) for label in groups]
        work.expect_alive(sum(shares) / len(shares), least=(1 + 1 / len(groups)) / 2)


def take_back(active: ActiveParty, request: str, saved: dict[str, dict[str, Tensor]]) -> None:
    """Return every party to its state from before a request."""
    for half, learner in active.learners().items():
        learner.settle()
        learner.load_state(saved[half])
    active.transport.ask(Rollback(0, request))


def _share(before: float | None, drift: float | None, after: float | None) -> float | None:
    """Return (before - at rate 0) / (before - after): how much the drift does by itself."""
    if before is None or drift is None or after is None or before <= after:
        return None
    return (before - drift) / (before - after)


@dataclass
class _Clock:
    seconds: float = 0.0


@contextlib.contextmanager
def _timed(active: ActiveParty, recorder: Recorder) -> Iterator[_Clock]:
    """Record what crosses the wire and how long it takes, the device's work included."""
    clock, plain = _Clock(), active.transport
    active.transport = recorder
    _wait(active)
    started = time.perf_counter()
    try:
        yield clock
        _wait(active)
        clock.seconds = time.perf_counter() - started
    finally:
        active.transport = plain


def _wait(active: ActiveParty) -> None:
    if active.device.type == "cuda":
        torch.cuda.synchronize(active.device)
