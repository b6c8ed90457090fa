"""One request from beginning to end: choose samples, forget, measure, and say what it was worth."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import (
    DIVERGED,
    GRADIENT_NORM,
    ForgetDiverged,
    ForgetError,
    PartyLost,
    PartyRefused,
    PublicMismatch,
    UnlabelError,
    WireError,
    why,
)
from unlabel.forget.fit import Fit
from unlabel.forget.method import Method, Mode, settings_of
from unlabel.forget.request import Request
from unlabel.forget.task import Task, Watch
from unlabel.forget.work import Work
from unlabel.party import ActiveParty, own_randomness
from unlabel.train import Evaluation
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
    mode                what the request was to the partners: open, deep or hidden
    failed              why an outcome is no use, where a hidden request says so only here
    privacy             the accountant's figures, None where nothing is proved; under `total` those
                        of all hidden requests so far
    drift_share         share of the fall of y_u that the same run at rate 0 has too
    warning             what is odd about the public set, empty where nothing is
    public_agreement    share of the public samples that the model called by their label before
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
    mode: str
    failed: str
    privacy: dict[str, Any] | None
    warning: str = ""
    public_agreement: float | None = None


def forget(
    task: Task, request: Request, method: Method, name: str, watch: Watch
) -> tuple[Result, dict[str, dict[str, Tensor]], dict[str, list[dict[str, Any]]]]:
    """Carry a request out; return what it came to, the active party's state from before, and when
    which messages went to each party.

    Where it fails, every party is as it was before.
    """
    active = task.active
    plain, recorder = active.transport, Recorder(active.transport)
    saved = active.snapshot()
    drift = None
    try:
        with own_randomness(active.device):
            tested = task.evaluate()
            before = task.measure(request, tested)
            seen = _look(task)
            fit = _fitting(task, method, seen, tested)
            with _timed(active, recorder) as chosen:
                shots = task.shots(request, method)
            control = method.control() if task.drift else None
            if control is not None:
                control.run(task.work(request, shots, lambda *_: None))
                drift = task.measure(request)[1]
                take_back(active, request.id, saved)
            work = task.work(request, shots, watch)
            with _timed(active, recorder) as worked:
                failed = _carried_out(method, work, saved)
            now = _look(task)
            failed = failed or _damage(method, work, seen, now)
            after = task.measure(request)
    except BaseException as error:
        active.transport = plain
        with contextlib.suppress(PartyLost):  # whoever goes on returns all to a version first
            take_back(active, request.id, saved)
        known = isinstance(error, ForgetDiverged)  # by the method itself, which says when
        if isinstance(error, UnlabelError) and error.code in DIVERGED and not known:
            which = f" ({error})" if error.code == GRADIENT_NORM else ""
            raise ForgetDiverged(
                f"Forgetting diverged and was rolled back{which}; lower the method's rates or "
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
        tells_partners=method.told(),
        cover=len(work.among),
        # A run that left every answer as it was has learned nothing, whatever it was set to do.
        control=bool(failed) or method.is_control() or torch.equal(seen.logits, now.logits),
        still_known=not request.rows and (after[1] or 0.0) > KNOWN,
        mode=method.mode(),
        failed=failed,
        # Partners may know what was forgotten earlier, and need not guess it any more.
        privacy=_bound(method, len(task.names) - len(task.gone.labels)),
        warning=fit.sentence() if fit is not None and fit.doubtful() else "",
        public_agreement=None if fit is None else fit.public,
    )
    timelines = {party: found.timeline() for party, found in recorder.transcripts.items()}
    return result, saved, timelines


def _bound(method: Method, labels: int) -> dict[str, Any] | None:
    """Return what the accountant says of a request, in figures and in words."""
    told = method.account()
    if told is None:
        return None
    return {**told.to_json(labels), "sentence": " ".join(told.sentences(labels))}


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
    if request.hidden:
        expect_mode(method, name, "hidden")
    task.expect_public(method)
    if method.people and task.public.disclosed:
        raise ForgetError(
            f"Method '{name}' compares with people nobody trained on, but the public set holds "
            f"training rows; give others with --public."
        )
    task.covers(request)


def expect_mode(method: Method, name: str, mode: Mode) -> None:
    """Raise where a method is to the partners something else than was asked for."""
    if method.mode() == mode:
        return
    if mode == "hidden":
        instead = "leave" if method.people else "choose `hidden`, or leave"
        raise ForgetError(
            f"Method '{name}' cannot be hidden: it tells the partners {method.discloses}; "
            f"{instead} --mode hidden out."
        )
    raise ForgetError(
        f"Expected a method of mode '{mode}' but '{name}' is of mode '{method.mode()}'; leave "
        f"--mode or --method out."
    )


@dataclass(frozen=True)
class _Seen:
    """What the model says of public samples, and their labels."""

    logits: Tensor
    labels: Tensor


def _look(task: Task) -> _Seen:
    """Ask about the public samples: all of them, so that none is named by being left out."""
    public = task.public.take(torch.arange(min(len(task.public), MOST_CHECKED)))
    logits = task.active.logits(public.rows.to(task.active.device), table=public.table).cpu()
    used = ~public.left_out()
    return _Seen(logits[used], public.labels[used])


def _fitting(task: Task, method: Method, seen: _Seen, tested: Evaluation) -> Fit | None:
    """Return how the public set fits the model; raise where it does not at all.

    Samples and rows of all labels count that were there before the request, whatever it is about,
    so that a refusal tells nothing. None where a method looks at no public sample.
    """
    if "public" not in method.tells().rows:
        return None
    fit = Fit.of(seen.logits, seen.labels, tested, task.gone.labels)
    if fit is not None and fit.useless() and not task.any_public:
        raise PublicMismatch(fit.refusal())
    return fit


def _agreement(work: Work, before: _Seen, after: _Seen) -> tuple[float, float]:
    """Return how many retained samples did not change sides, and how many must not have.

    A sample is called by the likeliest label that stays; but one that is called by a forgotten
    label only now has changed sides too. The agreement is a mean over
    the labels that samples got before, so that a model that calls everything by one name has
    1 / labels; it must be nearer to 1 than to that.
    """
    gone = torch.tensor(list(work.gone), dtype=torch.int64)
    stay = ~torch.isin(before.labels, gone)
    was, now = (work.without(seen.logits)[stay].argmax(1) for seen in (before, after))
    said, says = (seen.logits[stay].argmax(1) for seen in (before, after))
    now = torch.where(torch.isin(said, gone), now, says)
    groups = was.unique().tolist()
    if not groups:
        return 1.0, 0.0
    shares = [float((now[was == label] == label).float().mean()) for label in groups]
    return sum(shares) / len(shares), (1 + 1 / len(groups)) / 2


def _damage(method: Method, work: Work, before: _Seen, after: _Seen) -> str:
    """Raise where a request has destroyed the rest; a hidden one says so and goes on.

    That a request was given up half-way would tell the partners something about its label.
    """
    agreement, least = _agreement(work, before, after)
    if method.mode() != "hidden":
        work.expect_alive(agreement, least=least)
    elif agreement < least and not work.wreck:
        return (
            f"Forgetting destroys the rest: only {agreement:.0%} of the retained public samples "
            f"keep their label; roll the request back, and try again with other settings."
        )
    return ""


def _carried_out(method: Method, work: Work, saved: dict[str, dict[str, Tensor]]) -> str:
    """Run the method; where a hidden one fails by itself, return why, and go on.

    What it computes after its last message depends on the label, and so may an error in it. To
    give up then and there would be a third outcome beside commit and rollback, and be seen. What
    goes wrong on the wire comes from what the partners have seen already, and is raised.
    """
    try:
        method.run(work)
    except (WireError, PartyRefused, PartyLost):
        raise
    except Exception as error:
        if method.mode() != "hidden":
            raise
        work.active.load_snapshot(saved)
        said = str(error).rstrip(".") if isinstance(error, UnlabelError) else why(error)
        return (
            f"Forgetting failed ({said}); roll the request back, and try again with other settings."
        )
    return ""


def take_back(active: ActiveParty, request: str, saved: dict[str, dict[str, Tensor]]) -> None:
    """Return every party to its state from before a request."""
    active.load_snapshot(saved)
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
