"""From what somebody asks for to a request that can be carried out; nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from unlabel.data import Features
from unlabel.errors import ForgetError
from unlabel.forget.anchors import make_anchors, named_by_model
from unlabel.forget.files import read_public, read_unlabelled
from unlabel.forget.method import Method
from unlabel.forget.protocol import Run
from unlabel.forget.public import PublicSet, public_from_training
from unlabel.forget.request import Request, find_labels, find_people
from unlabel.forget.settings import ForgetSettings
from unlabel.forget.transaction import Transaction
from unlabel.forget.work import Work
from unlabel.party import ActiveParty
from unlabel.train import Forgotten, VersionFacts
from unlabel.train.unfinished import expect_finished


def plan(
    run: Run,
    *,
    labels: Sequence[str | int] = (),
    ids: Sequence[str] = (),
    settings: ForgetSettings | None = None,
    dummy: bool = False,
) -> Work:
    """Check a request against the run, and return it as work for its method.

    labels  by name or number
    ids     of people whose labels are to be forgotten, in place of whole labels
    dummy   forget nothing, in the same words as a hidden request
    """
    settings = settings or ForgetSettings()
    if bool(labels) + bool(ids) + dummy != 1:
        raise ForgetError("Say what to forget: labels, or the ids of people, and not both.")
    if run.is_remote:
        settings.expect_remote()
    if settings.public_from != "labelled" and ids:
        raise ForgetError(
            "The labels of people are held against public samples whose labels are known; leave "
            "--public-from out."
        )
    name, chosen = settings.choose(people=bool(ids))
    method = chosen.method
    # First by what lies here: what is refused anyway costs no message, whatever it is about.
    _request(run, labels, ids, settings, method, _forgotten_here(run))
    run.refresh()
    _expect_ready(run, settings)
    request = _request(run, labels, ids, settings, method, run.forgotten)
    numbers = set(request.labels)
    earlier = run.forgotten
    earlier = replace(earlier, labels=tuple(n for n in earlier.labels if n not in numbers))
    active, public = _samples(run, settings, max(chosen.few_shot, chosen.retained))
    rows = run.holdings.rows
    work = Work(
        active=active,
        request=request,
        method=method,
        name=name,
        few_shot=chosen.few_shot,
        retained_shots=chosen.retained,
        settings=settings,
        train=rows.train,
        test=rows.test,
        names=run.labels,
        earlier=earlier,
        public=public,
        training=run.config.train,
    )
    expect_fits(work)
    _expect_undisclosing(run, work)
    return work


def _expect_ready(run: Run, settings: ForgetSettings) -> None:
    """Raise where a request waits, or the model is not one that is finished."""
    if run.undecided is not None:
        raise ForgetError(
            f"Request {run.undecided.result.request} is staged; commit it or roll it back first."
        )
    transaction = Transaction(run.active)
    transaction.expect_settled()
    if run.version is None:
        raise ForgetError("Nothing was trained yet, so there is nothing to forget; train first.")
    if not settings.allow_unfinished:
        expect_finished(run.active.versions.facts(run.version), "unlabel train --resume")


def _request(
    run: Run,
    labels: Sequence[str | int],
    ids: Sequence[str],
    settings: ForgetSettings,
    method: Method,
    gone: Forgotten,
) -> Request:
    """Find what is to be forgotten among the labels and people of the run.

    gone  what was forgotten before
    """
    holdings, names = run.holdings, run.labels
    numbers = find_labels(labels, names, gone, again=settings.deepen) if labels else []
    known = [str(text) for text in holdings.ids.tolist()]
    rows = find_people(ids, known, holdings.rows.train.tolist()) if ids else []
    still = [label for label in gone.labels if label not in numbers]
    past = [row for row in rows if row in gone.rows or int(holdings.labels[row]) in still]
    if past:
        raise ForgetError(f"The label of '{known[past[0]]}' was already forgotten.")
    hidden = method.mode() == "hidden"
    return Request(
        labels=tuple(numbers),
        rows=tuple(rows),
        names=tuple(names[n] for n in numbers),
        ids=tuple(known[row] for row in rows),
        secret=settings.secret or hidden,
        hidden=hidden,
        cover=(settings.key or run.cover_secret.key(rows)) if rows else "",
        **({} if settings.key is None else {"key": settings.key}),
    )


def _forgotten_here(run: Run) -> Forgotten:
    """Return what the active party's own newest version has forgotten; nobody is asked."""
    store = run.active.versions.store
    own = store.versions()
    return VersionFacts.from_json(store.facts(own[-1])).forgotten if own else Forgotten()


