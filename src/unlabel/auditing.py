"""A federation's audits: look at the models of a request, measure, and name the level reached."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from unlabel._version import __version__
from unlabel.audit import Seen, Verdict, look, reaches
from unlabel.audit.compare import Watch, compare, watch_nothing
from unlabel.audit.facts import AuditFacts, ForgettingCost, transfers_from_json
from unlabel.audit.gate import NO_RETRAINED, judge, level_of
from unlabel.audit.kept import keep_seen, kept_seen
from unlabel.audit.partner_attacks import moved_attacks
from unlabel.audit.pictures import picture_data
from unlabel.audit.privacy import Privacy
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, RunError
from unlabel.files import sha256, write_atomically
from unlabel.forget import Forgotten, Transaction
from unlabel.forget.transaction import NOTHING
from unlabel.models.tops import Top
from unlabel.train import AuditSettings, assemble

if TYPE_CHECKING:
    from unlabel.federation import Federation

#: Where the active party keeps the last audit, and what it saw of retrained models.
AUDIT, RETRAINED = "audit.json", "retrained"
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
NEEDS_FOLDER = "An audit compares versions, which a federation in memory does not keep."


@dataclass(frozen=True)
class Case:
    """A request to be audited: its facts, and the versions before and after it.

    state   staged, committed or rolled-back
    before  None where it was purged
    """

    facts: dict[str, Any]
    state: str
    before: int | None
    after: int

    @property
    def request(self) -> str:
        """The id of the request."""
        return str(self.facts["request"])


def find_case(federation: Federation) -> Case:
    """Return the request that waits, else the last one that was committed."""
    if federation.folder is None:
        raise ForgetError(NEEDS_FOLDER)
    federation.catch_up()
    transaction = Transaction(federation.active)
    transaction.expect_together()
    versions = federation.active.common_versions()
    waiting = transaction.staged()
    if waiting is not None:
        after = transaction.store.staged.versions()[-1]
        return Case(waiting, "staged", versions[-1], after)
    facts = federation.active.facts(versions[-1]) if versions else {}
    if "request" not in facts:
        raise ForgetError(f"There is nothing to audit. {NOTHING}")
    after = versions[-1]
    before = after - 1 if after - 1 in versions else None
    return Case(facts, "rolled-back" if facts.get("dropped") else "committed", before, after)


def audit(
    federation: Federation,
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
    if retrained and federation.far:
        raise ForgetError(NO_DATA)
    case = find_case(federation)
    note = case.facts["note"]
    if case.state == "rolled-back":
        # Partners cannot tell this request from one that was kept, and the audit of it is no help.
        _models(federation, case, ())
        raise ForgetError(f"The last request was rolled back, or was about nothing. {NOTHING}")
    names = tuple(str(name) for name in note.get("labels", ()))
    if not names:
        raise ForgetError(f"{PEOPLE}: {NEXT_FOR_PEOPLE[case.state]}")
    labels = tuple(federation.labels.index(name) for name in names)
    limits = demand or federation.config.audit
    models = _models(federation, case, labels)
    references = _references(federation, case, retrained, watch)
    seen: dict[str, list[Seen]] = {name: [one] for name, one in models.items()}
    if references:
        seen["retrained"] = references
    measures = compare(seen, labels, watch=watch)
    findings = judge(measures, limits)
    about = case.facts.get("about", {})
    first = {name: several[0] for name, several in seen.items()}
    verdict = Verdict(
        request=case.request,
        labels=names,
        people=0,
        state=case.state,
        mode=str(about.get("mode", "open")),
        method=str(note.get("method", "")),
        settings=about.get("settings", {}),
        level=level_of(findings),
        demanded=limits.demand,
        findings=tuple(findings),
        measures=measures,
        pictures=picture_data(first, labels, federation.labels),
        privacy=_privacy(about, len(federation.labels), models, labels),
        messages=transfers_from_json(about.get("messages", {})),
        unknown=tuple(_unknown(case, models, references)),
        thresholds=limits,
        facts=_facts(federation, about, len(references), time.monotonic() - started),
    )
    path = audit_path(federation)
    write_atomically(path, json.dumps(verdict.to_json(), indent=1).encode(), mode=0o600)
    return verdict


def audit_path(federation: Federation) -> Path:
    """Return where the last audit is kept: with the active party, since it names the labels."""
    if federation.folder is None:
        raise ForgetError(NEEDS_FOLDER)
    return federation.folder / ACTIVE / AUDIT


def audited(federation: Federation, request: str) -> dict[str, Any] | None:
    """Return the level that an audit found for a request and the one that is demanded, if any did.

    Demanded is what the run demands, or what the audit did where that was deeper.
    """
    path = audit_path(federation)
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        if str(found["request"]) != request:
            return None
        level, asked = str(found["level"]), str(found["demanded"])
        own = federation.config.audit.demand
        demanded = asked if reaches(asked, own) else own
        return {"level": level, "demanded": demanded, "passed": reaches(level, demanded)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"'{path}' cannot be read; run `unlabel audit` again.") from error


def _models(federation: Federation, case: Case, labels: tuple[int, ...]) -> dict[str, Seen]:
    """Look at the models before and after; the same messages whatever the labels are."""
    active = federation.active
    found: dict[str, Seen] = {}
    try:
        for name, version in (("original", case.before), ("forgotten", case.after)):
            if version is not None:
                active.restore(version)
                found[name] = _look(federation, case)
    finally:
        federation.catch_up(afresh=True)
        if federation.undecided is not None:  # made in this process, and still what it predicts by
            active.restore(case.after)
    if "original" in found:
        found["mask"] = found["original"].masked(labels)
    return found


def _look(federation: Federation, case: Case) -> Seen:
    """Return what is seen of the present model, without labels that were forgotten earlier."""
    seen = look(federation.active, federation.holdings.rows, federation.labels)
    earlier = _earlier(federation, case).labels
    return replace(seen, train=seen.train.without(earlier), test=seen.test.without(earlier))


def _earlier(federation: Federation, case: Case) -> Forgotten:
    """Return what was forgotten before the request."""
    gone = Forgotten.from_facts(case.facts)
    labels = {federation.labels.index(name) for name in case.facts["note"].get("labels", ())}
    return replace(gone, labels=tuple(n for n in gone.labels if n not in labels))


def _references(federation: Federation, case: Case, wanted: int, watch: Watch) -> list[Seen]:
    """Return what is seen of retrained models: those that are kept, and as many as are wanted."""
    assert federation.folder is not None
    holdings, config = federation.holdings, federation.config
    gone = Forgotten.from_facts(case.facts)
    about = json.dumps([case.facts["data"], case.facts.get("settings"), asdict(gone)])
    folder = federation.folder / ACTIVE / RETRAINED / sha256(about.encode())[:12]
    found = []
    for number in range(max(wanted, len(list(folder.glob("*.safetensors"))))):
        path = folder / f"{number}.safetensors"
        if not path.exists():
            watch(number, wanted, f"retraining {number + 1} of {wanted}")
            seed = config.train.seed + number
            own = replace(config, train=replace(config.train, seed=seed, patience=0))
            # The rows stay: another seed for the models, the same data to judge them on.
            parts = replace(holdings, config=own)
            active, passives = assemble(parts)
            again = type(federation)(parts, active, passives)
            again.forgotten = gone
            again.train()
            keep_seen(path, _look(again, case))
        found.append(kept_seen(path, federation.labels))
    return found


def _privacy(
    about: Mapping[str, Any], count: int, models: Mapping[str, Seen], labels: tuple[int, ...]
) -> Privacy:
    """Return what the accountant says of a request, and what partners' own models show of it."""
    attacks = None
    if "original" in models:
        attacks = moved_attacks(models["original"], models["forgotten"], labels)
    return Privacy.of(about, count, attacks)


