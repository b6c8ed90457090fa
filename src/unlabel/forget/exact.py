"""Requests that end in the model of a run that never had the labels: the same weights, bit for bit.

    refit    of a blind run: the top is fitted anew, to embeddings that the label holder keeps. No
             message is sent
    restart  of a tuned run: all parties return to the bottoms that were made without labels, and
             are trained together on what stays

What they end in is a function of what stays. The reference is a run on the same people and features
whose forgotten label cells are empty: its list of labels, the parts of its rows, the order of its
batches and its weights are these, in the same environment to the last bit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from unlabel.config import ForgetSettings, RunConfig
from unlabel.data.cells import label_form
from unlabel.errors import ForgetError, PartyLost, SettingsError
from unlabel.forget.exact_methods import EXACT, EXACT_NAMES, Exact, ExactWork, expect_two
from unlabel.forget.execute import Execution, bound_of
from unlabel.forget.method import settings_of
from unlabel.forget.outcome import Change, Result
from unlabel.forget.plan import expect_ready
from unlabel.forget.public_set import PublicSet
from unlabel.forget.request import Request, find_labels, row_finder
from unlabel.forget.run_interface import Run
from unlabel.party import own_randomness
from unlabel.train import Evaluation, Forgotten, evaluate
from unlabel.train.parts import known_labels
from unlabel.wire import Recorder

NO_SAMPLES = PublicSet(
    "main",
    torch.empty(0, dtype=torch.int64),
    torch.empty(0, dtype=torch.int64),
    (),
    False,
    "none: all rows that stay",
)


def plan_exact(
    run: Run,
    *,
    labels: Sequence[str | int] = (),
    ids: Sequence[str] = (),
    settings: ForgetSettings | None = None,
) -> ExactWork:
    """Check a request against a run whose bottoms were made without labels; nothing is changed."""
    settings = settings or ForgetSettings()
    if bool(labels) + bool(ids) != 1:
        raise ForgetError("Say what to forget: labels, or the ids of people, and not both.")
    name, method = _method(run.config, settings)
    run.refresh()
    expect_ready(run, settings)
    holdings, names = run.holdings, run.labels
    if labels:
        numbers = find_labels(_in_one_form(labels, names), names, Forgotten())
        erased = torch.isin(holdings.labels, torch.tensor(numbers)).nonzero()[:, 0].tolist()
        people: list[str] = []
    else:
        numbers, erased = [], _find_people(run, ids)
        people = [str(holdings.ids[row]) for row in erased]
    left, stay = known_labels(holdings.labels, names, erased)
    expect_two(left[holdings.rows.train], stay)
    request = Request(
        labels=tuple(numbers),
        rows=() if labels else tuple(erased),
        names=tuple(names[number] for number in numbers),
        ids=tuple(people),
        secret=settings.secret or method.visibility == "hidden",
        hidden=method.visibility == "hidden",
        **({} if settings.key is None else {"key": settings.key}),
    )
    return ExactWork(
        active=run.active,
        request=request,
        method=method,
        name=name,
        few_shot=0,
        retained=0,
        settings=settings,
        train=holdings.rows.train,
        test=holdings.rows.test,
        names=names,
        earlier=run.forgotten,
        public=NO_SAMPLES,
        training=run.config.train,
        erased=tuple(erased),
        rows=holdings.rows,
        config=run.config,
    )


def _in_one_form(labels: Sequence[str | int], names: Sequence[str]) -> list[str | int]:
    """Return labels as the run calls them, where they are written in another way (01 for 1)."""
    forms = [label_form(str(each)) for each in labels]
    pairs = zip(labels, forms, strict=True)
    return [form if str(each) not in names and form in names else each for each, form in pairs]


def _method(config: RunConfig, settings: ForgetSettings) -> tuple[str, Exact]:
    name, method = EXACT_NAMES[config.bottoms], EXACT[config.bottoms]()
    asked = settings.method
    if asked not in (None, name) and not isinstance(asked, Exact):
        raise ForgetError(
            f"The bottoms of this run are {config.bottoms}, so `{name}` forgets exactly; leave "
            f"--method out."
        )
    if settings.options or settings.preset is not None or settings.public is not None:
        raise SettingsError(f"`{name}` has no settings, presets or public samples; leave them out.")
    if settings.visibility not in (None, method.visibility):
        raise ForgetError(
            f"`{name}` is {method.visibility} and cannot be {settings.visibility}; leave "
            f"--visibility out."
        )
    return name, method


def find_exact(run: Run, ids: Sequence[str]) -> Request:
    """Return the request of people, checked against the run by what lies here alone."""
    rows = _find_people(run, ids)
    return Request(rows=tuple(rows), ids=tuple(str(run.holdings.ids[row]) for row in rows))


def _find_people(run: Run, ids: Sequence[str]) -> list[int]:
    """Return the rows of people, whichever part they are in; each must have a label still."""
    find = row_finder(run.holdings.ids.tolist(), run.config.align)
    places = {text: find(text) for text in ids}
    missing = [text for text in ids if places[text] is None]
    if missing:
        raise ForgetError(
            f"{len(missing)} of {len(ids)} ids are not among the rows that all parties share, the "
            f"first being '{missing[0]}'; nothing was changed.",
            code="unknown-id",
        )
    rows = sorted({row for row in places.values() if row is not None})
    if not rows:
        raise ForgetError("The request names nobody; give at least one id.")
    past = [row for row in rows if int(run.holdings.labels[row]) < 0]
    if past:
        raise ForgetError(
            f"There is no label of '{run.holdings.ids[past[0]]}' to forget: it was forgotten, or "
            f"never known.",
            code="already-forgotten",
        )
    return rows


def execute_exact(work: ExactWork) -> Execution:
    """Carry an exact request out; where it fails, every party is as it was before."""
    active, method, request = work.active, work.method, work.request
    plain, recorder = active.transport, Recorder(active.transport)
    saved = active.versions.snapshot()
    try:
        with own_randomness(active.device):
            before = _measured(work)
            active.transport, started = recorder, time.perf_counter()
            method.run(work)
            if active.device.type == "cuda":
                torch.cuda.synchronize(active.device)
            seconds = time.perf_counter() - started
            active.transport = plain
            after = _measured(work)
    except BaseException:
        active.transport = plain
        with contextlib.suppress(PartyLost):  # recovery returns all to a version
            work.undo(saved)
        raise
    sent = recorder.transcripts.values()
    labels = len(work.names)
    result = Result(
        request=request.id,
        method=work.name,
        settings=settings_of(method),
        labels=request.names,
        people=len(request.rows),
        steps=work.total,
        seconds=seconds,
        retained_accuracy=Change(before[0], after[0]),
        forgotten_accuracy=Change(before[1], after[1]),
        confidence=Change(before[2], after[2]) if request.rows else None,
        transcript_bytes=sum(t.total_bytes("received") + t.total_bytes("sent") for t in sent),
        few_shot=0,
        retained_samples=0,
        public=work.public.source,
        disclosed=False,
        suspects=(),
        duplicates=0,
        drift_share=None,
        tells_partners=method.tells_partners,
        control=False,
        still_known=False,
        visibility=method.visibility,
        aim=method.aim,
        failed="",
        privacy=bound_of(method.account, labels),
    )
    timelines = {name: record.timeline() for name, record in recorder.transcripts.items()}
    return Execution(result, saved, timelines)


def _measured(work: ExactWork) -> tuple[float | None, float | None, float | None]:
    """Return accuracy on what stays and on what goes, and the confidence in people's labels."""
    active, request = work.active, work.request
    tested = evaluate(active, work.test, work.label_count)
    stay = [number for number in range(work.label_count) if number not in request.labels]
    if not request.rows:
        return tested.accuracy_on(stay), tested.accuracy_on(request.labels), None
    # All rows are asked for, so that none is named by it.
    every = active.logits(torch.arange(len(active.labels), device=active.device))
    rows = torch.tensor(request.rows, device=every.device)
    old = active.labels[rows]
    chances = every[rows].softmax(1)
    sure = chances.gather(1, old[:, None]).mean().item()
    kept = _accuracy_without(tested, every, work)
    return kept, (chances.argmax(1) == old).float().mean().item(), sure


def _accuracy_without(tested: Evaluation, logits: Tensor, work: ExactWork) -> float | None:
    """Return the accuracy on test rows of everybody else."""
    test = work.test[~torch.isin(work.test, torch.tensor(work.erased))].to(logits.device)
    labels = work.active.labels[test]
    known = labels >= 0
    if not known.any():
        return tested.accuracy
    return (logits[test][known].argmax(1) == labels[known]).float().mean().item()
