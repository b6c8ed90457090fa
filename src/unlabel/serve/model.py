"""The model that is served: of the version that is decided and that every party has, or none.

Another process decides. What it leaves on the disk says where things stand:

    the active party's newest manifest   which version is decided (`party/answering.py: Decided`)
    all parties' versions, the ledger    whether every party has confirmed it

An answer is computed under a shared lock that a decision must take alone, so the version that was
looked up stays the decided one until the answer is handed over. docs/serving.md has the argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from unlabel.data import ACTIVE
from unlabel.errors import DataError, PartyLost, RunError, SettingsError
from unlabel.federation import Federation
from unlabel.forget import Transaction
from unlabel.party.answering import Decided, Hold, decided_in, hold_answers
from unlabel.serve.rows import Row, tables_of
from unlabel.serve.source import source_of
from unlabel.train import VersionFacts
from unlabel.train.predictions import Predictions

#: Characters of the ledger's head that an answer names.
HEAD = 16
#: Decimals of a probability, as in the file that `unlabel predict` writes.
DECIMALS = 6


@dataclass(frozen=True)
class Provenance:
    """Which model an answer is from.

    version  its number
    request  id of the request that made it, empty where training did
    ledger   where the label holder's ledger ended when the version was taken up, shortened
    """

    version: int
    request: str
    ledger: str


@dataclass(frozen=True)
class Answer:
    """Predictions as JSON, and what keeps decisions out until they are handed over."""

    body: bytes
    rows: int
    hold: Hold


class ServedModel:
    """Answers for the decided version of a run, one call at a time.

    federation  is this object's from now on
    """

    def __init__(self, federation: Federation) -> None:
        self._source = source_of(federation)
        self._run = federation
        self._home = federation.folder / ACTIVE
        self._loaded: Decided | None = None
        decided = decided_in(self._home)
        self._folder = 0 if decided is None else decided.home
        self._newest = 0
        self._rows: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self.provenance: Provenance | None = None

    def look(self) -> Provenance:
        """Take up what is decided; raise where nothing can be answered now."""
        hold = hold_answers(self._home)
        try:
            return self._current()
        finally:
            hold.release()

    def by_ids(self, ids: Sequence[str]) -> Answer:
        """Answer for people whom all parties know."""

        def predict() -> Predictions:
            known = [who for who in ids if who in self._rows]
            if not known:
                raise DataError("No id of the request is known to all parties.", code="unknown-ids")
            rows = torch.tensor([self._rows[who] for who in known], dtype=torch.int64)
            return self._run.predict_rows(np.array(known, dtype=object), rows, "main")

        return self._answer(predict, ids)

    def by_rows(self, rows: Mapping[str, Sequence[Row]]) -> Answer:
        """Answer for new rows, a list for each party that has features."""

        def predict() -> Predictions:
            return self._source.predict_tables(tables_of(self._run.config, rows))

        return self._answer(predict, None)

    def by_embeddings(self, embeddings: Mapping[str, Sequence[Sequence[float]]]) -> NoReturn:  # noqa: ARG002
        """Refuse: embeddings are what an exported top is asked with."""
        raise SettingsError("A run answers for `ids` and `rows`; `embeddings` are for exports.")

    def close(self) -> None:
        """End the session with other parties, where there is one."""
        self._source.close()

    def _answer(self, predict: Callable[[], Predictions], ids: Sequence[str] | None) -> Answer:
        hold = hold_answers(self._home)
        try:
            source = self._current()
            predictions = predict().without_labels(self._forgotten)
            body = to_json(source, predictions, ids)
            # The lock keeps decisions out, where the file system knows locks; this sees others too.
            if decided_in(self._home) != self._loaded:
                raise RunError("Another version was decided on; ask again.", code="deciding")
        except BaseException as error:
            if isinstance(error, PartyLost):  # the next question begins another session
                self._loaded = None
                self._source.lose()
            hold.release()
            raise
        return Answer(body, len(predictions.ids), hold)

    def _current(self) -> Provenance:
        """Return which version is loaded, once that is the decided one; under a shared lock."""
        if self._source.give_way():
            self._loaded = None
            raise RunError("A command is at work with the parties; ask again.", code="in-use")
        decided = decided_in(self._home)
        if decided is None:
            raise RunError("There is no trained run in the folder that is served.", code="no-run")
        if decided != self._loaded or self.provenance is None:
            self._loaded = self.provenance = None  # nothing is answered by halves of two versions
            self.provenance = self._take(decided)
            self._loaded, self._newest = decided, decided.number
        return self.provenance

    def _take(self, decided: Decided) -> Provenance:
        if decided.number < self._newest:
            raise RunError(
                f"The run went back from version {self._newest} to {decided.number}; where that is "
                f"meant, start serving again.",
                code="older-version",
            )
        if decided.home != self._folder:
            self._source.reopen()
            self._folder = decided.home
        run = self._run = self._source.federation()
        # All parties have the version, and the ledger says so: the last thing that a commit writes.
        Transaction(run.active).expect_together()
        run.refresh(afresh=True)
        if run.version != decided.number:
            raise RunError(
                f"Not every party has version {decided.number} yet; ask again.", code="interrupted"
            )
        facts = VersionFacts.from_json(run.active.versions.facts(decided.number))
        self._rows = {who: row for row, who in enumerate(run.holdings.ids.tolist())}
        self._forgotten = {run.labels[label] for label in run.forgotten.labels}
        request = facts.request.id if facts.request is not None else ""
        return Provenance(decided.number, request, run.active.versions.ledger.head()[:HEAD])


def to_json(source: Provenance, predictions: Predictions, ids: Sequence[str] | None) -> bytes:
    """Return predictions with the version they are of.

    ids  that were asked for, None where rows were sent
    """
    answered = predictions.ids.tolist()
    chances = predictions.probabilities.astype(np.float64).round(DECIMALS).tolist()
    answer: dict[str, Any] = {
        "version": source.version,
        "request": source.request,
        "ledger": source.ledger,
        "labels": list(predictions.names),
        "predictions": [
            {"id": who, "label": label, "probabilities": some}
            for who, label, some in zip(answered, predictions.labels, chances, strict=True)
        ],
    }
    if ids is not None:
        answer["unknown"] = sorted(set(ids) - set(answered))
    else:
        answer |= {"left_out": predictions.unknown, "notes": list(predictions.notes)}
    return json.dumps(answer, allow_nan=False).encode()
