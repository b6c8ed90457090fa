"""Check a request against the run, and make it work for a method; nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from unlabel.config import ForgetSettings
from unlabel.data import ACTIVE, Features
from unlabel.errors import ForgetError
from unlabel.forget.anchors import make_anchors, named_by_model
from unlabel.forget.method import Method
from unlabel.forget.public_set import (
    PublicSet,
    public_from_training,
    read_public,
    read_unlabelled,
)
from unlabel.forget.request import Request, find_labels, find_people
from unlabel.forget.run_interface import Run
from unlabel.forget.settings import choose_method, expect_remote
from unlabel.forget.transaction import Transaction, request_open
from unlabel.forget.work import Work
from unlabel.party import ActiveParty
from unlabel.train import Forgotten, VersionFacts
from unlabel.train.label_record import UNKNOWN, LabelRecord
from unlabel.train.progress import expect_finished


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
        expect_remote(settings)
    if settings.public_from != "labelled" and ids:
        raise ForgetError("Training again needs no public samples; leave --public-from out.")
    name, chosen = choose_method(settings, people=bool(ids))
    method = chosen.method
    # First by what lies here: what is refused anyway costs no message, whatever it is about.
    _request(run, labels, ids, settings, method, _forgotten_here(run))
    run.refresh()
    expect_ready(run, settings)
    request = _request(run, labels, ids, settings, method, run.forgotten)
    others = tuple(n for n in run.forgotten.labels if n not in request.labels)
    active, public = _samples(run, settings, max(chosen.few_shot, chosen.retained))
    rows = run.holdings.rows
    work = Work(
        active=active,
        request=request,
        method=method,
        name=name,
        few_shot=chosen.few_shot,
        retained=chosen.retained,
        settings=settings,
        train=rows.train,
        test=rows.test,
        names=run.labels,
        earlier=replace(run.forgotten, labels=others),
        public=public,
        training=run.config.train,
        kept_epoch=_kept_epoch(run),
    )
    expect_fits(work)
    _expect_undisclosing(run, work)
    return work


def expect_ready(run: Run, settings: ForgetSettings) -> None:
    """Raise where a request waits, or the model is not one that is finished."""
    if run.undecided is not None:
        raise request_open(run.undecided.result.request)
    Transaction(run.active).expect_settled()
    if run.version is None:
        raise ForgetError("Nothing was trained yet, so there is nothing to forget; train first.")
    if not settings.allow_unfinished:
        expect_finished(run.active.versions.facts(run.version), "unlabel train --resume")


def _kept_epoch(run: Run) -> int:
    """Return the epoch that early stopping returned to, 0 where the training went to its end."""
    assert run.version is not None
    progress = VersionFacts.from_json(run.active.versions.facts(run.version)).progress
    if progress is None or not progress.history or not run.config.train.patience:
        return 0
    return progress.most_accurate().epoch


def _request(
    run: Run,
    labels: Sequence[str | int],
    ids: Sequence[str],
    settings: ForgetSettings,
    method: Method,
    forgotten: Forgotten,
) -> Request:
    """Find what is to be forgotten among the labels and people of the run.

    forgotten  by earlier requests
    """
    holdings, names = run.holdings, run.labels
    numbers = find_labels(labels, names, forgotten, deepen=settings.deepen) if labels else []
    known = [str(text) for text in holdings.ids.tolist()]
    train, align = holdings.rows.train.tolist(), run.config.align
    rows = find_people(ids, known, train, align) if ids else []
    still = [label for label in forgotten.labels if label not in numbers]
    still.append(UNKNOWN)
    past = [row for row in rows if row in forgotten.rows or int(holdings.labels[row]) in still]
    if past:
        raise ForgetError(
            f"The label of '{known[past[0]]}' was already forgotten.", code="already-forgotten"
        )
    hidden = method.visibility == "hidden"
    return Request(
        labels=tuple(numbers),
        rows=tuple(rows),
        names=tuple(names[n] for n in numbers),
        ids=tuple(known[row] for row in rows),
        secret=settings.secret or hidden,
        hidden=hidden,
        **({} if settings.key is None else {"key": settings.key}),
    )


def find_request(run: Run, ids: Sequence[str]) -> Request:
    """Return the request of people, checked against the run by what lies here alone."""
    settings = ForgetSettings()
    method = choose_method(settings, people=True)[1].method
    return _request(run, (), ids, settings, method, _forgotten_here(run))


def _forgotten_here(run: Run) -> Forgotten:
    """Return what the active party's newest version has forgotten, without a message."""
    store = run.active.versions.store
    versions = store.versions()
    return VersionFacts.from_json(store.facts(versions[-1])).forgotten if versions else Forgotten()


