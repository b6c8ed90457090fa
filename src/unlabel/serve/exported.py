"""An exported top that is served: rows of embeddings in, predictions out, until it is revoked.

Before each answer its revocation note is looked at, and the run where that is at hand: then under
the lock that a decision must take alone, so that what docs/serving.md says of a run holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load

from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, DataError, ModelError, RunError, SettingsError
from unlabel.export.check import ExportFiles, check
from unlabel.export.form import Export, beside, read_export, read_exports
from unlabel.files import sha256
from unlabel.models.estimators import PREFIX
from unlabel.models.registry import predicting
from unlabel.models.tops import Top, join_top
from unlabel.party.answering import Decided, Hold, decided_in, hold_answers
from unlabel.serve.model import HEAD, Answer, Provenance, to_json
from unlabel.serve.rows import Row
from unlabel.train.predictions import Predictions

#: What is known of the run, and of the three files of an export, without reading them.
Seen = tuple[Decided | tuple[int, int, int] | None, ...]


class ServedTop:
    """Answers by an exported top, one call at a time, while it holds.

    trust  public keys by party; the key of what is served is the trusted one from then on
    """

    def __init__(self, files: ExportFiles, trust: Mapping[str, str] | None = None) -> None:
        if files.revocations is None:
            raise SettingsError(
                "An exported top is served with its run's revocation note (--revocations FILE), or "
                "beside the run itself."
            )
        self._files, self._trust = files, trust
        self._seen: Seen = ()
        self._number = 0
        self._expect_holds()
        signed = read_export(beside(files.top).read_bytes(), beside(files.top).name)
        self._trust = {ACTIVE: signed.key, **(trust or {})}
        self.export = signed.export
        self._files = replace(files, loaded=self.export)
        self._top = load_top(signed.export, files.top)
        self.provenance = Provenance(
            signed.export.version, signed.export.request, signed.export.ledger[:HEAD]
        )

    def look(self) -> Provenance:
        """Return which version is answered for; raise where it does not hold any more."""
        hold = self._hold()
        try:
            self._expect_holds()
        finally:
            hold.release()
        return self.provenance

    def by_embeddings(self, embeddings: Mapping[str, Sequence[Sequence[float]]]) -> Answer:
        """Answer for rows of embeddings, by party."""
        hold = self._hold()
        try:
            self._expect_holds()
            parts = self._parts(embeddings)
            with predicting(self._top):
                logits = self._top(parts)
            _expect_finite(logits)
            ids = np.array([str(number) for number in range(len(logits))], dtype=object)
            predictions = Predictions.of(ids, logits, self.export.labels)
            body = to_json(self.provenance, predictions, None)
            self._expect_holds()
        except BaseException:
            hold.release()
            raise
        return Answer(body, len(ids), hold)

    def by_ids(self, ids: Sequence[str]) -> NoReturn:  # noqa: ARG002
        """Refuse: nobody is known here."""
        raise SettingsError("An exported top knows no people; send `embeddings`.")

    def by_rows(self, rows: Mapping[str, Sequence[Row]]) -> NoReturn:  # noqa: ARG002
        """Refuse: the bottoms are the parties'."""
        raise SettingsError("An exported top has no bottoms; send `embeddings`.")

    def close(self) -> None:
        """End it; there is nothing to end."""

    def _hold(self) -> Hold:
        """Keep decisions out where the run is at hand."""
        return Hold(None) if self._files.run is None else hold_answers(self._files.run / ACTIVE)

    def _expect_holds(self) -> None:
        """Raise unless the export holds; files are read again where they changed."""
        files = self._files
        paths = (files.top, beside(files.top), files.revocations)
        decided = None if files.run is None else decided_in(files.run / ACTIVE)
        seen: Seen = (decided, *(None if path is None else _state(path) for path in paths))
        if seen == self._seen:
            return
        self._seen = ()
        checks, number = check(files, self._trust), self._number_of_note()
        checks.expect(
            number >= self._number,
            f"The revocation note went back from {self._number} to {number}; take the newest.",
        )
        if checks.faults:
            raise RunError(
                f"Nothing is answered by this export: {checks.faults[0]}", code="revoked"
            )
        self._seen = seen

    def _number_of_note(self) -> int:
        """Return the number of the revocation note, 0 where it is not this run's; keep the highest.

        Also of a note that revokes: after it no older one is believed.
        """
        path, trusted = self._files.revocations, (self._trust or {}).get(ACTIVE)
        try:
            assert path is not None
            note = read_exports(path.read_bytes(), path.name)
        except (OSError, DataError):
            return 0
        number = note.exports.number if note.key == trusted or trusted is None else 0
        self._number = max(self._number, number)
        return number

    def _parts(self, embeddings: Mapping[str, Sequence[Sequence[float]]]) -> list[torch.Tensor]:
        """Return the embeddings of each party, in the top's order."""
        inputs, parts = self.export.inputs, []
        names = [each.party for each in inputs]
        if set(embeddings) != set(names):
            raise DataError(f"Expected embeddings of {', '.join(names)}.")
        for each in inputs:
            rows = embeddings[each.party]
            if not rows or {len(row) for row in rows} != {each.width}:
                raise DataError(f"Expected rows of {each.width} numbers of party '{each.party}'.")
            parts.append(torch.tensor(rows, dtype=torch.float32))
            _expect_finite(parts[-1])
        if len({len(part) for part in parts}) > 1:
            raise DataError("Expected as many rows of every party, in one order.")
        return parts


def _expect_finite(values: torch.Tensor) -> None:
    if not values.isfinite().all():
        raise DataError("Expected embeddings of parties but got numbers too large for float32.")


def load_top(export: Export, path: Path) -> Top:
    """Return the top that a file holds; no code that it names is run."""
    if export.format != "safetensors":
        raise SettingsError("Only safetensors files are served; ONNX is for other runtimes.")
    if ":" in export.top and not export.top.startswith(PREFIX):
        raise SettingsError(f"The top '{export.top}' is code of the run's owner, which is not run.")
    data, widths = path.read_bytes(), [each.width for each in export.inputs]
    if sha256(data) != export.sha256:
        raise CheckpointError(f"'{path}' is not the file that was signed.")
    try:
        top = join_top(
            export.top, widths, len(export.labels), export.combine, settings=export.options
        )
        top.load_state_dict(load(data))
    except (SafetensorError, RuntimeError, ModelError, CheckpointError) as error:
        raise CheckpointError(f"'{path}' does not hold the top that was signed.") from error
    return top


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size
