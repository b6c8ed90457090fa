"""`Embed` names the version it is for: a party whose weights stem from another one says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from federations import small_holdings
from party.tiny import descend, done, refusal, tiny_party

from unlabel.errors import PartyRefused
from unlabel.federation import Federation
from unlabel.party import PassiveParty
from unlabel.wire import Embed, Embeddings, Restore, Save, Saved

ROWS = torch.arange(3)


def asks(party: PassiveParty, version: int) -> bool:
    """Return whether a party answers for a version."""
    answer = party.handle(Embed(0, ROWS, "predict", version=version))
    assert isinstance(answer, Embeddings) or refusal(answer) == "checkpoint"
    return isinstance(answer, Embeddings)


def test_a_party_answers_for_the_version_that_it_saved_or_returned_to_last(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    assert [asks(party, version) for version in (-1, 0, 1)] == [True, False, False]
    for version in (0, 1):
        descend(party, ROWS)  # what is trained since stems from it still
        assert isinstance(party.handle(Save(0, version)), Saved)
    descend(party, ROWS)
    assert [asks(party, version) for version in (-1, 0, 1)] == [True, False, True]
    done(party.handle(Restore(0, 0, "")))
    assert [asks(party, version) for version in (-1, 0, 1)] == [True, True, False]
    # One that was started anew holds no version's weights before it returned to one.
    anew = tiny_party(tmp_path)
    assert [asks(anew, version) for version in (-1, 0, 1)] == [True, False, False]
    done(anew.handle(Restore(0, 1, "")))
    assert asks(anew, 1)


def test_the_label_holder_names_the_version_it_means(tmp_path: Path) -> None:
    federation = Federation.of(small_holdings(2), tmp_path)
    federation.train()
    before = federation.evaluate()
    party = federation.passives["passive-2"]
    newest = party.newest_version()
    assert isinstance(party.handle(Save(0, newest + 1)), Saved)
    with pytest.raises(PartyRefused, match=rf"'passive-2' .*version {newest + 1}, not {newest}"):
        federation.evaluate()
    done(party.handle(Restore(0, newest, "")))
    assert federation.evaluate() == before
