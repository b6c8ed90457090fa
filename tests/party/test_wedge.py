"""One message must not lock a party for good: versions move by one, a locked one is repaired."""

from __future__ import annotations

from pathlib import Path

import pytest
from party.tiny import BEGIN_REQUEST, done, refusal, tiny_party

from unlabel.errors import RunError
from unlabel.party import PassiveParty
from unlabel.party.repair import Kept, drop_newer, kept_in
from unlabel.wire import Commit, Restore, RetainVersions, Save, Saved, Stage

#: Numbers that no training and no request reaches.
FAR = (2**62, 2**63 - 1, 10**6, 3)


def saved(party: PassiveParty, version: int) -> None:
    assert isinstance(party.handle(Save(0, version)), Saved)


def staged(party: PassiveParty, version: int) -> str:
    done(party.handle(BEGIN_REQUEST))
    answer = party.handle(Stage(0, "9f", version, "{}"))
    assert isinstance(answer, Saved), answer
    return answer.digest


@pytest.mark.parametrize("number", FAR)
def test_a_version_far_ahead_is_refused_and_the_next_request_is_staged(
    tmp_path: Path, number: int
) -> None:
    party = tiny_party(tmp_path)
    for version in (0, 1):
        saved(party, version)
    assert refusal(party.handle(Save(0, number))) == "wrong-request"
    assert refusal(party.handle(Stage(0, "a1", number, "{}"))) == "wrong-request"
    digest = staged(party, 2)
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert party.required_store().versions() == (0, 1, 2)


@pytest.mark.parametrize("number", FAR)
def test_a_party_without_versions_begins_at_the_beginning(tmp_path: Path, number: int) -> None:
    party = tiny_party(tmp_path)
    assert refusal(party.handle(Save(0, number))) == "wrong-request"
    assert refusal(party.handle(Stage(0, "a1", number, "{}"))) == "wrong-request"
    saved(party, 0)


def test_a_version_may_be_saved_again_but_no_older_one_is_overwritten(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    for version in (0, 1, 1, 2):  # the label holder lost 1 before it noted it
        saved(party, version)
    assert refusal(party.handle(Save(0, 0))) == "wrong-request"
    done(party.handle(RetainVersions(0, (0, 2))))
    saved(party, 3)
    done(party.handle(Restore(0, 0, "")))
    saved(party, 4)


def locked(home: Path) -> PassiveParty:
    """Make a party that an older release was made to keep a version far ahead at."""
    party = tiny_party(home)
    for version in (0, 1):
        saved(party, version)
    store = party.required_store()
    store.save(2**62, party.bottom.state(), store.facts(1))
    return party


def test_a_party_that_was_locked_is_repaired_and_goes_on(tmp_path: Path) -> None:
    party = locked(tmp_path)
    assert refusal(party.handle(Save(0, 2))) == "wrong-request"
    assert kept_in(tmp_path) == Kept((0, 1, 2**62), ())
    assert drop_newer(tmp_path, 1) == Kept((2**62,), ())
    assert drop_newer(tmp_path, 1) == Kept((), ())
    digest = staged(party, 2)
    done(party.handle(Commit(0, "9f", 2, digest)))


def test_what_was_staged_far_ahead_goes_too_and_nothing_committed_does(tmp_path: Path) -> None:
    party = locked(tmp_path)
    store = party.required_store()
    store.staged.save(2**62 + 1, party.bottom.model_state(), {**store.facts(1), "request": "x"})
    for absent in (-1, 2):
        with pytest.raises(RunError, match="does not lie here, and nothing was dropped"):
            drop_newer(tmp_path, absent)
    assert drop_newer(tmp_path, 1) == Kept((2**62,), (2**62 + 1,))
    done(party.handle(Commit(0, "9f", 2, staged(party, 2))))
    with pytest.raises(RunError, match="Request 9f was committed as version 2"):
        drop_newer(tmp_path, 1)
    assert kept_in(tmp_path) == Kept((0, 1, 2), ())


def test_a_repair_keeps_the_request_that_waits_for_its_end(tmp_path: Path) -> None:
    """The label holder may have decided on it."""
    party = tiny_party(tmp_path)
    for version in (0, 1):
        saved(party, version)
    digest = staged(party, 2)
    store = party.required_store()
    store.save(2**62, party.bottom.state(), store.facts(1))
    assert drop_newer(tmp_path, 1) == Kept((2**62,), ())
    done(party.handle(Commit(0, "9f", 2, digest)))
