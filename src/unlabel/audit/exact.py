"""What an audit looks at where a request is exact: labels as they were, evidence, other seeds.

After a commit a run goes on as one that never had the labels: they have no name and no number
there. So they are judged by the labels from before the request.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unlabel.audit.construction import base_facts
from unlabel.audit.people import rows_of_people
from unlabel.data import ACTIVE, Rows
from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget import Run, Transaction
from unlabel.forget.exact_methods import relabelled
from unlabel.party import ActiveParty
from unlabel.party.label_free import ONLY
from unlabel.party.objective import plan_of
from unlabel.party.top import OUTPUTS
from unlabel.train import Holdings, Training, assemble
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.label_free import VIEWS, Base, LabelFreeBottoms, read_kept
from unlabel.train.parts import known_labels
from unlabel.train.replay import KeptData

if TYPE_CHECKING:
    from unlabel.audit.case import Case

PURGED = (
    "No row of the forgotten label is known any more, because it was cleared or purged, so "
    "nothing can be measured of it any more; audit a request before that."
)


@dataclass(frozen=True)
class Subject:
    """What an audit is about, by labels and names from before the request.

    labels   of all rows, and `names` of the labels
    rows     that are observed; of a request about people theirs, and test rows of everybody else
    numbers  of the forgotten labels, none where it is about people
    erased   rows that an exact request has forgotten, or those of people
    exact    whether it is one
    """

    labels: Tensor
    names: tuple[str, ...]
    rows: Rows
    numbers: tuple[int, ...] = ()
    erased: tuple[int, ...] = ()
    exact: bool = False

    @property
    def is_of_people(self) -> bool:
        """Whether it is about people; a request about nothing has neither labels nor rows."""
        return bool(self.erased) and not self.numbers

    @contextlib.contextmanager
    def seen_by(self, active: ActiveParty) -> Iterator[None]:
        """Let a party know the labels from before the request, inside the block."""
        if not self.exact:
            yield
            return
        with relabelled(active, self.labels, self.names):
            yield


def exact_subject(run: Run, case: Case) -> Subject:
    """Return what an exact request is about; raise where nothing is known of it any more."""
    if case.before is None:
        raise ForgetError(PURGED, code="purged")
    held = run.loaded
    past = Transaction(run.active).facts(case.before).forgotten.rows
    labels, names = known_labels(held.labels, held.names, past)
    erased = tuple(sorted(set(case.facts.forgotten.rows) - set(past)))
    if not erased or not bool((labels[list(erased)] >= 0).any()):
        raise ForgetError(PURGED, code="purged")
    numbers = tuple(names.index(name) for name in case.request.labels)
    rows = held.rows if numbers else rows_of_people(held.rows, erased)
    return Subject(labels, names, rows, numbers, erased, exact=True)


def stay_of(run: Run, case: Case) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels and names after the request: of a run that never had the others."""
    held = run.loaded
    return known_labels(held.labels, held.names, case.facts.forgotten.rows)


def evidence(run: Run, case: Case, subject: Subject) -> dict[str, Any]:
    """Return what shows that a request is exact (see `audit/construction.py`)."""
    active, home = run.active, run.folder / ACTIVE
    base = Base.read(home / LABEL_FREE)
    if run.bottoms is not None and run.config.bottoms == "tuned":
        # In a blind run nobody is asked for anything; there all signed when training ended.
        with contextlib.suppress(UnlabelError):
            base = run.bottoms.attest()
    store = active.versions.store.store_with(case.after)
    state, _ = store.load(case.after)
    outputs = [str(name) for name in json.loads(bytes(state[f"top/{OUTPUTS}"].tolist()))]
    replay, unequal = "not tried", 0
    if run.config.bottoms == "blind":
        recorded = case.request.conduct.replay.get("environment", {})
        compared = kept_by(run).compare(*stay_of(run, case), state, recorded)
        replay, unequal = compared.outcome, len(compared.differing)
    carrier = active.carrier
    own_weights = None
    if carrier is not None and carrier.bottom is not None:
        own_weights = carrier.versions.store.base.digest(ONLY)
    return {
        "method": case.request.method,
        "outputs": outputs,
        "left_out": len(subject.erased),
        "kept": _kept(run, case, subject),
        "replay": replay,
        "differing": unequal,
        "objective": run.config.label_free.objective,
        "across": plan_of(run.config).gradients,
        "bases": {} if base is None else base_facts(base, own_weights),
    }


def _kept(run: Run, case: Case, subject: Subject) -> int:
    """Return how many rows the request is about that are not left out."""
    if subject.numbers:
        asked = torch.isin(subject.labels, torch.tensor(subject.numbers)).nonzero()[:, 0].tolist()
    else:
        people = set(map(str, case.request.note["people"]))
        asked = [row for row, who in enumerate(run.loaded.ids.tolist()) if str(who) in people]
    return len(set(asked) - set(case.facts.forgotten.rows))


def kept_by(run: Run) -> KeptData:
    """Return what the label holder of a blind run has, as it has it in memory."""
    held, active = run.loaded, run.active
    if "main" not in active.local_embeddings:
        raise ForgetError(
            "The embeddings of this run were deleted, since a party does not allow them to be kept "
            "any more; without them nothing can be computed again."
        )
    embeddings = dict(zip(active.embedded, active.local_embeddings["main"], strict=True))
    views = read_kept(run.folder / ACTIVE / LABEL_FREE, VIEWS)
    return KeptData(run.config, held.ids, held.labels, held.names, held.rows, embeddings, views)


def retrain(run: Run, case: Case, seed: int, work: Path) -> ActiveParty:
    """Return the active party of a run without the labels, from another seed.

    Of a blind run the top alone is fitted anew, to the same embeddings; of a tuned one the bottoms
    are made anew too, in a folder for the time of it.
    """
    labels, names = stay_of(run, case)
    if run.config.bottoms == "blind":
        return kept_by(run).fitted(labels, names, seed=seed)
    config = replace(run.config, train=replace(run.config.train, seed=seed))
    held: Holdings = replace(run.loaded, labels=labels, names=names, config=config)
    active, _ = assemble(held, folder=work)
    assert active.carrier is not None
    LabelFreeBottoms(active.carrier, held.rows, config, work / ACTIVE / LABEL_FREE).make()
    rows = held.rows_without(case.facts.forgotten)
    Training(active, rows, config.train, labels=len(names)).run()
    return active


def recipe_parts(run: Run, subject: Subject) -> list[Mapping[str, Any]]:
    """Return what references of an exact request are made from, beside what others are."""
    base = Base.read(run.folder / ACTIVE / LABEL_FREE)
    bottoms = {} if base is None else {"weights": base.weights, "files": base.files}
    observed = {part: getattr(subject.rows, part).tolist() for part in ("train", "test")}
    return [vars(run.config.fit), vars(run.config.label_free), bottoms, observed]
