"""Between organisations too, a label holder clears what was forgotten, and every verb goes on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from coded import coded
from small_parties import LABELS, animals, local_parties, provisioned, write_tables

import unlabel as ul
from unlabel import Federation, ForgetSettings
from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.train.label_record import UNKNOWN

ROOM = ForgetSettings(allow_disclosure=True)


def test_cleared_cells_stop_no_verb_and_any_other_change_is_named(tmp_path: Path) -> None:
    kits = provisioned(tmp_path, animals(train="epochs: 3, batch: 32, public: 5"), seed=0)
    tables = write_tables(tmp_path)
    with local_parties(kits, tables):
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.train()
            federation.forget([LABELS[0]]).commit(force=True)
        table = pd.read_csv(tables[ACTIVE])
        table.loc[table["animal"] == LABELS[0], "animal"] = None
        table.to_csv(tables[ACTIVE], index=False)
        with Federation.connect(kits[ACTIVE]) as federation:
            assert (federation.holdings.labels == UNKNOWN).any()
            federation.forget([LABELS[1]]).rollback()
            federation.purge(table_out=tmp_path / "cleared.csv")
            assert (tmp_path / "cleared.csv").read_bytes() == tables[ACTIVE].read_bytes()
            assert not [each for each in federation.copies() if each.state == "left"]
            # What the partners keep is their own statement.
            kept = [each for each in federation.copies() if each.party != ACTIVE]
            assert all("attests" in each.why for each in kept if each.state == "kept")
            person = str(federation.holdings.ids[federation.holdings.rows.train[
                federation.holdings.labels[federation.holdings.rows.train] == 1
            ][0]])  # fmt: skip
            federation.forget(ids=[person], settings=ROOM).commit(force=True)
            certified = federation.certificate(tmp_path / "certificate.json")
            assert LABELS[0] not in set(federation.predict().labels)
            assert (
                federation.evaluate().per_label_accuracy[federation.labels.index(LABELS[0])] is None
            )
        assert ul.verify(certified).holds
        table.loc[table["animal"] == LABELS[2], "animal"] = LABELS[3]
        table.to_csv(tables[ACTIVE], index=False)
        with pytest.raises(RunError, check=coded("labels-changed")):
            Federation.connect(kits[ACTIVE])
