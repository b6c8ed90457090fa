"""What `status` and `rollback` say and do without tables is what they say and do with them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blind_runs import StoppedClock, blind_run, cells
from cli.command_line import contents, nothing_written, one_thread, unlabel
from forget.test_restored import PARTIES, SUBSETS, TIMES, History, history

from unlabel import Federation
from unlabel.errors import UnlabelError
from unlabel.forget import ForgetSettings
from unlabel.party import PassiveParty
from unlabel.unopened import Unopened, open_standing
from unlabel.wire import Message, kind_of

__all__ = ["history", "one_thread"]  # fixtures for the tests here

KINDS = ("supervised", "blind", "tuned")
OPEN = ForgetSettings(method="ascent", visibility="open")
#: With a label that was forgotten before, the rows of whole labels are needed, and the table.
STATES = ("trained", "hidden", "open", "committed")
#: Of a blind or tuned run, in which nothing is hidden by a method.
EXACT = ("trained", "label", "person", "committed")
TABLES = {"table.parquet", "table.columns.jsonl"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a trained run of each kind, whose tables lie in it."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        settings: dict[str, Any] = {"epochs": 2, "batch": 16} if kind == "supervised" else {}
        blind_run(cells(), folder / kind, kind=kind, **settings)
    return {kind: folder / kind for kind in KINDS}


def in_state(run: Path, state: str) -> None:
    """Bring a trained run to a state."""
    if state == "trained":
        return
    opened = Federation.open(run)
    if state == "person":
        opened.forget(ids=["P003", "P010"])
        return
    openly = not opened.config.is_label_free and state != "hidden"
    outcome = opened.forget(["cedar"], settings=OPEN if openly else None)
    if state == "committed":
        outcome.commit(force=True)


def without_tables(run: Path) -> Path:
    """Return a copy of a run in which nothing is left of any table, nor of how it was encoded."""
    copy = Path(shutil.copytree(run, run.with_name(f"{run.name} alone")))
    found = [path for path in copy.rglob("*") if path.name in TABLES | {"encoding.json"}]
    assert len(found) > len(PARTIES)
    for path in found:
        path.unlink()
    with pytest.raises(UnlabelError):
        Federation.open(copy, recovering=True, resume=True)
    return copy


def with_tables(folder: Path, **options: Any) -> Federation:
    """Open a run as all other verbs do."""
    del options["deciding"], options["watch"]
    return Federation.open(folder, **options)


CASES = [(kind, state) for kind in KINDS for state in (STATES if kind == "supervised" else EXACT)]


@pytest.mark.parametrize(("kind", "state"), CASES)
def test_a_status_without_tables_is_the_status_with_them(
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    state: str,
) -> None:
    run = Path(shutil.copytree(runs[kind], tmp_path / "run"))
    in_state(run, state)
    alone = without_tables(run)
    with nothing_written(alone):
        found = unlabel("status", alone), unlabel("status", alone, "--json")
        assert Federation.status_of(alone) == Federation.open(run).status()
    monkeypatch.setattr("unlabel.unopened.open_standing", with_tables)
    expected = unlabel("status", run), unlabel("status", run, "--json")
    assert found[0].out.replace(str(alone), str(run)) == expected[0].out
    assert found[1].json | {"run": ""} == expected[1].json | {"run": ""}


@pytest.mark.parametrize(
    ("kind", "state"),
    [("supervised", "hidden"), ("supervised", "open"), ("blind", "label"), ("tuned", "person")],
)
def test_a_rollback_without_tables_leaves_the_very_files_of_one_with_them(
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    state: str,
) -> None:
    run = Path(shutil.copytree(runs[kind], tmp_path / "run"))
    in_state(run, state)
    alone = without_tables(run)
    waiting = Federation.status_of(alone).staged
    monkeypatch.setattr("unlabel.party.ledger.datetime", StoppedClock)
    told: dict[str, list[str]] = {"with": [], "without": []}
    with monkeypatch.context() as inside:
        inside.setattr(PassiveParty, "handle", noting(told["with"], PassiveParty.handle))
        opened = Federation.open(run)
        told["with"].clear()
        assert opened.rollback() == waiting
    with monkeypatch.context() as inside:
        inside.setattr(PassiveParty, "handle", noting(told["without"], PassiveParty.handle))
        assert unlabel("rollback", alone, "--json").json["request"] == waiting
    left = contents(run)
    assert contents(alone) == {
        name: digest
        for name, digest in left.items()
        if Path(name).name not in TABLES | {"encoding.json"}
    }
    decided = [each for each in told["with"] if each in ("Commit", "Rollback")]
    assert [each for each in told["without"] if each in ("Commit", "Rollback")] == decided
    assert bool(decided) == (kind != "blind")
    repeated = unlabel("rollback", alone)
    assert repeated.sentence == unlabel("rollback", run).sentence


def noting(
    told: list[str], handle: Callable[[PassiveParty, Message], Message]
) -> Callable[[PassiveParty, Message], Message]:
    def noted(party: PassiveParty, message: Message) -> Message:
        told.append(kind_of(message))
        return handle(party, message)

    return noted


def test_a_silent_rollback_reads_the_table_where_whole_labels_were_forgotten_before(
    history: History, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(history.backups["committed"], tmp_path / "run"))
    Federation.open(run).forget(["cat"])
    assert not isinstance(open_standing(run, deciding=True), Unopened)
    assert isinstance(open_standing(run), Unopened)
    request = Federation.status_of(run).staged
    assert Federation.rollback_of(run) == request
    assert Federation.open(run).status() == Federation.status_of(run)


@pytest.mark.parametrize("parties", [(), *SUBSETS], ids=lambda parties: "+".join(parties) or "none")
@pytest.mark.parametrize("when", TIMES[:-1])
def test_a_restored_folder_is_told_and_refused_without_tables_as_with_them(
    history: History, tmp_path: Path, when: str, parties: tuple[str, ...]
) -> None:
    run = history.restored(tmp_path / "run", when, *parties)
    for recovering in (False, True):
        expected = said(lambda r=recovering: Federation.open(run, recovering=r).status())  # type: ignore[misc]
        assert said(lambda r=recovering: open_standing(run, recovering=r).status()) == expected  # type: ignore[misc]
    assert said(lambda: Federation.rollback_of(run)) == said(
        lambda: Federation.open(run).rollback()
    )


def said(act: Callable[[], object]) -> object:
    """Return what a verb returned, or in which words it refused."""
    try:
        return act()
    except UnlabelError as error:
        return type(error), error.code, str(error)


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("what", ["weights", "manifest", "other weights", "ledger", "gone"])
def test_damage_is_told_without_tables_as_with_them(
    history: History, tmp_path: Path, party: str, what: str
) -> None:
    run = Path(shutil.copytree(history.backups["committed"], tmp_path / "run"))
    versions = run / party / "versions"
    newest = max(versions.glob("*.json"))
    if what == "gone":
        newest.unlink()
    elif what == "other weights":  # whole, but of another time
        older = min(versions.glob("*.safetensors"))
        shutil.copy(older, newest.with_suffix(".safetensors"))
    else:
        path = {"weights": newest.with_suffix(".safetensors"), "manifest": newest}.get(
            what, run / party / "ledger.jsonl"
        )
        path.write_bytes(path.read_bytes()[:-9])
    for recovering in (False, True):
        expected = said(lambda r=recovering: Federation.open(run, recovering=r).status())  # type: ignore[misc]
        assert isinstance(expected, tuple) or what == "gone"
        assert said(lambda r=recovering: open_standing(run, recovering=r).status()) == expected  # type: ignore[misc]


def test_settings_that_were_changed_are_told_without_tables_too(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(runs["supervised"], tmp_path / "run"))
    path = run / "run.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 7"))
    expected = said(lambda: Federation.open(run, recovering=True))
    assert isinstance(expected, tuple)
    assert said(lambda: Federation.status_of(run)) == expected
