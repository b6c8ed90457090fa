"""The label holder's own table without the labels that were forgotten."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import RunConfig
from unlabel.data import store_frame
from unlabel.data.cells import label_reader
from unlabel.data.column_files import ARROW, COLUMNAR
from unlabel.data.dataset import TABLE_FILES, Array
from unlabel.data.table_files import read_frame
from unlabel.data.tables import label_texts, labels_of
from unlabel.errors import DataError, SettingsError
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.text_encoding import decode, form_of, open_bytes
from unlabel.train.label_record import FORGOTTEN, LabelRecord

#: Characters of a cell that is written as it was.
LONGEST_CELL = 2**31 - 1


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

    def cells_left(self, record: LabelRecord | None, names: Collection[str]) -> int:
        """Return how many cells of forgotten labels still hold something.

        names  of whole labels that were forgotten
        """
        _, cells, past = self._read(record, names)
        return sum(bool(cell) for cell, is_past in zip(cells, past, strict=True) if is_past)

    def write(self, record: LabelRecord, names: Collection[str], target: Path) -> None:
        """Write the table with those cells empty; a CSV file keeps every other cell to the letter.

        target  in the same form; without an ending it is stored as a run stores tables
        """
        if target.suffix not in ("", *COLUMNAR):
            write_atomically(target, self._cleared_csv(record, names), mode=OWNER_ONLY)
            return
        frame, cells, past = self._read(record, names)
        if frame[self.label].dtype.kind not in "Mf":  # a gap would make whole numbers fractions
            texts = np.array([cell or None for cell in cells], dtype=object)
            frame = frame.assign(**{self.label: texts})
        cleared = frame.assign(**{self.label: frame[self.label].mask(past, None)})
        if not target.suffix:
            store_frame(cleared, target)
            return
        data = io.BytesIO()
        if target.suffix in ARROW:
            cleared.to_feather(data)
        else:
            cleared.to_parquet(data, index=False)
        write_atomically(target, data.getvalue(), mode=OWNER_ONLY)

    def _cleared_csv(self, record: LabelRecord | None, names: Collection[str]) -> bytes:
        frame, known, past = self._read(record, names)
        with open_bytes(self.path) as file:
            data = file.read()
        text = decode(data, f"Table '{self.path}'")
        limit = csv.field_size_limit(LONGEST_CELL)
        try:
            read = list(csv.reader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise DataError(f"Table '{self.path}' cannot be written anew: {error}.") from error
        finally:
            csv.field_size_limit(limit)
        # A line of blanks is no row of a table; one of empty fields is.
        rows = [row for row in read if len(row) > 1 or "".join(row).strip(" \t")]
        head, body = rows[0], rows[1:]
        place = head.index(self.label)
        self._expect_same([_cell(row, place) for row in body], known)
        if self.id:
            first = head.index(self.id)
            self._expect_same([_cell(row, first).strip() for row in body], self._ids(frame))
        for row, is_past in zip(body, past, strict=True):
            if is_past and place < len(row):
                row[place] = ""
        out = io.StringIO()
        # A cell with a carriage return is quoted only where lines end with one.
        end = "\r\n" if "\r" in text else "\n"
        csv.writer(out, lineterminator=end).writerows(rows)
        return out.getvalue().encode(form_of(data))

    def _expect_same(self, written: Sequence[str], read: Sequence[str] | Array) -> None:
        """Raise unless a column is, row by row, what the run reads; a gap may be written."""
        pairs = zip(written, read, strict=False)
        if len(written) != len(read) or any(cell not in ("", text) for text, cell in pairs):
            raise DataError(
                f"Table '{self.path}' cannot be written anew: it is not certain which of its lines "
                f"is which row, so another label could be cleared; remove lines that hold nothing."
            )

    def _read(
        self, record: LabelRecord | None, names: Collection[str]
    ) -> tuple[Any, list[str], Array]:
        """Return the table, its labels, and which of them are forgotten."""
        frame = read_frame(self.path, self.id or None, [self.label])
        cells = label_texts(labels_of(frame, self.label))
        called = label_reader((*names, *(() if record is None else record.names)))
        past: Array = np.array([called(cell) in names for cell in cells], dtype=bool)
        if record is not None:  # a row of the run goes by its tombstone
            stones = record.stones(self._ids(frame))
            past = (stones == FORGOTTEN) | (past & (stones != 0))
        return frame, cells, past

    def _ids(self, frame: Any) -> Array:
        numbers = np.arange(len(frame)).astype(str)
        return frame[self.id].astype(str).str.strip().to_numpy(dtype=str) if self.id else numbers


def _cell(row: Sequence[str], place: int) -> str:
    """Return a field of a row; one that ends before it has nothing there."""
    return row[place] if place < len(row) else ""


def expect_clearable(config: RunConfig, target: Path) -> None:
    """Raise where no table can be written to a file: there is none, or the file is there."""
    table = LabelTable.of(config)
    if table is None:
        raise SettingsError(
            "The labels of this run lie in no single table of your own, so --table-out has nothing "
            "to write."
        )
    suffix = table.path.suffix
    kinds = (suffix,) if suffix in COLUMNAR else (".csv",)
    if table.path.name.endswith(".jsonl"):
        kinds = (".parquet",)
    if target.suffix not in kinds:
        raise SettingsError(
            f"Expected --table-out to end in {kinds[0]}, as the run's table does, but got "
            f"'{target}'."
        )
    if target.exists():
        raise SettingsError(f"'{target}' exists, and is not overwritten; choose another file.")