def expect_fits(work: Work) -> None:
    """Raise where the method cannot carry the request out, or would tell what is to stay secret."""
    request, method, name = work.request, work.method, work.name
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
    _expect_public(work)
    if method.people and work.public.disclosed:
        raise ForgetError(
            f"Method '{name}' compares with people nobody trained on, but the public set holds "
            f"training rows; give others with --public."
        )
    assert work.among is not None  # drawn here: a cover that does not fit is refused


def _expect_public(work: Work) -> None:
    """Raise where the public set lacks a label, and the method is to learn all it knows there.

    The labels of the request count too: a refusal must not depend on which they are.
    """
    if work.method.needs() != "public":
        return
    there = {*work.public.labels.tolist(), *work.earlier.labels}
    missing = [name for number, name in enumerate(work.names) if number not in there]
    if missing:
        raise ForgetError(
            f"The public set has no sample of label '{missing[0]}'; give more with --public, take "
            f"--public-from anchors, or train with `public: 0` to use training rows."
        )


def _expect_undisclosing(run: Run, work: Work) -> None:
    """Raise where gradients through the top would show what it forgot in a hidden request."""
    quiet = work.method.mode() == "hidden" or not work.method.tells().gradients
    if not quiet and not work.settings.allow_disclosure and has_hidden(run):
        raise ForgetError(
            f"Method '{work.name}' sends gradients through a top that has forgotten in hiding, "
            f"which would show partners what; use `hidden` again, or add --allow-disclosure."
        )


def has_hidden(run: Run) -> bool:
    """Return whether the model has forgotten something that partners are not to know."""
    entries = run.active.versions.ledger.entries()
    return any(e.event == "commit" and e.note.get("hidden") for e in entries)


def _samples(run: Run, settings: ForgetSettings, per_label: int) -> tuple[ActiveParty, PublicSet]:
    """Return the public set of a request, and the active party as it sees it."""
    source = settings.public_from
    if source == "anchors":
        return make_anchors(
            run.active,
            run.holdings.rows.train,
            len(run.labels),
            seed=run.config.train.seed,
            unused=run.forgotten.rows,
            per_label=per_label,
        )
    public = _public(run, settings.public, per_label, labelled=source == "labelled")
    if source == "pseudo":
        public = named_by_model(run.active, public)
    return run.active, public


def _public(
    run: Run, path: str | Path | None, per_label: int, *, labelled: bool = True
) -> PublicSet:
    """Return the public set: from files, set aside before training, or from the training rows.

    labelled  whether labels of files are looked at; they may have none
    """
    holdings = run.holdings
    known = [str(text) for text in holdings.ids.tolist()]
    if path is not None:
        if labelled:
            features, labels, ids = read_public(
                run.config, Path(path), holdings.names, holdings.encodings
            )
        else:
            features, ids = read_unlabelled(run.config, Path(path), holdings.encodings)
            labels = torch.zeros(len(ids), dtype=torch.int64)
        run.hand_over("public", features)
        rows = torch.arange(len(labels))
        trained = _trained_on(run, features)
        source = f"the files at {path}" + (", training rows among them" if trained else "")
        return PublicSet("public", rows, labels, ids, trained, source)
    aside = holdings.rows.public
    if len(aside):
        ids = tuple(known[row] for row in aside.tolist())
        source = "rows set aside before training"
        return PublicSet("main", aside, holdings.labels[aside], ids, False, source)
    # Always the same rows: were one left out, and another in its place, that would name it.
    drawn = public_from_training(
        holdings.labels, known, holdings.rows.train, per_label, seed=run.config.train.seed
    )
    return replace(drawn, gone=torch.isin(drawn.rows, torch.tensor(run.forgotten.rows)))


def _trained_on(run: Run, features: Mapping[str, Features]) -> bool:
    """Return whether some public sample has, at every party, the features of a training row."""
    found: Tensor | None = None
    for name, part in features.items():
        own = run.holdings.features[name].values[run.holdings.rows.train]
        rows = {row.tobytes() for row in own.cpu().numpy()}
        same = torch.tensor([row.tobytes() in rows for row in part.values.cpu().numpy()])
        found = same if found is None else found & same
    return found is not None and bool(found.any())
