"""A run trained anew on changed tables: what was forgotten stays so, and memory is carried over."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.config import RunConfig
from unlabel.data import ACTIVE
from unlabel.data.in_memory import InMemoryTable
from unlabel.errors import RunError, SettingsError
from unlabel.files import EXPORTS, writing
from unlabel.forget.deferred import deferred_in
from unlabel.forget.names import committed_names
from unlabel.forget.request_secrets import DEFERRED
from unlabel.forget.transaction import interrupted, request_open
from unlabel.party import Ledger
from unlabel.party.answering import without_answers
from unlabel.party.checkpoint import newest_facts
from unlabel.party.deciding import updating
from unlabel.progress import Watch
from unlabel.runfolder import draft_of, finish_swap, read_config_of, swap
from unlabel.train import Forgotten, Holdings, Progress, VersionFacts, Watcher, load_holdings
from unlabel.train.facts import staged_in
from unlabel.train.given import by_party
from unlabel.train.label_record import FORGOTTEN, LabelRecord, Update

if TYPE_CHECKING:
    from unlabel.federation import Federation

#: Of a party: its memory of requests, its keys, and the label holder's secrets.
CARRIED = ("ledger.jsonl", "signing.key", "secrets", "audit.json")
#: Of the run: the evidence of earlier requests.
EVIDENCE = ("certificate.json", "certificate.annex", "report.html", EXPORTS)


def update(
    federation_class: type[Federation],
    folder: Path,
    frames: Mapping[str, Any] | None,
    *,
    watchers: Sequence[Watcher],
    allow_disclosure: bool,
    watch: Watch,
) -> tuple[Federation, Progress]:
    """Train a run anew beside itself, and put it in its own place; see `Federation.update`."""
    finish_swap(folder)
    before_update(folder)  # nothing is locked where there is nothing to update
    with updating(folder / ACTIVE):
        progress = _replace(federation_class, folder, frames, watchers, allow_disclosure, watch)
    updated = federation_class.open(folder)
    updated.revoke_exports()
    return updated, progress


def _replace(
    federation_class: type[Federation],
    folder: Path,
    frames: Mapping[str, Any] | None,
    watchers: Sequence[Watcher],
    allow_disclosure: bool,
    watch: Watch,
) -> Progress:
    """Train the updated run and swap it in, while nothing is decided in the run as it is."""
    config, kept_back, newest, forgotten = before_update(folder)
    given: dict[str, InMemoryTable] = {}
    if frames is not None:
        sources = by_party(config, frames)
        given = {name: each for name, each in sources.items() if isinstance(each, InMemoryTable)}
    elif config.active and config.active.table.resolve().is_relative_to(folder.resolve()):
        raise SettingsError("This run was made from tables in Python; give new ones as `frames`.")
    holdings = load_holdings(config, given=given, watch=watch, update=kept_back)
    deferred = [each.request for each in deferred_in(folder / ACTIVE)]
    with draft_of(folder) as draft:
        federation = federation_class.of(holdings, draft, before=kept_back, tables=given)
        carry_over(folder, draft, holdings.config.party_names())
        federation.first_version = newest + 1
        for party in federation.passives.values():
            party.first_version = newest + 1
        federation.forgotten = replace(forgotten, rows=_forgotten_rows(holdings, draft))
        progress = federation.train(
            watchers=watchers, allow_disclosure=allow_disclosure, watch=watch
        )
        note = {"version": federation.version, "rows": len(holdings.ids), "deferred": deferred}
        federation.active.versions.ledger.append("update", f"{newest + 1}", note)
        # Nor does anything answer for the old run, or open the new one before it is in its place.
        with without_answers(folder / ACTIVE), without_answers(draft / ACTIVE):
            swap(folder, draft)
    return progress


def before_update(folder: Path) -> tuple[RunConfig, Update, int, Forgotten]:
    """Return a run's settings, what stays forgotten, its newest version and what that forgot.

    Nothing of its tables is read: they may have changed.
    """
    config, home = read_config_of(folder), folder / ACTIVE
    if config.is_remote():
        raise SettingsError(
            "The rows of a federation between organisations were settled when they were matched; "
            "set another one up to change them."
        )
    staged, record = staged_in(home), LabelRecord.read(home)
    if staged is not None:
        raise request_open(staged.id)
    newest = newest_facts(home)
    if record is None or newest is None:
        raise RunError(f"Run '{folder}' has no finished training to update; train it first.")
    ledger, facts = Ledger(home), VersionFacts.from_json(newest[1])
    request, forgotten = facts.request, facts.forgotten
    noted = {(each.event, each.request) for each in ledger.entries()}
    if request is not None and (request.event, request.id) not in noted:
        raise interrupted(request.event)  # what is carried over would lack it
    names = frozenset(record.names[number] for number in forgotten.labels)
    if config.is_label_free:  # whose models name them no more: the requests do
        names = committed_names(ledger)
    people = frozenset(text for each in deferred_in(home) for text in each.people)
    kept_back = Update(record, names, people, may_lack=config.is_label_free)
    return config, kept_back, newest[0], forgotten


def _forgotten_rows(holdings: Holdings, folder: Path) -> tuple[int, ...]:
    """Return the rows of an updated run whose labels are forgotten; others may lack one."""
    record = LabelRecord.read(folder / ACTIVE)
    assert record is not None
    past = record.tombstones == FORGOTTEN
    if not holdings.config.is_label_free:
        past = holdings.labels.numpy() < 0
    return tuple(np.flatnonzero(past).tolist())


def carry_over(folder: Path, draft: Path, parties: Iterable[str]) -> None:
    """Copy what every party remembers into the updated run; requests that waited are done there."""
    with writing(draft):
        for name in (*EVIDENCE, *(f"{party}/{each}" for party in parties for each in CARRIED)):
            source, target = folder / name, draft / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns(DEFERRED))
            elif source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
