"""A hidden request is dropped in the words of a commit, whenever the process dies meanwhile."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from forget.crashing import UNOPENED
from forget.test_transaction import (
    EARLIER,
    LABEL,
    LABELS,
    PARTIES,
    PASSIVE,
    Case,
    Crashes,
    Truth,
    Weights,
    crash,
    decisions,
    equal,
    in_memory,
    numbers,
    on_disk,
    trained,
)

from unlabel import Federation
from unlabel.errors import ForgetError, UnlabelError
from unlabel.forget import ForgetSettings, Forgotten
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.plan import has_hidden
from unlabel.forget.slots import run_slot

__all__ = ["one_thread", "trained"]  # fixtures for the tests here

#: Quick: what is tested is what happens around it.
METHOD = Hidden(steps=40, batch=64, lr=3e-2)
ROLLBACK = Case("hidden request", "rollback")
AGAIN = Case("after a commit", "rollback")


@dataclass(frozen=True)
class Dropped:
    """A run with a hidden request, which is to be dropped.

    base     what the run was before the request: its version, its weights, what was forgotten
    request  the id of the request
    """

    run: Path
    base: tuple[int, Weights, Forgotten]
    request: str

    def deaths(self, case: Case, run: Path, verb: str, out: Path) -> Crashes:
        """Return a run after every death of a verb."""
        truths = {case.request: Truth(self.base[0], self.base[1], {}, [])}
        return crash({case: (run, verb)}, truths, out)[case]


def drop(trained: Path, run: Path, case: Case) -> Dropped:
    """Forget a label in a copy of a trained run."""
    shutil.copytree(trained, run)
    federation = Federation.open(run)
    if case is AGAIN:  # a version of a request that was kept, with one about nothing after it
        federation.forget([EARLIER], settings=ForgetSettings(method=METHOD)).commit(force=True)
        run_slot(federation, (), ForgetSettings())
    version = numbers(run, "versions")[-1]
    base = (version, on_disk(run, version), federation.forgotten)
    return Dropped(
        run, base, federation.forget([LABEL], settings=ForgetSettings(method=METHOD)).result.request
    )


@pytest.mark.long
@pytest.mark.parametrize("verb", ["rollback", UNOPENED])
def test_a_death_at_any_moment_of_a_silent_rollback_leaves_it_undecided_or_done(
    trained: Path, tmp_path: Path, verb: str
) -> None:
    dropped = drop(trained, tmp_path / "run", ROLLBACK)
    once = dropped.deaths(ROLLBACK, dropped.run, verb, tmp_path / "once")
    assert expect_all(dropped, once) == {"staged", "dropped"}


@pytest.mark.long
def test_a_death_at_any_moment_of_one_after_a_commit_and_then_of_the_recovery(
    trained: Path, tmp_path: Path
) -> None:
    dropped = drop(trained, tmp_path / "run", AGAIN)
    once = dropped.deaths(AGAIN, dropped.run, "rollback", tmp_path / "once")
    apart = once.after("after Commit at passive-1")
    twice = dropped.deaths(AGAIN, apart, "recover", tmp_path / "twice")
    assert expect_all(dropped, once) == {"staged", "dropped"}
    assert expect_all(dropped, twice) == {"dropped"}


def expect_all(dropped: Dropped, crashes: Crashes) -> set[str]:
    assert len(crashes.moments) > 10
    assert not [moment for moment, _ in crashes.moments if "Rollback" in moment]
    reached = set()
    for state, folder in enumerate(crashes.folders):
        try:
            reached.add(expect_whole(folder, dropped.request, *dropped.base))
        except (AssertionError, UnlabelError) as error:
            when = next(moment for moment, number in crashes.moments if number == state)
            raise AssertionError(f"{when} ({folder.name}): {error}") from error
    return reached


def expect_whole(run: Path, request: str, base: int, old: Weights, forgotten: Forgotten) -> str:
    """Check a run after a death: recover, decide, forget once more, and purge."""
    try:
        Federation.open(run)
    except ForgetError as error:
        assert "A rollback was interrupted; run `recover()`" in str(error)  # noqa: PT017
    federation = Federation.open(run, recovering=True)
    said = federation.recover()
    waits = bool(federation.status().parties["active"].staged)
    with nothing_written(run):
        repeated = federation.recover()
    if waits:
        assert said == repeated == f"request {request} is staged and waits for commit or rollback"
        assert not any(decisions(run, request).values())
        assert numbers(run, "versions")[-1] == base
        assert federation.rollback() == request
    else:
        assert repeated == "nothing to recover"
        # It was done, and only a line may have been missing; or it is done now.
        assert said in (f"rolled back request {request}", "nothing to recover")
    expect_dropped(run, request, base, old, forgotten)
    # What the others were told to commit is a version like any other, for the next request too.
    federation = Federation.open(run)
    federation.forget([LABEL], settings=ForgetSettings(method=METHOD)).commit(force=True)
    assert LABELS.index(LABEL) in federation.forgotten.labels
    assert has_hidden(federation)
    assert federation.purge() == base + 2
    assert [e.event for e in federation.ledger()["active"]][-2:] == ["commit", "purge"]
    return "staged" if waits else "dropped"


def expect_dropped(run: Path, request: str, base: int, old: Weights, forgotten: Forgotten) -> None:
    """Check that all are on the weights from before, each in the words that are its own."""
    federation = Federation.open(run)
    assert numbers(run, "versions")[-1] == base + 1
    assert numbers(run, "staged") == ()
    assert equal(in_memory(federation), old)
    assert equal(on_disk(run, base + 1), old)
    assert federation.forgotten == forgotten
    found = decisions(run, request)
    assert found.pop("active") == ["rollback"]
    assert found == {party: ["commit"] for party in PASSIVE}
    federation.ledger()  # chains and heads are whole
    assert not (run / "active" / "secrets" / f"{request}.json").exists()
    standing = federation.status().parties
    assert len({(s.version, s.staged) for s in standing.values()}) == 1
    assert list(standing) == list(PARTIES)


def test_a_queue_survives_a_recovery(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    assert unlabel("forget", run, "--label", LABEL, "--queue", "--json").json["place"] == 1
    path = run / "active" / "secrets" / "queue.json"
    assert path.stat().st_mode & 0o077 == 0
    stray = path.with_name("00ff.json")
    stray.write_text("{}")
    assert unlabel("recover", run).code == 0
    assert not stray.exists()
    assert json.loads(path.read_text()) == [[LABEL]]