def expect_fits(work: Work) -> None:
    """Raise where the method cannot carry the request out, or would tell what is to stay secret."""
    request, method, name = work.request, work.method, work.name
    # Public samples that gradients single out are no secret; people in the training rows are.
    trained = method.disclosure.rows - {"public"}
    if request.secret and (method.disclosure.names_rows() or (method.shows_rows and trained)):
        raise ForgetError(
            f"Method '{name}' names the forgotten rows to every partner "
            f"({method.tells_partners}), so the request would not be secret; choose another method "
            f"or setting.",
            code="not-secret",
        )
    # The labels of the request count too: a refusal must not depend on which they are.
    there = {*work.public.labels.tolist(), *work.earlier.labels}
    missing = [label for number, label in enumerate(work.names) if number not in there]
    moves_by_all = method.visibility == "hidden" and "public" in method.disclosure.gradients
    if missing and (method.needs == "public" or moves_by_all):
        raise ForgetError(
            f"The public set has no sample of label '{missing[0]}'; give more with --public, take "
            f"--public-from anchors, or train with `public: 0` to use training rows."
        )
    if method.visibility == "hidden" and not method.is_silent and (work.public.labels < 0).any():
        # A head fitted without them would show the partners which labels those were.
        raise ForgetError(
            "Noise needs the labels of all public samples, and those of some were forgotten and "
            "purged; leave `noise` out, or give other samples with --public."
        )


def _expect_undisclosing(run: Run, work: Work) -> None:
    """Raise where gradients through the top could show what it forgot in a hidden request."""
    quiet = work.method.visibility == "hidden" or not work.method.disclosure.gradients
    waits = "use `hidden` again,"
    if work.request.rows:
        waits = "let it wait for the next full training, which shows nothing before (--defer DAY),"
    if not quiet and not work.settings.allow_disclosure and has_hidden(run):
        raise ForgetError(
            f"A hidden request was made, and method '{work.name}' sends gradients through the top, "
            f"which show partners what it has forgotten; {waits} or add --allow-disclosure if they "
            f"may know."
        )


def has_hidden(run: Run) -> bool:
    """Return whether a hidden request was made, be it kept, dropped or about nothing.

    All three count: were training refused after one that was kept alone, its absence would tell.
    """
    return any(entry.note.get("hidden") for entry in run.active.versions.ledger.entries())


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


def _public(run: Run, path: str | Path | None, per_label: int, *, labelled: bool) -> PublicSet:
    """Return the public set: from files, set aside before training, or from the training rows.

    labelled  whether labels of files are looked at; they may have none
    """
    holdings = run.holdings
    if path is not None:
        if labelled:
            read = read_public(run.config, Path(path), holdings.names, holdings.encodings)
            features, labels, ids = read
        else:
            features, ids = read_unlabelled(run.config, Path(path), holdings.encodings)
            labels = torch.zeros(len(ids), dtype=torch.int64)
        run.hand_over("public", features)
        rows = torch.arange(len(labels))
        trained = _trained_on(run, features)
        source = f"the files at {path}" + (", training rows among them" if trained else "")
        return PublicSet("public", rows, labels, ids, trained, source)
    return own_public(run, per_label)


def own_public(run: Run, per_label: int) -> PublicSet:
    """Return the public set of the run's own rows, set aside before training or not."""
    holdings, record = run.holdings, LabelRecord.read(run.folder / ACTIVE)
    known, aside = [str(text) for text in holdings.ids.tolist()], holdings.rows.public
    kept = {} if record is None else record.samples
    if len(aside):
        ids = tuple(known[row] for row in aside.tolist())
        source, labels = "rows set aside before training", holdings.labels[aside]
        return PublicSet("main", aside, labels, ids, False, source, name="aside", kept=kept)
    # Always the same rows: were one left out, and another in its place, that would name it.
    seed, train = run.config.train.seed, holdings.rows.train
    drawn = public_from_training(holdings.labels, known, train, per_label, seed=seed, kept=kept)
    return replace(drawn, forgotten=torch.isin(drawn.rows, torch.tensor(run.forgotten.rows)))


def keep_samples(run: Run, public: PublicSet) -> None:
    """Keep which of the run's own rows requests ask for, so that it stays so after a purge."""
    home = run.folder / ACTIVE
    record = LabelRecord.read(home) if public.name else None
    if record is not None and public.name not in record.samples:
        rows = public.balanced().rows.numpy()
        replace(record, samples={**record.samples, public.name: rows}).write(home)


def _trained_on(run: Run, features: Mapping[str, Features]) -> bool:
    """Return whether some public sample has, at every party, the features of a training row."""
    matches = []
    for name, part in features.items():
        trained = run.holdings.features[name].values[run.holdings.rows.train]
        rows = {row.tobytes() for row in trained.cpu().numpy()}
        matches.append([row.tobytes() in rows for row in part.values.cpu().numpy()])
    return any(all(same) for same in zip(*matches, strict=True))
