"""A party whose disk is full, over connections: who and why are named at once, and nothing lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from federation.met_parties import connected
from party.small_disk import filled, mounted
from small_parties import animals, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.errors import PartyRefused, RunError
from unlabel.forget import ForgetSettings
from unlabel.remote.local_cluster import free_port

#: Seconds within which it is known; a training or a request itself takes less than one.
SOON = 10.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "4m") as folder:
        yield folder


@pytest.mark.parametrize("party", ["shop", ACTIVE])
def test_whose_disk_is_full_and_why_is_said_within_seconds(
    disk: Path, tmp_path: Path, party: str
) -> None:
    tables = write_tables(tmp_path)
    kits = provisioned(tmp_path, animals(port=free_port()), seed=0)
    (kits[party] / "state").symlink_to(disk, target_is_directory=True)
    settings = ForgetSettings(method="ascent", visibility="open", allow_collapse=True)
    refusal = PartyRefused if party == "shop" else RunError
    with (
        connected(kits, tables),
        Federation.connect(kits[ACTIVE], resume=True) as federation,
    ):
        sessions = federation.client.sessions
        for act in (federation.train, lambda: federation.forget(["quokka"], settings=settings)):
            with filled(disk):
                began = time.monotonic()
                with pytest.raises(refusal, match="No space left on device") as error:
                    act()
                assert time.monotonic() - began < SOON
                assert party in str(error.value)
            act()
        assert federation.client.sessions == sessions  # nothing was begun again for it
        assert federation.status().together
        federation.rollback()
