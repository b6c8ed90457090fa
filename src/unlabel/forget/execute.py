"""Carry a planned request out: choose samples, forget, measure, and say what it was worth."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unlabel.defend.accountant import Account
from unlabel.errors import (
    DIVERGED,
    GRADIENT_NORM,
    ForgetDiverged,
    PartyLost,
    PartyRefused,
    PublicMismatch,
    UnlabelError,
    WireError,
    why,
)
from unlabel.forget.method import Method, settings_of
from unlabel.forget.outcome import Change, Result
from unlabel.forget.public_fit import Fit
from unlabel.forget.work import LOWER, Work
from unlabel.party import ActiveParty, Snapshot, own_randomness
from unlabel.progress import watch_nothing
from unlabel.train import Evaluation, evaluate
from unlabel.wire import Recorder

#: A label counts as forgotten up to this accuracy on its test rows.
KNOWN = 0.05
#: Public samples that are looked at to see whether the rest is still there.
MOST_CHECKED = 2000
AGAIN = "roll the request back, and try again with other settings."


@dataclass(frozen=True)
class Execution:
    """What carrying a request out has made.

    result    figures, before anybody decides
    before    the active party's models from before
    messages  when which messages went to each party
    """

    result: Result
    before: Snapshot
    messages: dict[str, list[dict[str, Any]]]


def execute(work: Work) -> Execution:
    """Carry a request out: measure, run the method, measure again.

    Where it fails, every party is as it was before.
    """
    active, method, request = work.active, work.method, work.request
    plain, recorder = active.transport, Recorder(active.transport)
    saved = active.versions.snapshot()
    at_rate_0 = None
    try:
        with own_randomness(active.device):
            tested = evaluate(active, work.test, work.label_count)
            before = measure(work, tested)
            seen = _look(work)
            fit = _fitting(work, seen, tested)
            with _timed(active, recorder) as chosen:
                samples = work.samples
            control = method.control() if work.settings.measure_drift else None
            if control is not None:
                at_rate_0 = _forgotten_at_rate_0(control, work, saved)
            with _timed(active, recorder) as worked:
                failed = _carried_out(work, saved)
            now = _look(work)
            failed = failed or _damage(work, seen, now)
            after = measure(work)
    except BaseException as error:
        active.transport = plain
        with contextlib.suppress(PartyLost):  # recovery returns all to a version
            work.undo(saved)
        known = isinstance(error, ForgetDiverged)  # raised by the method, which names the step
        if isinstance(error, UnlabelError) and error.code in DIVERGED and not known:
            which = f" ({error})" if error.code == GRADIENT_NORM else ""
            raise ForgetDiverged(
                f"Forgetting diverged and was rolled back{which}; {LOWER}"
            ) from error
        raise
    sent = recorder.transcripts.values()
    result = Result(
        request=request.id,
        method=work.name,
        settings=settings_of(method),
        labels=tuple(work.names[n] for n in request.labels),
        people=len(request.rows),
        steps=work.total,
        seconds=chosen.seconds + worked.seconds,
        retained_accuracy=Change(before[0], after[0]),
        forgotten_accuracy=Change(before[1], after[1]),
        confidence=Change(before[2], after[2]) if request.rows else None,
        transcript_bytes=sum(t.total_bytes("received") + t.total_bytes("sent") for t in sent),
        few_shot=samples.forgotten,
        retained_samples=len(samples.rows) - samples.forgotten,
        public=work.public.source,
        disclosed=work.public.disclosed,
        suspects=tuple({**asdict(s), "label": work.names[s.label]} for s in samples.suspects),
        duplicates=samples.duplicates,
        drift_share=_drift_share(before[1], at_rate_0, after[1]),
        tells_partners=method.tells_partners,
        takes=method.takes,
        # A run that left every answer as it was has learned nothing, whatever it was set to do; and
        # what is about nothing can only be dropped.
        control=bool(failed)
        or method.is_control
        or not (request.labels or request.rows)
        or torch.equal(seen.logits, now.logits),
        still_known=not request.rows and (after[1] or 0.0) > KNOWN,
        visibility=method.visibility,
        aim=method.aim,
        failed=failed,
        # Partners may know what was forgotten earlier, and need not guess it any more.
        privacy=bound_of(method.account, len(work.names) - len(work.earlier.labels)),
        warning=fit.sentence() if fit is not None and fit.doubtful() else "",
        public_agreement=None if fit is None else fit.public,
    )
    timelines = {name: record.timeline() for name, record in recorder.transcripts.items()}
    return Execution(result, saved, timelines)


def measure(
    work: Work, tested: Evaluation | None = None
) -> tuple[float | None, float | None, float | None]:
    """Return D_r, y_u and, for people, the confidence in their old labels.

    tested  how the test rows are predicted, where that was asked already
    """
    tested = tested or evaluate(work.active, work.test, work.label_count)
    request = work.request
    retained = [n for n in range(work.label_count) if n not in request.labels]
    stay = tested.accuracy_on(n for n in retained if n not in work.earlier.labels)
    if not request.rows:
        return stay, tested.accuracy_on(request.labels), None
    # All are asked for, so that to measure names nobody: a request that fails is not told by it.
    train = work.train.to(work.active.device)
    listed = torch.isin(train, torch.tensor(request.rows, device=train.device))
    old = work.active.labels[train[listed]]
    p = work.active.logits(train)[listed].softmax(1)
    sure = p.gather(1, old[:, None]).mean().item()
    return stay, (p.argmax(1) == old).float().mean().item(), sure


def _forgotten_at_rate_0(control: Method, work: Work, saved: Snapshot) -> float | None:
    """Return y_u after a run of the same method that learns nothing, and take that back."""
    watch, work.watch = work.watch, watch_nothing
    control.run(work)
    work.watch, work.steps, work.total = watch, 0, 0
    forgotten_accuracy = measure(work)[1]
    work.undo(saved)
    return forgotten_accuracy


def bound_of(account: Account | None, labels: int) -> dict[str, Any] | None:
    """Return what the accountant says of a request, in figures and in words."""
    if account is None:
        return None
    return {**account.to_json(labels), "sentence": " ".join(account.sentences(labels))}


@dataclass(frozen=True)
class _Seen:
    """The model's logits of public samples, and their labels."""

    logits: Tensor
    labels: Tensor


