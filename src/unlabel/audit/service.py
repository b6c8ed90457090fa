"""A run's audits: look at the models of a request, measure, and name the depth reached."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import nn

from unlabel._version import __version__
from unlabel.audit.attacks.moved_rows import moved_attacks
from unlabel.audit.binding import bind
from unlabel.audit.case import Case, find_case
from unlabel.audit.committable import expect_no_better
from unlabel.audit.compare import compare
from unlabel.audit.construction import depth_by, judge_construction
from unlabel.audit.exact import (
    PURGED,
    Subject,
    evidence,
    exact_subject,
    recipe_parts,
    retrain,
)
from unlabel.audit.facts import AuditFacts, ForgettingCost, transfers_from_json
from unlabel.audit.gate import depth_of, judge
from unlabel.audit.gate_people import demanded_of_people, judge_people
from unlabel.audit.observation import PARTS, SAMPLED, Observation, observe
from unlabel.audit.people import (
    MEASURES_OF_PEOPLE,
    measures_of,
    only_people,
    pictures_of_people,
)
from unlabel.audit.people_request import (
    ELSEWHERE,
    NO_REFERENCES,
    people_subject,
    unknown_of_people,
)
from unlabel.audit.pictures import picture_data
from unlabel.audit.privacy import Privacy
from unlabel.audit.references import Trainings, matched_epochs, refitted
from unlabel.audit.unknown import unknown_of
from unlabel.audit.verdict import AUDIT, MODELS, Verdict
from unlabel.config import AuditSettings, TrainSettings
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError
from unlabel.files import write_atomically
from unlabel.forget import Run, Transaction
from unlabel.forget.transaction import NOTHING
from unlabel.models.registry import top_of
from unlabel.models.tops import Top
from unlabel.party import ActiveParty
from unlabel.party.deciding import deciding
from unlabel.progress import Watch, watch_nothing
from unlabel.train import Conduct, Training, Watcher, assemble

NO_DATA = (
    "Models to compare with are trained where all parties' data lies, and in a federation every "
    "party keeps its own; leave --retrained out."
)


def audit(
    run: Run,
    *,
    retrained: int = 0,
    demand: AuditSettings | None = None,
    watch: Watch = watch_nothing,
) -> Verdict:
    """Judge the staged request, or the last one that was committed, and keep the verdict.

    retrained  how many models to retrain without the labels and to compare with; those of an
               earlier audit are used again. It needs all parties' data in this process
    demand     thresholds, where they differ from the run's own
    """
    started = time.monotonic()
    if retrained and run.is_remote and run.config.bottoms != "blind":
        raise ForgetError(NO_DATA)
    case = find_case(run)
    request, conduct = case.request, case.request.conduct
    every = Subject(run.holdings.labels, run.labels, run.holdings.rows)
    if case.state == "rolled-back":
        # Partners cannot tell this request from one that was kept, and the audit of it is no help.
        _models(run, case, every, watch)
        raise ForgetError(f"The last request was rolled back, or was about nothing. {NOTHING}")
    names, exact = request.labels, conduct.guarantee == "exact"
    if not names and not request.is_about_people:
        _models(run, case, every, watch)  # the same messages as of any other hidden request
        raise ForgetError("The request is about nothing, so there is nothing to judge; drop it.")
    limits = demand or run.config.audit
    measured_people = not names and not exact
    if measured_people and run.is_remote:
        raise ForgetError(ELSEWHERE)
    numbers = () if exact else tuple(run.labels.index(name) for name in names)
    subject = exact_subject(run, case) if exact else replace(every, numbers=numbers)
    if measured_people:
        subject = people_subject(run, case)
        usual = limits is run.config.audit
        limits = replace(limits, demand=demanded_of_people(limits.demand)) if usual else limits
    labels = subject.numbers
    layers: dict[str, tuple[float, ...]] = {}
    models = _models(run, case, subject, watch, layers)
    expect_no_better(run, case)  # now, since partners are asked the same of any request
    if names and not torch.isin(subject.labels, torch.tensor(labels)).any():
        raise ForgetError(PURGED, code="purged")
    trainings = _trainings(run, case, subject, watch)
    references = trainings.seen(retrained)
    if measured_people and not references:
        raise ForgetError(NO_REFERENCES)
    passes = matched_epochs(run, conduct, case.facts.forgotten) if names and not exact else 0
    matched = trainings.seen(retrained, epochs=passes) if passes else []
    tops = _refitted(run, case, subject, models["forgotten"], watch)
    models["forgotten"] = replace(models["forgotten"], every=None)  # of many rows that is much
    observed: dict[str, list[Observation]] = {name: [one] for name, one in models.items()}
    groups = {"retrained": references, "matched": matched}
    observed |= {name: [one for one, _ in some] for name, some in groups.items() if some}
    observed |= {"refitted": tops} if tops else {}
    first = {name: several[0] for name, several in observed.items() if name in MODELS}
    facts = _facts(run, subject, conduct, models["forgotten"])
    people = 0
    if names:
        measures = compare(observed, labels, watch=watch)
        watch(0, 1, "pictures")
        pictures = picture_data(first, labels, subject.names)
    else:
        people = len(subject.erased)
        chosen = measures_of(people) if measured_people else MEASURES_OF_PEOPLE
        measures = compare(observed, (), measures=chosen, watch=watch)
        if measured_people:
            first = {name: only_people(one, people) for name, one in first.items()}
        pictures = pictures_of_people(first, subject.names)
    if exact:
        facts = replace(facts, construction=evidence(run, case, subject))
        findings = judge_construction(facts.construction, names, people)
        depth = depth_by(findings)
    else:
        facts = replace(facts, unchanged=_unchanged(run, case, models))
        findings = judge(measures, limits, facts.unchanged)
        if measured_people:
            findings = judge_people(measures, limits, people, facts.unchanged)
        depth = depth_of(findings)
    attacks = None
    if "original" in models and names:
        watch(0, 1, "attacks by rows that moved")
        attacks = moved_attacks(models["original"], models["forgotten"], labels)
    verdict = Verdict(
        request=request.id,
        labels=names,
        people=people,
        state=case.state,
        visibility=conduct.visibility,
        guarantee="exact" if exact and depth == "bottoms" else "measured",
        method=request.method,
        settings=dict(conduct.settings),
        depth=depth,
        demanded=limits.demand,
        findings=tuple(findings),
        measures=measures,
        pictures=pictures,
        privacy=Privacy.of(conduct, len(subject.names), attacks),
        messages=transfers_from_json(conduct.messages),
        unknown=(
            *((unknown_of_people(people),) if measured_people else ()),
            *unknown_of(conduct, "original" not in models, bool(references), facts),
        ),
        thresholds=limits,
        facts=replace(
            facts,
            seconds=round(time.monotonic() - started, 1),
            retrained=len(references),
            references=tuple(content for _, content in (*references, *matched)),
            matched=passes if matched else 0,
            refitted=len(tops),
            layers=layers,
        ),
    )
    watch(1, 1, "writing the verdict")
    # With the active party, since it names the labels.
    path = run.folder / ACTIVE / AUDIT
    versions = run.active.versions
    with deciding(path.parent):
        write_atomically(path, json.dumps(verdict.to_json(), indent=1).encode(), mode=0o600)
        bind(versions.ledger, path, versions.store.store_with(case.after).digest(case.after))
    return verdict


def _models(
    run: Run,
    case: Case,
    subject: Subject,
    watch: Watch = watch_nothing,
    layers: dict[str, tuple[float, ...]] | None = None,
) -> dict[str, Observation]:
    """Observe the models before and after; the same messages whatever the labels are.

    layers  is given what parties tell of their inner layers, where the run's settings ask for that
    """
    active = run.active
    models: dict[str, Observation] = {}
    try:
        for name, version in (("original", case.before), ("forgotten", case.after)):
            if version is not None:
                active.versions.restore(version)
                every = name == "forgotten"
                models[name] = _observe(active, case, subject, watch, every=every)
        if run.config.audit.layers and case.before is not None and run.config.bottoms != "blind":
            alike = active.versions.compare_layers(case.before)
            if layers is not None:
                layers |= alike
    finally:
        run.refresh(afresh=True)
        if run.undecided is not None:  # made in this process, and still what it predicts by
            active.versions.restore(case.after)
    if "original" in models and subject.numbers:
        models["mask"] = models["original"].masked(subject.numbers)
    return models


def _observe(
    active: ActiveParty, case: Case, subject: Subject, watch: Watch, *, every: bool = False
) -> Observation:
    """Observe a model, without the rows of labels that were forgotten earlier."""
    names = subject.names
    with subject.seen_by(active):
        whole = subject.is_of_people
        model = observe(active, subject.rows, names, whole=whole, every=every, watch=watch)
    earlier = [n for n in case.facts.forgotten.labels if names[n] not in case.request.labels]
    return replace(model, train=model.train.without(earlier), test=model.test.without(earlier))


def _unchanged(run: Run, case: Case, models: Mapping[str, Observation]) -> tuple[str, ...]:
    """Return the passive parties whose models are the same as before.

    A file of weights from training also holds the optimiser's state, so that its hash changes
    where no weight did; then the embeddings of every row tell.
    """
    if "original" not in models or case.before is None:
        return ()
    weights = Transaction(run.active).facts(case.before).parties
    old, new = models["original"], models["forgotten"]
    pairs = [(getattr(old, p).embeddings, getattr(new, p).embeddings) for p in PARTS]
    return tuple(
        party
        for party in run.active.parties
        if weights.get(party) == case.facts.parties.get(party)
        or all(torch.equal(before[party], after[party]) for before, after in pairs)
    )


def _trainings(run: Run, case: Case, subject: Subject, watch: Watch) -> Trainings:
    """Return how models without the labels are trained and looked at."""

    def train(settings: TrainSettings, work: Path, watcher: Watcher) -> ActiveParty:
        if subject.exact:
            return retrain(run, case, settings.seed, work)
        # The rows stay: another seed for the models, the same data to judge them on.
        holdings = replace(run.holdings, config=replace(run.config, train=settings))
        # With versions of its own, to stop early where the original would.
        active, _ = assemble(holdings, folder=work)
        rows = run.holdings.rows_without(case.facts.forgotten)
        watchers = (watcher,)
        Training(active, rows, settings, labels=len(run.labels), watchers=watchers).run()
        return active

    more = recipe_parts(run, subject) if subject.exact else []
    more += [{"first": subject.erased}] if subject.is_of_people and not subject.exact else []
    more += [{"seen": SAMPLED}] if len(run.holdings.labels) > SAMPLED else []

    def look(active: ActiveParty) -> Observation:
        return _observe(active, case, subject, watch)

    return Trainings(run, case.facts, more, subject.names, train, look, watch)


def _refitted(
    run: Run, case: Case, subject: Subject, seen: Observation, watch: Watch
) -> list[Observation]:
    """Return tops refitted to what was seen of the new model; none where that cannot be done.

    Of an exact request the construction decides, and of people whole labels say nothing.
    """
    if subject.exact or not subject.numbers:
        return []
    forgotten = (*subject.numbers, *case.facts.forgotten.labels)
    with suppress(ForgetError):  # a top that cannot be drawn anew cannot be judged
        rows = len(run.holdings.rows.train)
        return refitted(run.config.train, run.active.top, seen, forgotten, rows, watch)
    return []


def _facts(run: Run, subject: Subject, conduct: Conduct, seen: Observation) -> AuditFacts:
    rows = run.holdings.rows
    sampled = len(run.holdings.labels) > SAMPLED and not subject.is_of_people
    parts = {"train": seen.train, "test": seen.test}
    observed = {name: len(part) for name, part in parts.items()}
    observed |= {f"{n} of the label": len(p.of(subject.numbers)) for n, p in parts.items()}
    top = run.active.top.module
    linear = isinstance(top, Top) and isinstance(top.head, nn.Linear)
    return AuditFacts(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        versions={
            "unlabel": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        rows={"train": len(rows.train), "test": len(rows.test), "public": len(rows.public)},
        observed=observed if sampled else {},
        parties=tuple(party for party in run.active.embedded if party != ACTIVE),
        labels=len(subject.names),
        top="linear" if linear else top_of(run.config.model),
        retrained=0,
        forgetting=ForgettingCost(conduct.steps, conduct.seconds, conduct.transcript_bytes),
    )
