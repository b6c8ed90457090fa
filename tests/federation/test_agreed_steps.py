"""A party of a kit takes no more steps of training than its agreement allows."""

from __future__ import annotations

from pathlib import Path

import torch
from party.tiny import done, embed, refusal
from small_parties import animals, local_parties, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.wire import Done, Gradients, Prepare, Refused, Restore


def test_a_training_that_is_longer_than_agreed_is_refused(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    kits = provisioned(tmp_path, animals(train="epochs: 2, batch: 32"), seed=0)
    with local_parties(kits, tables) as parties:
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.train()
        shop, rows = parties.homes["shop"].party, torch.arange(320)
        assert isinstance(shop.handle(Prepare(0, rows, 20)), Done)
        for steps in (21, 10**6, 2**62):
            answer = shop.handle(Prepare(0, rows, steps))
            assert isinstance(answer, Refused)
            assert answer.code == "policy"
            assert "agreed to 20 steps over 320 rows" in answer.reason
        version = shop.newest_version()
        digest = shop.required_store().digest(version)
    with local_parties(kits, tables) as parties:  # started anew: nothing is announced yet
        shop = parties.homes["shop"].party
        done(shop.handle(Restore(0, version, digest)))
        values = embed(shop, rows[:32], "train")
        assert refusal(shop.handle(Gradients(0, torch.zeros_like(values)))) == "wrong-request"
