"""Backups of kits that are put back: what was forgotten since does not come back with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from coded import coded
from small_parties import animals, local_parties, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, RunError
from unlabel.forget import ForgetSettings
from unlabel.remote.backup import back_up
from unlabel.remote.kit import Kit
from unlabel.remote.restore import restore


def test_a_backup_of_before_a_decision_is_refused_by_the_others(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    kits = provisioned(tmp_path, animals(), seed=0)
    settings = ForgetSettings(method="ascent", visibility="open")

    def back_all_up(when: str) -> None:
        for name, kit in kits.items():
            back_up(Kit.read(kit), tmp_path / when / f"{name}.tar")

    def bring_back(when: str, *names: str, older: bool = True) -> None:
        for name in names:
            restore(tmp_path / when / f"{name}.tar", kits[name], older=older)

    with local_parties(kits, tables), Federation.connect(kits[ACTIVE], resume=True) as fed:
        fed.train()
        back_all_up("trained")  # while it runs
        fed.forget(["quokka"], settings=settings)
        fed.commit(force=True)
        back_all_up("committed")
        fed.purge()
    back_all_up("purged")

    with pytest.raises(RunError, check=coded("older-backup")):
        bring_back("trained", "shop", older=False)
    bring_back("trained", "shop")
    with local_parties(kits, tables):
        for recovering in (False, True):
            with pytest.raises(CheckpointError, check=coded("restored")):
                Federation.connect(kits[ACTIVE], recovering=recovering).recover()
    bring_back("purged", "shop", older=False)  # what remembers more may always be restored
    bring_back("trained", ACTIVE)
    with local_parties(kits, tables), pytest.raises(CheckpointError, check=coded("restored")):
        Federation.connect(kits[ACTIVE], recovering=True)
    bring_back("purged", ACTIVE, older=False)
    bring_back("committed", "loan")
    with local_parties(kits, tables):
        with pytest.raises(CheckpointError, check=coded("restored")):
            Federation.connect(kits[ACTIVE])
        with Federation.connect(kits[ACTIVE], recovering=True) as fed:
            fed.recover()
            assert fed.status().together
    versions = [path.name for path in (kits["loan"] / "state/loan/versions").glob("*.json")]
    assert len(versions) == 1  # the older one was purged once more
    bring_back("trained", *kits)  # all of them: nobody is left who remembers
    with local_parties(kits, tables), Federation.connect(kits[ACTIVE]) as fed:
        assert "quokka" in fed.labels
        assert not fed.forgotten.labels
