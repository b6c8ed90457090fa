"""What was forgotten does not come back with a folder that is restored from a backup."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cli.command_line import one_thread
from coded import coded
from safetensors.torch import load_file

from unlabel import Federation
from unlabel.config import ModelSettings, RunConfig, TrainSettings
from unlabel.errors import CheckpointError, PartyRefused, UnlabelError
from unlabel.forget import ForgetSettings, Transaction

__all__ = ["one_thread"]  # a fixture for every test here

PARTIES = ("active", "passive-1", "passive-2")
PASSIVE = PARTIES[1:]
FORGET = ForgetSettings(method="ascent", visibility="open")
#: When backups were taken; the run is as it was after the last of them.
TIMES = ("trained", "staged", "committed", "purged")


@dataclass(frozen=True)
class History:
    """A run and what backups of it hold.

    run      after a label was forgotten openly, which moves every party's weights, and purged
    backups  copies of the whole folder by when they were taken
    """

    run: Path
    backups: dict[str, Path]

    def restored(self, target: Path, when: str, *parties: str) -> Path:
        """Return a copy of the run in which some parties' folders are those of a backup."""
        shutil.copytree(self.run, target)
        for party in parties:
            shutil.rmtree(target / party)
            shutil.copytree(self.backups[when] / party, target / party)
        return target


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("history")
    y = np.arange(300) % 4
    x = np.random.default_rng(0).integers(0, 60, (len(y), 8, 8), dtype=np.uint8)
    for label in range(4):
        x[y == label, 2 * label : 2 * label + 2] += 150
    np.savez(folder / "zoo.npz", x=x, y=y, classes=np.array(["ant", "bee", "cat", "dog"]))
    config = RunConfig(
        data=str(folder / "zoo.npz"),
        parties=2,
        model=ModelSettings(bottom="mlp"),
        train=TrainSettings(epochs=2, batch=32),
    )
    federation = Federation.create(config, folder / "run")
    steps: dict[str, Callable[[], object]] = {
        "trained": federation.train,
        "staged": lambda: federation.forget(["dog"], settings=FORGET),
        "committed": lambda: federation.commit(force=True),
        "purged": federation.purge,
    }
    backups = {}
    for when, step in steps.items():
        step()
        backups[when] = Path(shutil.copytree(folder / "run", folder / when))
    return History(folder / "run", backups)


def versions(run: Path, party: str) -> set[int]:
    return {int(path.stem) for path in (run / party / "versions").glob("*.json")}


def holds_old_weights(history: History, run: Path) -> bool:
    """Return whether any party of a run has weights from before the label was forgotten."""
    return any(
        path.read_bytes()
        == (history.backups["trained"] / party / "versions" / path.name).read_bytes()
        for party in PARTIES
        for path in (run / party).rglob("*.safetensors")
        if (history.backups["trained"] / party / "versions" / path.name).exists()
    )


def test_the_history_is_what_these_tests_need(history: History) -> None:
    before = load_file(
        next((history.backups["trained"] / "passive-1/versions").glob("*2.safetensors"))
    )
    newest = max(versions(history.run, "passive-1"))
    after = load_file(history.run / f"passive-1/versions/{newest:06d}.safetensors")
    assert any(not after[name].equal(before[name]) for name in before if name in after)
    assert not holds_old_weights(history, history.run)
    assert Federation.open(history.run).status().together


SUBSETS = [subset for size in (1, 2) for subset in itertools.combinations(PARTIES, size)]


@pytest.mark.parametrize("parties", SUBSETS, ids="+".join)
@pytest.mark.parametrize("when", TIMES[:-1])
def test_a_restored_folder_is_noticed_and_never_brings_back_what_was_forgotten(
    history: History, tmp_path: Path, when: str, parties: tuple[str, ...]
) -> None:
    run = history.restored(tmp_path / "run", when, *parties)
    newest = max(versions(history.run, "active"))
    if "active" in parties and when != "committed":  # another party remembers more
        for recovering in (False, True):
            with pytest.raises(CheckpointError, check=coded("restored")):
                Federation.open(run, recovering=recovering)
        return
    if "active" not in parties:
        with pytest.raises(CheckpointError, check=coded("restored")) as refused:
            Federation.open(run)
        assert "recover" in str(refused.value)
    opened = Federation.open(run, recovering=True)
    if when == "trained":
        with pytest.raises(CheckpointError, check=coded("restored")):
            opened.recover()
        return
    opened.recover()
    assert not holds_old_weights(history, run)
    assert {p: versions(run, p) for p in PARTIES} == {key: {newest} for key in PARTIES}
    opened = Federation.open(run)  # nothing is left to do, and the ledgers say what was done
    assert opened.status().together
    assert opened.version == newest
    last = opened.ledger()["active"][-1].event
    assert last == ("purge" if "active" in parties else "restore")
    for party in PARTIES:
        ours = load_file(run / party / "versions" / f"{newest:06d}.safetensors")
        theirs = load_file(history.run / party / "versions" / f"{newest:06d}.safetensors")
        assert all(ours[name].equal(theirs[name]) for name in theirs)


def test_nobody_notices_where_all_are_restored_to_one_time(
    history: History, tmp_path: Path
) -> None:
    run = history.restored(tmp_path / "run", "trained", *PARTIES)
    assert Federation.open(run).evaluate().accuracy > 0.5  # docs/operations.md says so


def test_files_that_a_purge_removed_are_refused_by_whoever_has_them(
    history: History, tmp_path: Path
) -> None:
    for party in PARTIES:
        run = history.restored(tmp_path / party, "purged")
        shutil.copytree(
            history.backups["trained"] / party / "versions",
            run / party / "versions",
            dirs_exist_ok=True,
        )
        with pytest.raises(UnlabelError) as refused:
            Federation.open(run)
        assert isinstance(refused.value, CheckpointError | PartyRefused)
        assert "purged" in str(refused.value)


def test_a_later_training_does_not_hide_that_a_party_was_restored(
    history: History, tmp_path: Path
) -> None:
    run = history.restored(tmp_path / "run", "committed", "passive-1")
    Federation.open(run, recovering=True).recover()
    heads = Transaction(Federation.open(run).active).ledger.entries()[-1].note["heads"]
    assert set(heads) == set(PASSIVE)
    # The same backup once more: the line of the restore is lacking now.
    shutil.rmtree(run / "passive-1")
    shutil.copytree(history.backups["committed"] / "passive-1", run / "passive-1")
    with pytest.raises(CheckpointError, check=coded("restored")):
        Federation.open(run)


def test_status_says_in_what_a_restored_folder_differs(history: History, tmp_path: Path) -> None:
    assert Federation.status_of(history.run).differences == ()
    run = history.restored(tmp_path / "committed", "committed", "passive-1")
    (sentence,) = Federation.status_of(run).differences
    assert sentence.startswith("The ledger of party 'passive-1' ends in ")
    assert "its folder is that of a backup" in sentence
    newest = max(versions(history.run, "active"))
    run = history.restored(tmp_path / "trained", "trained", "passive-2")
    found = Federation.status_of(run)
    assert not found.together
    older = f"Party 'passive-2' is on version {newest - 1}, and the label holder on {newest}."
    assert found.differences[0] == older
    run = history.restored(tmp_path / "staged", "staged", "passive-2")
    told = " ".join(Federation.status_of(run).differences)
    assert "Party 'passive-2' has request " in told
    assert " staged, and the label holder no request staged." in told
