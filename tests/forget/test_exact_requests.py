"""A label-free run that forgot is the run that never knew: the same tensors, parts and figures.

The reference is a run on the same ids and features whose forgotten label cells are empty.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from blind_runs import (
    FIT,
    IDS,
    ROWS,
    TESTS,
    Cells,
    blind_run,
    cells,
    differences,
    features,
    tables,
    without,
    write_files,
)
from cli.command_line import nothing_written, one_thread
from coded import coded
from forget.crashing import in_child
from hypothesis import given, settings
from hypothesis import strategies as st

from unlabel import Federation
from unlabel.config import FitSettings, LabelFreeSettings, ModelSettings, RunConfig
from unlabel.config.data import Columns
from unlabel.data.dataset import Array
from unlabel.errors import ForgetError, RunError, SettingsError
from unlabel.forget import Outcome, Queue, Transaction
from unlabel.train import Watcher
from unlabel.train.label_record import LabelRecord

__all__ = ["one_thread"]  # a fixture for every test here

NAMES = ("alder", "beech", "cedar", "elm")
LABELS = cells(names=NAMES)
TOPS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"top": "mlp", "balance": True},
    "own module": {"top": "small_models:dropout_top"},
    "logistic": {"top": "sklearn:LogisticRegression", "balance": True},
    "trees": {
        "top": "sklearn:HistGradientBoostingClassifier",
        "options": {"max_iter": 3, "min_samples_leaf": 5},
    },
    "views": {"views": 2, "balance": True},
    "no features": {"active_part": False},
    "contrast": {"objective": "contrast"},
    "pretrained": {"objective": "pretrained", "bottom": "blind_runs:scaled_by_two"},
    "encoded": {"encoded": True},
    "as many passes as rows ask for": {"fit": FitSettings(batch=4)},
    "tuned": {"kind": "tuned", "balance": True},
    "tuned without features": {"kind": "tuned", "active_part": False, "encoded": True},
}
ROW_PARTS = {
    part: getattr(blind_run(LABELS, train=False).holdings.rows, part).tolist()
    for part in ("train", "validation", "test")
}


def of_label(*names: str, labels: Array = LABELS) -> list[int]:
    return np.flatnonzero(np.isin(labels.astype(str), names)).tolist()


def people(rows: Sequence[int]) -> list[str]:
    return [str(name) for name in IDS[list(rows)]]


@pytest.mark.parametrize("form", TOPS.values(), ids=TOPS)
def test_a_request_ends_in_the_run_that_never_knew(form: dict[str, Any]) -> None:
    some = [row for row in (*ROW_PARTS["train"][:5], ROW_PARTS["test"][3]) if LABELS[row] != "elm"]
    run = blind_run(LABELS, **form)
    run.forget(["elm"]).commit()
    assert run.labels == NAMES[:3]
    assert differences(run, blind_run(without(LABELS, of_label("elm")), **form)) == []
    run.forget(ids=people(some)).commit()
    assert differences(run, blind_run(without(LABELS, of_label("elm") + some), **form)) == []


@pytest.mark.parametrize("form", [{}, {"kind": "tuned", "mixup": 0.4}], ids=["blind", "tuned"])
def test_a_batch_may_be_larger_than_what_is_left(form: dict[str, Any]) -> None:
    most = ROW_PARTS["train"][9:]
    run = blind_run(LABELS, **form)
    run.forget(ids=people(most)).commit()
    assert differences(run, blind_run(without(LABELS, most), **form)) == []


@pytest.mark.parametrize("part", ROW_PARTS)
@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_one_person_of_any_part_is_forgotten_exactly(kind: str, part: str) -> None:
    row = ROW_PARTS[part][1]
    run = blind_run(LABELS, kind=kind)
    run.forget(ids=people([row])).commit()
    assert differences(run, blind_run(without(LABELS, [row]), kind=kind)) == []


@settings(max_examples=6)
@given(data=st.data())
def test_any_sequence_ends_in_the_same_run_whatever_its_order(data: st.DataObject) -> None:
    asked: list[tuple[str, Any]] = [
        *(("label", name) for name in data.draw(st.lists(st.sampled_from(NAMES), max_size=2))),
        *(("person", row) for row in data.draw(st.lists(st.integers(0, ROWS - 1), max_size=6))),
    ]
    asked = data.draw(st.permutations(list(dict.fromkeys(asked))))
    run, erased = blind_run(LABELS), set[int]()
    for kind, what in asked:
        rows = set(of_label(what)) if kind == "label" else {what}
        if not rows - erased or (kind == "person" and what in erased):
            continue
        wanted = {"labels": [what]} if kind == "label" else {"ids": people([what])}
        outcome = run.forget(**wanted)
        if data.draw(st.booleans()):
            outcome.rollback()
            continue
        outcome.commit()
        erased |= rows
        if data.draw(st.booleans()):
            run.purge()
    assert differences(run, blind_run(without(LABELS, sorted(erased)))) == []


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_labels_and_people_purged_reopened_and_copied_stay_exact(kind: str, tmp_path: Path) -> None:
    run = blind_run(LABELS, tmp_path / "run", kind=kind)
    some = [row for row in range(30) if LABELS[row] not in ("beech", "cedar")]
    run.forget(["beech"]).commit()
    run.forget(["elm"]).rollback()
    run.forget(ids=people(some)).commit()
    reference = blind_run(without(LABELS, of_label("beech") + some), kind=kind)
    assert differences(run, reference) == []
    run.purge()
    for other in (run, Federation.open(run.folder), Federation.open(run.folder).copy()):
        assert differences(other, reference) == []
    later = Federation.open(run.folder)
    later.forget(["cedar"]).commit()
    last = blind_run(without(LABELS, of_label("beech", "cedar") + some), kind=kind)
    run.refresh()  # another process went on
    for other in (later, run, Federation.open(run.folder)):
        assert differences(other, last) == []


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_the_last_person_of_a_label_takes_its_name_along(kind: str) -> None:
    row = ROW_PARTS["train"][0]
    labels = np.where(LABELS == "elm", "alder", LABELS)
    labels[row] = "elm"
    run = blind_run(labels, kind=kind, balance=True)
    assert "elm" in run.labels
    run.forget(ids=people([row])).commit()
    assert run.labels == NAMES[:3]
    assert differences(run, blind_run(without(labels, [row]), kind=kind, balance=True)) == []


def test_a_label_without_rows_to_train_on_is_told_and_forgotten_like_any_other() -> None:
    labels = np.where(LABELS == "elm", "alder", LABELS)
    labels[ROW_PARTS["test"][0]] = "elm"
    run = blind_run(labels, balance=True)
    assert "Label 'elm' has no row in: train, validation. Ids alone decide the parts." in run.notes
    assert run.labels == NAMES
    run.forget(["beech"]).commit()
    reference = blind_run(without(labels, of_label("beech", labels=labels)), balance=True)
    assert differences(run, reference) == []


# What labels may be


COLUMNS: dict[str, Sequence[Any]] = {
    "numbers": (1, 2, 10),
    "fractions": (0.5, 2.0, 1e3),
    "codes with zeros": ("01", "02", "x"),
    "truths and a text": (True, False, "maybe"),
    "days": tuple(pd.to_datetime(["2020-01-01", "2021-05-05", "1999-12-31"])),
    "names with blanks": ("a  b", " c", "d"),
}


def typed(values: Sequence[Any], cleared: Sequence[int] = ()) -> pd.Series:
    """Return a column of one of three values, of the type that pandas gives it, with gaps."""
    chosen = np.searchsorted(sorted(set(cells())), cells().astype(str))
    column = pd.Series(list(values))[chosen].reset_index(drop=True)
    if len(cleared):
        column[list(cleared)] = None  # numbers become fractions then
    return column


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("form", ["frame", "csv"])
def test_labels_of_any_type_are_named_as_if_cells_had_been_empty_from_the_start(
    form: str, values: Sequence[Any], tmp_path: Path
) -> None:
    def begun(cleared: Sequence[int]) -> Federation:
        frames = {name: pd.DataFrame(table) for name, table in tables(LABELS).items()}
        frames["bank"]["grown"] = typed(values, cleared)
        if form == "csv":
            config = write_files(tmp_path / f"{len(cleared)}", LABELS)
            assert config.active is not None
            frames["bank"].to_csv(config.active.table, index=False)
            run = Federation.create(config)
        else:
            run = Federation.from_frames(
                frames,
                label="grown",
                missing="flag",
                bottoms="blind",
                model=ModelSettings(top="linear"),
                fit=FIT,
            )
        run.train()
        return run

    for number in (0, 2):
        run = begun([])
        cleared = (run.holdings.labels == number).nonzero()[:, 0].tolist()
        run.forget([run.labels[number]]).commit()
        assert differences(run, begun(cleared)) == []


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_in_one_file_split_between_parties_are_the_same_labels_with_gaps(
    ending: str, tmp_path: Path
) -> None:
    def begun(cleared: Sequence[int]) -> Federation:
        table = pd.DataFrame({f"x{column}": features()[:, column] for column in range(6)})
        table["y"] = typed((1, 2, 10), cleared)
        path = tmp_path / f"{len(cleared)}.{ending}"
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        config = RunConfig(
            data=str(path),
            columns=Columns(label="y"),
            bottoms="blind",
            model=ModelSettings(top="linear"),
            fit=FIT,
        )
        run = Federation.create(config)
        run.train()
        return run

    run = begun([])
    cleared = (run.holdings.labels == 2).nonzero()[:, 0].tolist()
    run.forget([run.labels[2]]).commit()
    assert differences(run, begun(cleared)) == []


def test_a_label_may_be_written_otherwise_than_the_run_names_it() -> None:
    run = blind_run(np.where(LABELS == "elm", "007", LABELS))
    assert "7" in run.labels
    run.forget(["007"]).commit()
    assert "7" not in run.labels


# Files, other processes, changed tables


def trained(config: RunConfig, folder: Path) -> Federation:
    run = Federation.create(config, folder)
    run.train()
    return run


def tuned(config: RunConfig) -> RunConfig:
    return replace(
        config,
        bottoms="tuned",
        label_free=LabelFreeSettings(epochs=1, batch=32),
        train=replace(config.train, epochs=2, batch=16),
    )


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_cleared_and_changed_tables_lead_to_the_run_on_what_they_hold(
    kind: str, tmp_path: Path
) -> None:
    def files(name: str, labels: Cells) -> RunConfig:
        config = write_files(tmp_path / name, labels)
        return config if kind == "blind" else tuned(config)

    left = without(LABELS, of_label("beech"))
    run = trained(files("tables", LABELS), tmp_path / "run")
    run.forget(["beech"]).commit()
    run.purge()
    reference = trained(files("reference", left), tmp_path / "other")
    files("tables", left)  # their owner empties the cells
    assert differences(Federation.open(run.folder), reference) == []
    updated, _ = Federation.update(run.folder)
    assert differences(updated, reference) == []

    def grown(name: str, new: Sequence[str | None]) -> RunConfig:
        """Add six people to all tables, with labels of their own."""
        config = files(name, left)
        for party in ("bank", "shop", "gym"):
            path = tmp_path / name / f"{party}.csv"
            table = pd.read_csv(path)
            more = table.iloc[: len(new)].assign(id=[f"N{n}" for n in range(len(new))])
            if party == "bank":
                more["grown"] = new
            pd.concat([table, more]).to_csv(path, index=False)
        return config

    # New people bring the forgotten label back, a new one, and none at all.
    grown("tables", ["beech", "alder", None, "oak", "cedar", "oak"])
    updated, _ = Federation.update(run.folder)
    known = grown("reference", [None, "alder", None, "oak", "cedar", "oak"])
    assert updated.labels == ("alder", "cedar", "elm", "oak")
    assert differences(updated, trained(known, tmp_path / "third")) == []
    assert differences(Federation.open(run.folder), updated) == []


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_a_forgotten_label_leaves_the_table_of_people_whom_a_partner_lacks_too(
    kind: str, tmp_path: Path
) -> None:
    config = write_files(tmp_path / "t", LABELS)
    bank, shop = tmp_path / "t" / "bank.csv", tmp_path / "t" / "shop.csv"
    pd.read_csv(shop).drop(index=of_label("beech")[:4]).to_csv(shop, index=False)
    run = trained(config if kind == "blind" else tuned(config), tmp_path / "run")
    shared = set(run.holdings.ids)
    run.forget(["beech"]).commit()
    run.purge(table_out=tmp_path / "cleared.csv")
    assert "beech" not in (tmp_path / "cleared.csv").read_text()

    def table() -> str:
        return next(each.state for each in run.copies() if each.place == str(bank))

    left = pd.read_csv(bank)
    left.loc[(left.grown == "beech") & left.id.isin(shared), "grown"] = None
    left.to_csv(bank, index=False)
    assert table() == "left"  # cells of four people who are at the bank alone
    (tmp_path / "cleared.csv").replace(bank)
    assert table() == "cleared"


def test_a_purge_clears_the_kept_table_of_people_whom_a_partner_lacks_too(tmp_path: Path) -> None:
    frames, label = tables(LABELS), str(LABELS[0])
    frames["shop"] = {name: column[4:] for name, column in frames["shop"].items()}
    settings = ModelSettings(top="linear")
    run = Federation.from_frames(
        frames,
        label="grown",
        folder=tmp_path / "run",
        missing="flag",
        bottoms="blind",
        model=settings,
        fit=FIT,
    )
    run.train()
    run.forget([label]).commit()
    run.purge()
    kept = [path.read_bytes() for path in run.folder.glob("active/table*")]
    assert kept
    assert not any(label.encode() in each for each in kept)


def test_people_whose_label_was_never_known_may_get_one_later(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", without(LABELS, range(9))), tmp_path / "run")
    run.forget(ids=people([20])).commit()
    write_files(tmp_path / "t", LABELS)
    assert Federation.open(run.folder).labels == NAMES  # a label that came later changes nothing
    updated, _ = Federation.update(run.folder)
    assert (updated.holdings.labels < 0).nonzero()[:, 0].tolist() == [20]
    assert updated.status().forgotten_people == 1
    reference = trained(write_files(tmp_path / "r", without(LABELS, [20])), tmp_path / "other")
    assert differences(updated, reference) == []


def test_people_wait_for_an_update(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    rows = [ROW_PARTS["train"][0], ROW_PARTS["test"][4]]
    run.defer(people(rows), "2099-01-01")
    updated, _ = Federation.update(run.folder)
    reference = trained(write_files(tmp_path / "r", without(LABELS, rows)), tmp_path / "other")
    assert differences(updated, reference) == []


def test_nothing_is_decided_while_an_update_runs_and_whoever_reads_goes_on(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    outcome = run.forget(["cedar"])
    outcome.commit()
    acts: list[Callable[[], object]] = [
        *(run.commit, run.rollback, run.purge, run.recover, run.audit),
        lambda: run.forget(["elm"]),
        lambda: run.defer(["P005"], "2099-01-01"),
        lambda: Queue(run.folder / "active").append(["elm"]),
        lambda: run.export(tmp_path / "top.safetensors"),
        lambda: Federation.update(run.folder),
    ]
    refused: list[object] = []

    def meanwhile(*_: object) -> None:
        if not refused:
            for act in acts:
                with nothing_written(run.folder), pytest.raises(RunError, check=coded("in-use")):
                    act()
                refused.append(act)
            assert run.status() == Federation.status_of(run.folder)
            assert set(run.predict().labels) <= set(NAMES)

    Federation.update(run.folder, watch=meanwhile)
    assert refused == acts
    updated = Federation.open(run.folder)
    assert [line.event for line in updated.ledger()["active"]] == ["commit", "update"]

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with nothing_written(tmp_path), pytest.raises(KeyboardInterrupt):
        Federation.update(run.folder, watch=stops)
    updated.forget(["elm"]).commit()
    assert updated.labels == NAMES[:2]


def test_a_request_that_another_staged_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    run = blind_run(LABELS, tmp_path / "run")
    other = Federation.open(run.folder)
    staged: list[Outcome] = []

    def meanwhile(*_: object) -> None:
        if not staged:
            staged.append(other.forget(ids=["P005"]))

    with pytest.raises(ForgetError, check=coded("request-open")):
        run.forget(ids=["P007"], watch=meanwhile)
    request = staged[0].result.request
    assert run.status().staged == request
    assert [path.stem for path in run.folder.glob("active/secrets/*")] == [request]
    with pytest.raises(ForgetError, check=coded("nothing-staged")):
        run.commit("5a5a")  # which nobody decided on
    staged[0].commit()
    run.forget(ids=["P007"])
    with pytest.raises(ForgetError, check=coded("request-decided")):
        run.commit(request)
    run.commit()
    assert run.status().forgotten_people == 2


def test_a_run_with_people_who_wait_or_whom_an_update_forgot_is_not_overwritten(
    tmp_path: Path,
) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    request = run.defer(["P005"], "2099-01-01").request
    for _ in ("waits", "done"):
        with nothing_written(tmp_path), pytest.raises(RunError, check=coded("has-forgotten")):
            Federation.create(run.config, run.folder, overwrite=True)
        Federation.update(run.folder)
    other = Federation.create(run.config, run.folder, overwrite="forgotten")
    lines = other.ledger()["active"]
    assert [(line.event, line.note["requests"]) for line in lines] == [("overwrite", [request])]


def test_a_request_that_came_while_data_was_read_is_not_overwritten(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    came: list[object] = []

    def meanwhile(*_: object) -> None:
        if not came:
            came.append(Queue(run.folder / "active").append(["elm"]))

    with pytest.raises(RunError, check=coded("has-forgotten")):
        Federation.create(run.config, run.folder, overwrite=True, watch=meanwhile)
    assert came
    assert Queue(run.folder / "active").waiting() == [("elm",)]


@pytest.mark.parametrize("verb", ["purge", "recover"])
def test_what_an_update_that_was_killed_left_is_listed_and_removed(
    verb: str, tmp_path: Path
) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    draft = tmp_path / ".run.update"

    class Killed(Watcher):
        def epoch_ended(self, *_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    def update() -> None:
        Federation.update(run.folder, watchers=[Killed()])

    assert in_child(update) == -signal.SIGKILL
    assert draft.exists()
    run.forget(["elm"]).commit()
    assert [each.state for each in run.copies() if each.place == str(draft)] == ["left"]
    getattr(run, verb)()
    assert not draft.exists()
    assert Federation.update(run.folder)[0].labels == NAMES[:3]


def test_who_opened_a_run_before_an_update_decides_nothing_by_its_old_rows(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    other = Federation.open(run.folder)
    for path in (tmp_path / "t").glob("*.csv"):
        pd.read_csv(path)[10:].to_csv(path, index=False)
    Federation.update(run.folder)[0].forget(["elm"])
    acts: list[Callable[[], object]] = [
        *(other.commit, other.rollback, other.recover, other.purge),
        lambda: other.forget(ids=["P020"]),
        lambda: other.defer(["P020"], "2099-01-01"),
    ]
    for act in acts:
        with nothing_written(tmp_path), pytest.raises(RunError, check=coded("run")):
            act()
    run = Federation.open(run.folder)
    run.commit()
    run.forget(ids=["P020"]).commit()
    assert "P020" in run.holdings.ids[list(run.forgotten.rows)]


def test_an_update_waits_for_a_commit_that_was_interrupted(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    run.forget(["elm"])
    store = Transaction(run.active).store
    version = store.staged.versions()[-1]
    store.adopt(version, store.staged.digest(version))  # decides; then the process is killed
    with pytest.raises(ForgetError, check=coded("interrupted")):
        Federation.update(run.folder)
    Federation.open(run.folder, recovering=True).recover()
    assert Federation.update(run.folder)[0].labels == NAMES[:3]


def test_another_process_forgets_to_the_same_bytes(tmp_path: Path) -> None:
    run = blind_run(LABELS, tmp_path / "run", top="mlp")
    program = (
        "import sys, torch; torch.set_num_threads(1); from unlabel import Federation; "
        "run = Federation.open(sys.argv[1]); run.forget(['cedar']).commit(); run.purge()"
    )
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", program, run.folder], env=environment, check=True)
    run.refresh()
    reference = blind_run(without(LABELS, of_label("cedar")), tmp_path / "other", top="mlp")
    assert differences(run, reference) == []
    assert differences(Federation.open(run.folder), reference) == []


# What a run keeps of a name, and what it refuses


def test_after_a_purge_a_name_stands_in_the_request_alone(tmp_path: Path) -> None:
    labels = np.where(LABELS == "elm", "alder", LABELS)
    labels[:3] = "quokka"  # few enough to be noted when the run begins
    run = blind_run(labels, tmp_path / "run")
    run.forget(["quokka"])
    run.audit(demand="none")
    run.commit()
    run.purge()
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    named = {str(p.relative_to(run.folder)) for p in files if b"quokka" in p.read_bytes()}
    requests = {
        str(path.relative_to(run.folder))
        for path in (*run.folder.glob("active/secrets/*"), *run.folder.glob("active/versions/*"))
        if path.suffix == ".json"
    }
    assert named <= requests | {"active/ledger.jsonl", "active/audit.json"}
    record = LabelRecord.read(run.folder / "active")
    assert record is not None
    assert "quokka" not in record.names


def test_outputs_and_figures_have_no_place_for_a_forgotten_label() -> None:
    run = blind_run(LABELS, top="mlp")
    outcome = run.forget(["elm"])
    assert outcome.result.forgotten_accuracy.after == 0
    staged = run.predict(part="train").probabilities
    assert staged.shape[1] == 4
    assert float(torch.as_tensor(staged)[:, 3].max()) == 0
    outcome.commit()
    assert run.predict(part="train").probabilities.shape[1] == 3
    assert set(run.predict().labels) <= set(NAMES[:3])


Refusals = Mapping[str, tuple[Callable[[Federation], object], str]]
REFUSED: Refusals = {
    "one label left": (lambda run: run.forget(["alder", "beech", "cedar"]), ""),
    "unknown label": (lambda run: run.forget(["oak"]), "unknown-label"),
    "unknown person": (lambda run: run.forget(ids=["nobody"]), "unknown-id"),
    "everybody of all but one": (
        lambda run: run.forget(ids=people(of_label("alder", "beech", "cedar"))),
        "one-label",
    ),
    "nothing": (lambda run: run.forget(), ""),
    "both": (lambda run: run.forget(["elm"], ids=["P001"]), ""),
}


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_what_cannot_be_forgotten_is_refused_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    run = blind_run(LABELS, tmp_path / "run", kind=kind)
    files = sorted(path for path in run.folder.rglob("*") if path.is_file())
    kept = [path.read_bytes() for path in files]
    for name, (act, code) in REFUSED.items():
        with pytest.raises(ForgetError) as refusal:
            act(run)
        assert code in ("", refusal.value.code), name
        assert sorted(path for path in run.folder.rglob("*") if path.is_file()) == files, name
        assert [path.read_bytes() for path in files] == kept, name
    assert differences(run, Federation.open(run.folder)) == []


def test_a_person_is_forgotten_once() -> None:
    run = blind_run(without(LABELS, [7]))
    run.forget(ids=["P005", "P005"]).commit()
    for row in (5, 7):
        with pytest.raises(ForgetError, check=coded("already-forgotten")):
            run.forget(ids=people([row]))


def test_a_changed_label_that_nobody_forgot_is_noticed(tmp_path: Path) -> None:
    run = trained(write_files(tmp_path / "t", LABELS), tmp_path / "run")
    run.forget(["beech"]).commit()
    write_files(tmp_path / "t", without(LABELS, of_label("cedar")))
    with pytest.raises(RunError, check=coded("labels-changed")):
        Federation.open(run.folder)


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_slots_are_not_for_runs_without_labels_in_their_bottoms(kind: str, tmp_path: Path) -> None:
    run = blind_run(LABELS, tmp_path / "run", kind=kind)
    for act in (
        lambda: run.queue(["elm"]),
        lambda: Federation.enqueue(run.folder, ["elm"]),
        lambda: run.slots(every=0, count=1),
    ):
        with pytest.raises(SettingsError, match="lots are"):
            act()
    assert run.version == Federation.open(run.folder).version


def test_an_interrupted_fit_returns_to_the_old_model(monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = blind_run(LABELS), blind_run(LABELS)
    with monkeypatch.context() as inside:

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        inside.setattr("unlabel.forget.exact_methods.fit_blind", stop)
        with pytest.raises(KeyboardInterrupt):
            run.forget(["elm"])
    assert differences(run, other) == []
    run.forget(["elm"]).commit()
    assert differences(run, blind_run(without(LABELS, of_label("elm")))) == []
