"""A trained federation that is asked to forget, and what its partners see of every request.

A request is made to the same original again and again, each rolled back before the next. With
`files` every request is made to a copy of a run in a folder and committed there, so that ledgers,
transcripts, versions and whatever else lies in a party's folder belong to what it sees.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.files import write_atomically
from unlabel.forget import ForgetSettings, Outcome
from unlabel_bench.measures import read_method
from unlabel_bench.privacy.groups import groups_by_cluster, groups_by_label, name_clusters
from unlabel_bench.privacy.label_clusters import cluster_leak
from unlabel_bench.privacy.nearest_members import member_leak
from unlabel_bench.privacy.partner_view import Held, View, hold, listening
from unlabel_bench.privacy.party_files import files_view
from unlabel_bench.privacy.row_attacks import moved_rows, public_auc, which_people
from unlabel_bench.privacy.traces import Trace, trace

#: The file of a run that every party is given.
CERTIFICATE = "certificate.json"


@dataclass(frozen=True)
class Shown:
    """What one request showed.

    traces   its figures, by who looks: one party, two that share what they see, and one that
             knows no labels, only its own clusters
    rows     what it told about rows, by attack; None where an attack has nothing to go on
    outcome  accuracy on retained and on forgotten test rows
    more     what the caller measured on the new model
    """

    traces: dict[str, Trace]
    rows: dict[str, float | None]
    outcome: dict[str, float | None]
    more: dict[str, Any] = field(default_factory=dict)


def measure_nothing(_: Federation) -> dict[str, Any]:
    """Measure nothing."""
    return {}


class Scene:
    """One original and what its partners know before any request.

    In the worst case a partner knows the labels of all public samples; all else it works out.
    """

    def __init__(self, federation: Federation, run: Path | None = None) -> None:
        self.federation, self._run = federation, run
        holdings = federation.holdings
        self.names, self.labels = holdings.names, holdings.labels.cpu()
        self._train = holdings.rows.train.cpu()
        self._before = {name: hold(party) for name, party in federation.passives.items()}
        public = holdings.rows.public.cpu()
        if not len(public):
            raise SettingsError("Expected `public` of at least 1 sample a label but got 0.")
        known = torch.full_like(self.labels, -1)
        known[public] = self.labels[public]
        self._groups = self._tell_apart({"main": known}, {"main": self.labels})

    def _tell_apart(
        self, known: Mapping[str, Tensor], truth: Mapping[str, Tensor]
    ) -> dict[str, tuple[int, Mapping[str, Tensor]]]:
        """Return for each who looks how many parties that is, and how they tell rows apart."""
        views = [View(name, (), held, held) for name, held in self._before.items()]
        count = len(self.names)
        clusters = name_clusters(groups_by_cluster(views[:1], count), truth, count)
        groups: dict[str, tuple[int, Mapping[str, Tensor]]] = {
            "one party": (1, groups_by_label(views[:1], known, count)),
            "two parties": (2, groups_by_label(views[:2], known, count)),
            "no labels": (1, clusters),
        }
        return groups if len(views) > 1 else {k: v for k, v in groups.items() if v[0] == 1}

    def show(
        self,
        labels: Sequence[int],
        method: str,
        measure: Callable[[Federation], dict[str, Any]] = measure_nothing,
        **options: Any,
    ) -> Shown:
        """Make a request and return what it showed; the original is as before.

        measure  is given the federation with the new model
        """
        with self._requested(labels, method, measure, options) as (views, outcome, more):
            result = outcome.result
            return Shown(
                traces={
                    who: trace(
                        views[:several],
                        groups,
                        len(self.names),
                        () if who == "no labels" else self.names,
                    )
                    for who, (several, groups) in self._groups.items()
                },
                rows=self._rows(views[0], list(labels)),
                outcome={
                    "retained": result.retained_accuracy.after,
                    "forgotten": result.forgotten_accuracy.after,
                    "seconds": result.seconds,
                },
                more=more,
            )

    def show_people(self, rows: Tensor, **options: Any) -> dict[str, float]:
        """Forget the labels of some people; return how well one party tells them from others."""
        federation = self.federation
        name = next(iter(federation.passives))
        ids = [str(federation.holdings.ids[row]) for row in rows.tolist()]
        with listening(federation.active) as listener:
            outcome = federation.forget(
                ids=ids, settings=ForgetSettings(allow_disclosure=True, **options)
            )
        try:
            view = self._view(federation, name, listener.heard[name], self._before[name], None)
        finally:
            outcome.rollback()
        return which_people(view, self._train, rows)

    def _rows(self, view: View, labels: list[int]) -> dict[str, float | None]:
        """Return what one party could tell about rows."""
        members = torch.isin(self.labels[self._train], torch.tensor(labels))
        near = member_leak(view, self._train, members)
        clusters = cluster_leak(view, self.labels, labels)
        every, forgotten = clusters["all"] or {}, clusters["forgotten"] or {}
        return {
            "public samples": public_auc(view, self.labels, labels),
            "training rows": moved_rows(view, self._train, members)["all"],
            "members": max(near.values()) if near else None,
            "clusters": every.get("share"),
            "clusters by chance": every.get("chance"),
            "clusters among forgotten": forgotten.get("share"),
            "among forgotten by chance": forgotten.get("chance"),
        }

    @contextmanager
    def _requested(
        self,
        labels: Sequence[int],
        method: str,
        measure: Callable[[Federation], dict[str, Any]],
        options: dict[str, Any],
    ) -> Iterator[tuple[list[View], Outcome, dict[str, Any]]]:
        """Forget, hand over what every party saw, and take it back."""
        chosen = read_method(method)
        with ExitStack() as stack:
            # Every request meets the same original: a party counts the versions it has kept.
            federation, run = self.federation, self._run
            if run is None:
                federation = federation.copy()
            else:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
                shutil.copytree(run, place)
                federation, run = Federation.open(place, record=True), place
                options = {**options, "secret": chosen.visibility == "hidden"}
            with listening(federation.active) as listener:
                outcome = federation.forget(
                    list(labels),
                    settings=ForgetSettings(
                        method=chosen,
                        allow_collapse=True,
                        allow_disclosure=True,
                        measure_drift=False,
                        **options,
                    ),
                )
                # A control cannot be committed; all else is kept, since a run shows more then.
                if run is not None and not outcome.result.control:
                    outcome.commit(force=True)
                    _certify(federation, run)
            try:
                views = [
                    self._view(federation, name, listener.heard[name], self._before[name], run)
                    for name in federation.passives
                ]
                more = measure(federation)
            finally:
                if outcome.staged:
                    outcome.rollback()
            yield views, outcome, more

    def _view(
        self, federation: Federation, name: str, heard: list[Any], before: Held, run: Path | None
    ) -> View:
        party = federation.passives[name]
        after = hold(party, before)
        if run is None:
            return View(name, tuple(heard), before, after)
        if party.transcript is not None:
            party.transcript.flush()
        shared = run / CERTIFICATE
        files = files_view(run / name, [shared] if shared.exists() else [])
        return View(name, tuple(heard), before, after, files.figures, files.texts)


def _certify(federation: Federation, run: Path) -> None:
    """Have all parties sign what they did, and keep it where every one of them can read it."""
    # Imported late: signing needs libraries that nothing else here does.
    from unlabel.report.certificate import issue

    text = json.dumps(issue(federation.active).certificate, indent=1)
    write_atomically(run / CERTIFICATE, text.encode())
