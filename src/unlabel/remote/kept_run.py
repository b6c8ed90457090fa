"""A blind run that needs no partner: all that it works on lies with the label holder."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.align import Alignment, known_alignment
from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Table
from unlabel.remote import imputation
from unlabel.remote.imputation import Imputations
from unlabel.remote.kit import Kit
from unlabel.remote.party_home import settled_encoding
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.kept_base import Base
from unlabel.train.label_record import LABELS, LabelRecord
from unlabel.train.tables import read_active, read_words


@dataclass(frozen=True)
class KeptRun:
    """What such a run is opened from.

    rows       of its table
    alignment  which of them all parties share
    base       what was frozen
    """

    kit: Kit
    config: RunConfig
    rows: Table
    record: LabelRecord
    alignment: Alignment
    base: Base

    def means(self) -> Imputations | None:
        """Return the mean of each party's kept embeddings, None where they were withdrawn."""
        return imputation.of_kept(
            self.kit.home / LABEL_FREE, self.record.rows.train, self.alignment, self.kit.digest
        )


def kept_by(kit: Kit, config: RunConfig) -> KeptRun | None:
    """Return the run in a kit where it needs no partner; None where they have to be called."""
    record = LabelRecord.read(kit.home)
    base = Base.read(kit.home / LABEL_FREE) if config.bottoms == "blind" else None
    if base is None or not base.is_settled or record is None:
        return None
    assert config.active is not None
    rows = read_rows(kit, config)
    folder, column = kit.home, config.active.id
    alignment = known_alignment(rows.ids, config.align, folder=folder, column=column)
    if alignment is None:
        return None
    return KeptRun(kit, config, rows, record, alignment, base)


def read_rows(kit: Kit, config: RunConfig) -> Table:
    """Read the label holder's table; empty label cells are no labels where a run may have some."""
    assert config.active is not None
    blank = config.is_label_free or (kit.home / LABELS).exists()
    encoding = settled_encoding(kit.home)
    rows = read_active(config.active, encoding=encoding, blank_labels=blank)
    return read_words(config, ACTIVE, rows)
