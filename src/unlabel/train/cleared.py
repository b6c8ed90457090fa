"""The label holder's own table without the labels that were forgotten."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import RunConfig
from unlabel.data import store_frame
from unlabel.data.cells import one_form
from unlabel.data.dataset import TABLE_FILES, Array
from unlabel.data.table_files import read_frame
from unlabel.data.tables import label_texts
from unlabel.errors import SettingsError
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.text_encoding import decode, open_bytes
from unlabel.train.label_record import LabelRecord


@dataclass(frozen=True)
class LabelTable:
    """The file in which labels lie; an empty `id` where rows go by their numbers."""

    path: Path
    id: str
    label: str

    @classmethod
    def of(cls, config: RunConfig) -> LabelTable | None:
        """Return the table of a run, None where its labels lie in no table of its owner's."""
        if config.active is not None:
            return cls(config.active.table, config.active.id, config.active.label)
        columns = config.columns
        if config.data is None or not config.data.endswith(TABLE_FILES) or columns.test:
            return None
        return cls((config.folder or Path()) / config.data, columns.id, columns.label)

    def cells_left(self, record: LabelRecord, names: Collection[str]) -> int:
        """Return how many cells of forgotten labels still hold something.

        names  of whole labels that were forgotten
        """
        frame = self._frame()
        cells = label_texts(frame[self.label].to_numpy())
        past = self._forgotten(frame, cells, record, names)
        return sum(bool(cell) for cell, past in zip(cells, past, strict=True) if past)

    def write(self, record: LabelRecord, names: Collection[str], target: Path) -> None:
        """Write the table with those cells empty; a CSV file keeps every other cell to the letter.

        target  in the same form; without an ending it is stored as a run stores tables
        """
        frame = self._frame()
        past = self._forgotten(frame, label_texts(frame[self.label].to_numpy()), record, names)
        if target.suffix in ("", ".parquet"):
            cleared = frame.assign(
                **{self.label: frame[self.label].astype(object).mask(past, None)}
            )
            if not target.suffix:
                store_frame(cleared, target)
                return
            data = io.BytesIO()
            cleared.to_parquet(data, index=False)
            write_atomically(target, data.getvalue(), mode=OWNER_ONLY)
            return
        with open_bytes(self.path) as file:
            text = decode(file.read(), f"Table '{self.path}'")
        head, *rows = (row for row in csv.reader(io.StringIO(text, newline="")) if row)
        place = [name.strip() for name in head].index(self.label)
        for row in (row for row, is_past in zip(rows, past, strict=True) if is_past):
            row[place] = ""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([head, *rows])
        write_atomically(target, out.getvalue().encode(), mode=OWNER_ONLY)

    def _frame(self) -> Any:
        return read_frame(self.path, self.id or None)

    def _forgotten(
        self, frame: Any, cells: list[str], record: LabelRecord, names: Collection[str]
    ) -> Array:
        numbers = np.arange(len(frame)).astype(str)
        ids = frame[self.id].astype(str).str.strip().to_numpy(dtype=str) if self.id else numbers
        forms = {one_form(name) for name in names}
        named: Array = np.array([one_form(cell) in forms for cell in cells], dtype=bool)
        return record.forgotten(ids) | named


def expect_clearable(config: RunConfig, target: Path) -> None:
    """Raise where no table can be written to a file: there is none, or the file is there."""
    table = LabelTable.of(config)
    if table is None:
        raise SettingsError(
            "The labels of this run lie in no single table of your own, so --table-out has nothing "
            "to write."
        )
    kinds = (".parquet",) if table.path.suffix == ".parquet" else (".csv",)
    if table.path.name.endswith(".jsonl"):
        kinds = (".parquet",)
    if target.suffix not in kinds:
        raise SettingsError(
            f"Expected --table-out to end in {kinds[0]}, as the run's table does, but got "
            f"'{target}'."
        )
    if target.exists():
        raise SettingsError(f"'{target}' exists, and is not overwritten; choose another file.")