def _look(work: Work) -> _Seen:
    """Ask about the public samples: all of them, so that none is named by being left out."""
    public = work.public.take(torch.arange(min(len(work.public), MOST_CHECKED)))
    logits = work.active.logits(public.rows.to(work.active.device), table=public.table).cpu()
    used = ~public.left_out()
    return _Seen(logits[used], public.labels[used])


def _fitting(work: Work, seen: _Seen, tested: Evaluation) -> Fit | None:
    """Return how the public set fits the model; raise where it does not at all.

    Samples and rows of all labels count that were there before the request, whatever it is about,
    so that a refusal tells nothing. None where no public sample teaches anything.
    """
    method = work.method
    if method.needs not in ("few-shot", "public") and "public" not in method.disclosure.gradients:
        return None
    fit = Fit.of(seen.logits, seen.labels, tested, work.earlier.labels)
    if fit is not None and fit.useless() and not work.settings.any_public:
        raise PublicMismatch(fit.refusal())
    return fit


def _agreement(work: Work, before: _Seen, after: _Seen) -> tuple[float, float]:
    """Return how many retained samples did not change sides, and how many must not have.

    A sample counts as its likeliest retained label; one that is predicted as a forgotten label
    only now has changed sides too, and one that is called by its own label has not: a model that
    learned from labels may be right where the old one was not. The agreement is a mean over the
    labels predicted before: it must be nearer to 1 than to 1 / labels, which a model has that
    always predicts one label.
    """
    forgotten = torch.tensor(work.forgotten_labels, dtype=torch.int64)
    stay = ~torch.isin(before.labels, forgotten)
    was, now = (work.retained_softmax(seen.logits)[stay].argmax(1) for seen in (before, after))
    first_before, first_now = (seen.logits[stay].argmax(1) for seen in (before, after))
    now = torch.where(torch.isin(first_before, forgotten), now, first_now)
    groups = was.unique().tolist()
    if not groups:
        return 1.0, 0.0
    kept = (now == was) | (now == before.labels[stay])
    shares = [float(kept[was == label].float().mean()) for label in groups]
    return sum(shares) / len(shares), (1 + 1 / len(groups)) / 2


def _damage(work: Work, before: _Seen, after: _Seen) -> str:
    """Raise where a request has destroyed the rest; a hidden one returns why and goes on.

    That a request was given up half-way would tell the partners something about its label. What is
    trained anew is judged by an audit: two good models of a hard table may often disagree.
    """
    if work.method.anew:
        return ""
    agreement, least = _agreement(work, before, after)
    if work.method.visibility != "hidden":
        work.expect_alive(agreement, least=least)
    elif agreement < least and not work.settings.allow_collapse:
        return (
            f"Forgetting destroys the rest: only {agreement:.0%} of the retained public samples "
            f"keep their label; {AGAIN}"
        )
    return ""


def _carried_out(work: Work, saved: Snapshot) -> str:
    """Run the method; where a hidden one fails, return why, and go on.

    What it computes after its last message depends on the label, and so may an error in it: to
    give up there would be seen. What goes wrong on the wire the partners have seen, and is raised.
    """
    try:
        work.method.run(work)
    except (WireError, PartyRefused, PartyLost):
        raise
    except Exception as error:
        if work.method.visibility != "hidden":
            raise
        work.active.versions.load_snapshot(saved)
        reason = str(error).rstrip(".") if isinstance(error, UnlabelError) else why(error)
        return f"Forgetting failed ({reason}); {AGAIN}"
    return ""


def _drift_share(
    before: float | None, at_rate_0: float | None, after: float | None
) -> float | None:
    """Return (before - at rate 0) / (before - after): how much drift alone forgets."""
    if before is None or at_rate_0 is None or after is None or before <= after:
        return None
    return (before - at_rate_0) / (before - after)


@dataclass
class _Clock:
    seconds: float = 0.0


@contextlib.contextmanager
def _timed(active: ActiveParty, recorder: Recorder) -> Iterator[_Clock]:
    """Record what crosses the wire and how long it takes, the device's work included."""
    clock, plain = _Clock(), active.transport
    active.transport = recorder
    started = _time(active)
    try:
        yield clock
        clock.seconds = _time(active) - started
    finally:
        active.transport = plain


def _time(active: ActiveParty) -> float:
    if active.device.type == "cuda":
        torch.cuda.synchronize(active.device)
    return time.perf_counter()