def _unknown(case: Case, models: Mapping[str, Seen], references: list[Seen]) -> list[str]:
    """Return what this audit cannot know."""
    said = []
    if not references:
        said.append(f"How far this is from a model that never saw the label: {NO_RETRAINED}.")
    if "original" not in models:
        said.append("What the original knew: it was purged, so residual knowledge is undefined.")
    if not case.facts.get("about", {}).get("messages"):
        said.append("What crossed the wire: no record of the request's messages was kept.")
    if (case.facts.get("about", {}).get("privacy") or {}).get("information") != 0:
        said.append(
            "What the gradients that were sent tell a partner: they are not kept. Attacks here go "
            "by how its own rows moved; `unlabel bench request-privacy` tries the others."
        )
    said.append("Copies that a party made of old weights, data or messages outside this software.")
    said.append("Attacks that nobody has thought of; each measure here is one attack, not all.")
    if case.facts.get("about", {}).get("mode") == "hidden":
        said.append("What partners' bottoms know of the label: a hidden request leaves it there.")
    return said


def _facts(
    federation: Federation, about: Mapping[str, Any], references: int, seconds: float
) -> AuditFacts:
    rows = federation.holdings.rows
    top = federation.active.top.module
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
        parties=tuple(federation.active.parties),
        labels=len(federation.labels),
        top="linear" if linear else federation.config.model.top_name(),
        retrained=references,
        forgetting=ForgettingCost.of(about),
    )
