"""A run's audits: look at the models of a request, measure, and name the level reached."""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unlabel._version import __version__
from unlabel.audit.compare import compare
from unlabel.audit.facts import AuditFacts, ForgettingCost, transfers_from_json
from unlabel.audit.gate import NO_RETRAINED, judge, level_of
from unlabel.audit.kept import keep_seen, kept_seen
from unlabel.audit.partner_attacks import moved_attacks
from unlabel.audit.pictures import picture_data
from unlabel.audit.privacy import Privacy
from unlabel.audit.seen import Seen, look
from unlabel.audit.verdict import Verdict, reaches
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, RunError
from unlabel.files import sha256, write_atomically
from unlabel.forget import Run, Transaction, Watch, watch_nothing
from unlabel.forget.transaction import NOTHING
from unlabel.models.tops import Top
from unlabel.party import ActiveParty
from unlabel.train import (
    AuditSettings,
    Conduct,
    Forgotten,
    RequestFacts,
    Training,
    VersionFacts,
    assemble,
)
from unlabel.train.facts import staged_in

#: Where the active party keeps the last audit, and what it saw of retrained models.
AUDIT, RETRAINED = "audit.json", "retrained"
#: How references are seeded; those of another rule are not used again.
SEEDS = "seeds of their own"
NO_DATA = (
    "Models to compare with are trained where all parties' data lies, and in a federation every "
    "party keeps its own; leave --retrained out."
)
PEOPLE = (
    "An audit judges the forgetting of whole labels, and a report shows an audit; what became of "
    "people's labels `unlabel forget` has said"
)
#: What to do instead, by the state of the request.
NEXT_FOR_PEOPLE = {
    "staged": "decide by that, with `unlabel commit` or `unlabel rollback`.",
    "committed": "`unlabel certificate` has every party sign what it did.",
}


@dataclass(frozen=True)
class Case:
    """A request to be audited: the facts of the version it made, and the versions around it.

    state   staged, committed or rolled-back
    before  None where it was purged
    """

    facts: VersionFacts
    request: RequestFacts
    state: str
    before: int | None
    after: int


def find_case(run: Run) -> Case:
    """Return the request that waits, else the last one that was committed."""
    run.refresh()
    transaction = Transaction(run.active)
    transaction.expect_together()
    versions = run.active.versions.common()
    staged = transaction.staged_version()
    if staged is not None and staged.request is not None:
        after = transaction.store.staged.versions()[-1]
        return Case(staged, staged.request, "staged", versions[-1], after)
    facts = transaction.facts(versions[-1]) if versions else VersionFacts()
    if facts.request is None:
        raise ForgetError(f"There is nothing to audit. {NOTHING}")
    after = versions[-1]
    before = after - 1 if after - 1 in versions else None
    state = "rolled-back" if facts.request.dropped else "committed"
    return Case(facts, facts.request, state, before, after)


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
    if retrained and run.is_remote:
        raise ForgetError(NO_DATA)
    case = find_case(run)
    request, conduct = case.request, case.request.conduct
    if case.state == "rolled-back":
        # Partners cannot tell this request from one that was kept, and the audit of it is no help.
        _models(run, case, ())
        raise ForgetError(f"The last request was rolled back, or was about nothing. {NOTHING}")
    names = request.labels
    if not names and not request.is_about_people:
        _models(run, case, ())  # the same messages as of any other hidden request
        raise ForgetError("The request is about nothing, so there is nothing to judge; drop it.")
    if not names:
        raise ForgetError(f"{PEOPLE}: {NEXT_FOR_PEOPLE[case.state]}")
    labels = tuple(run.labels.index(name) for name in names)
    limits = demand or run.config.audit
    models = _models(run, case, labels)
    references = _references(run, case, retrained, watch)
    seen: dict[str, list[Seen]] = {name: [one] for name, one in models.items()}
    if references:
        seen["retrained"] = references
    measures = compare(seen, labels, watch=watch)
    findings = judge(measures, limits)
    first = {name: several[0] for name, several in seen.items()}
    verdict = Verdict(
        request=request.id,
        labels=names,
        people=0,
        state=case.state,
        mode=conduct.mode,
        method=request.method,
        settings=dict(conduct.settings),
        level=level_of(findings),
        demanded=limits.demand,
        findings=tuple(findings),
        measures=measures,
        pictures=picture_data(first, labels, run.labels),
        privacy=_privacy(conduct, len(run.labels), models, labels),
        messages=transfers_from_json(conduct.messages),
        unknown=tuple(_unknown(case, models, references)),
        thresholds=limits,
        facts=_facts(run, conduct, len(references), time.monotonic() - started),
    )
    path = audit_path(run)
    write_atomically(path, json.dumps(verdict.to_json(), indent=1).encode(), mode=0o600)
    return verdict


def audit_path(run: Run) -> Path:
    """Return where the last audit is kept: with the active party, since it names the labels."""
    return run.folder / ACTIVE / AUDIT


@dataclass(frozen=True)
class Audited:
    """What the last audit of a request found, and what is demanded.

    Demanded is what the run demands, or what the audit did where that was deeper.
    """

    level: str
    demanded: str

    @property
    def passed(self) -> bool:
        """Whether the level that was found is deep enough."""
        return reaches(self.level, self.demanded)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as a ledger holds it."""
        return {"level": self.level, "demanded": self.demanded}


def audited(folder: Path, demand: str, request: str | None) -> Audited | None:
    """Return what the last audit in a run's folder found, if it is one of this request.

    demand  what the run demands
    """
    path = folder / ACTIVE / AUDIT
    if request is None or not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        if str(found["request"]) != request:
            return None
        level, asked = str(found["level"]), str(found["demanded"])
        deeper = Audited(level, asked if reaches(asked, demand) else demand)
        reaches(level, deeper.demanded)  # an unknown level is no level
        return deeper
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"'{path}' cannot be read; run `unlabel audit` again.") from error


def expect_committable(
    folder: Path, demand: str, request: str | None, *, force: bool
) -> dict[str, Any]:
    """Return what an audit said of the request that waits in a folder, for the ledger.

    Raise where it cannot be committed, or not without `force`. It is read from the active party's
    own files: partners are not to see that a commit was tried in vain.

    request  its id; whatever waits if None
    """
    staged = staged_in(folder / ACTIVE)
    if staged is not None and request in (None, staged.id):
        request = staged.id
        reason = staged.why_not(force=force)
        if reason:
            raise ForgetError(reason)
    found = audited(folder, demand, request)
    if found is None:
        return {"level": None}
    if not found.passed and not force:
        raise ForgetError(
            f"The audit found level '{found.level}' and '{found.demanded}' is demanded; roll "
            f"the request back, or commit it with --force."
        )
    return found.to_json()


def _models(run: Run, case: Case, labels: tuple[int, ...]) -> dict[str, Seen]:
    """Look at the models before and after; the same messages whatever the labels are."""
    active = run.active
    found: dict[str, Seen] = {}
    try:
        for name, version in (("original", case.before), ("forgotten", case.after)):
            if version is not None:
                active.versions.restore(version)
                found[name] = _look(active, run, case)
    finally:
        run.refresh(afresh=True)
        if run.undecided is not None:  # made in this process, and still what it predicts by
            active.versions.restore(case.after)
    if "original" in found:
        found["mask"] = found["original"].masked(labels)
    return found


def _look(active: ActiveParty, run: Run, case: Case) -> Seen:
    """Return what is seen of a model, without labels that were forgotten earlier."""
    seen = look(active, run.holdings.rows, run.labels)
    earlier = _earlier(run, case).labels
    return replace(seen, train=seen.train.without(earlier), test=seen.test.without(earlier))


def _earlier(run: Run, case: Case) -> Forgotten:
    """Return what was forgotten before the request."""
    gone, names = case.facts.forgotten, case.request.labels
    labels = {run.labels.index(name) for name in names}
    return replace(gone, labels=tuple(n for n in gone.labels if n not in labels))


def _references(run: Run, case: Case, wanted: int, watch: Watch) -> list[Seen]:
    """Return what is seen of retrained models: those that are kept, and as many as are wanted.

    Each has a seed of its own, none of them that of the original: what they have in common with it
    is what the data says, not where it began.
    """
    holdings, config, gone = run.holdings, run.config, case.facts.forgotten
    about = json.dumps([SEEDS, case.facts.data, dict(case.facts.settings), asdict(gone)])
    folder = run.folder / ACTIVE / RETRAINED / sha256(about.encode())[:12]
    work = folder / "work"  # where a reference is trained; what a killed audit left there goes
    shutil.rmtree(work, ignore_errors=True)
    found = []
    for number in range(max(wanted, len(list(folder.glob("*.safetensors"))))):
        path = folder / f"{number}.safetensors"
        if not path.exists():
            watch(number, wanted, f"retraining {number + 1} of {wanted}")
            settings = replace(config.train, seed=config.train.seed + 1 + number)
            # The rows stay: another seed for the models, the same data to judge them on.
            own = replace(holdings, config=replace(config, train=settings))
            try:
                # With versions of its own, to stop early where the original would.
                active, _ = assemble(own, folder=work)
                rows = holdings.rows_without(gone)
                Training(active, rows, settings, labels=len(run.labels)).run()
                keep_seen(path, _look(active, run, case))
            finally:
                shutil.rmtree(work, ignore_errors=True)
        found.append(kept_seen(path, run.labels))
    return found


def _privacy(
    conduct: Conduct, count: int, models: Mapping[str, Seen], labels: tuple[int, ...]
) -> Privacy:
    """Return what the accountant says of a request, and what partners' own models show of it."""
    attacks = None
    if "original" in models:
        attacks = moved_attacks(models["original"], models["forgotten"], labels)
    return Privacy.of(conduct, count, attacks)


def _unknown(case: Case, models: Mapping[str, Seen], references: list[Seen]) -> list[str]:
    """Return what this audit cannot know."""
    said = []
    if not references:
        said.append(f"How far this is from a model that never saw the label: {NO_RETRAINED}.")
    if "original" not in models:
        said.append("What the original knew: it was purged, so residual knowledge is undefined.")
    conduct = case.request.conduct
    if not conduct.messages:
        said.append("What crossed the wire: no record of the request's messages was kept.")
    if (conduct.privacy or {}).get("information") != 0:
        said.append(
            "What the gradients that were sent tell a partner: they are not kept. Attacks here go "
            "by how its own rows moved; `unlabel bench request-privacy` tries the others."
        )
    said.append("Copies that a party made of old weights, data or messages outside this software.")
    said.append("Attacks that nobody has thought of; each measure here is one attack, not all.")
    if conduct.mode == "hidden":
        said.append("What partners' bottoms know of the label: a hidden request leaves it there.")
    return said


def _facts(run: Run, conduct: Conduct, references: int, seconds: float) -> AuditFacts:
    rows = run.holdings.rows
    top = run.active.top.module
    linear = isinstance(top, Top) and isinstance(top.head, nn.Linear)
    return AuditFacts(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        versions={
            "unlabel": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        rows={"train": len(rows.train), "test": len(rows.test), "public": len(rows.public)},
        parties=tuple(run.active.parties),
        labels=len(run.labels),
        top="linear" if linear else run.config.model.top_name(),
        retrained=references,
        forgetting=ForgettingCost(conduct.steps, conduct.seconds, conduct.transcript_bytes),
    )
