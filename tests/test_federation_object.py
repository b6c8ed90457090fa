"""The one object: in no folder, from the user's own tables and models, with settings as values."""

from __future__ import annotations

import gc
import multiprocessing
import stat
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cli.command_line import one_thread, unlabel
from torch import Tensor, nn

import unlabel as ul
from unlabel.audit import service as auditing
from unlabel.errors import in_python
from unlabel.forget import plan, service
from unlabel.forget.methods.deep import Deep
from unlabel.forget.settings import choose_method
from unlabel.models.registry import build_bottom, name_of
from unlabel.train import Training, Watcher

__all__ = ["one_thread"]  # a fixture for every test here


def frames(rows: int = 300, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return a bank's and a shop's table of the same people, with three labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    x = rng.normal(0, 0.5, (rows, 4)) + 2 * np.eye(4)[y]
    ids = [f"C-{number}" for number in range(rows)]
    bank = pd.DataFrame({"who": ids, "loan": np.array(["boat", "car", "home"])[y], "a": x[:, 0]})
    return {"bank": bank, "shop": pd.DataFrame({"who": ids, "b": x[:, 1], "c": x[:, 2]})}


def made(**options: Any) -> ul.Federation:
    given: dict[str, Any] = {"label": "loan", "id": "who", "epochs": 3, "batch": 32, **options}
    return ul.Federation.from_frames(frames(), **given)


# --- in no folder -------------------------------------------------------------------------------


def test_a_federation_in_no_folder_has_every_verb_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    fed = made()
    folder = fed.folder
    assert fed.is_temporary
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    fed.train()
    outcome = fed.forget(labels=["boat"])
    verdict = fed.audit()
    assert verdict.request == outcome.result.request
    fed.commit(force=True)
    assert not outcome.staged
    assert fed.purge() == fed.version
    assert fed.status().forgotten_labels == ("boat",)
    assert fed.recover() == "nothing to recover"
    assert [line.event for line in fed.ledger()["shop"]] == ["commit", "purge"]
    assert fed.report(tmp_path / "page.html").path.exists()
    assert fed.queue(["car"]) == 1
    del fed, outcome, verdict
    gc.collect()
    assert not folder.exists()


def test_a_certificate_from_no_folder_says_that_its_keys_are_temporary(tmp_path: Path) -> None:
    said = {}
    for name, folder in (("temporary", None), ("kept", tmp_path / "run")):
        fed = made(folder=folder)
        fed.train()
        fed.forget(labels=["boat"]).commit(force=True)
        made_of = fed.certificate(tmp_path / f"{name}.json")
        assert made_of.body.get("keys", "kept") == name
        checks = ul.verify(made_of.path, trust=fed.config.trust)
        assert checks.holds
        said[name] = any("temporary" in sentence for sentence in checks.unchecked)
    assert said == {"temporary": True, "kept": False}
    # What is signed cannot be taken out again.
    text = (tmp_path / "temporary.json").read_text()
    (tmp_path / "forged.json").write_text(text.replace('"keys": "temporary"', '"keys": "kept"'))
    assert not ul.verify(tmp_path / "forged.json").holds


def test_requests_can_be_tried_as_often_as_one_likes() -> None:
    """Parties keep eight versions at most, and a hidden request that is dropped makes one."""
    fed = made()
    fed.train()
    before = fed.evaluate()
    for _ in range(10):
        fed.forget(labels=["boat"]).rollback()
    assert fed.evaluate() == before


def test_a_copy_is_changed_alone() -> None:
    fed = made()
    fed.train()
    before, other = fed.evaluate(), fed.copy()
    assert other.evaluate() == before
    other.forget(labels=["boat"]).commit(force=True)
    assert fed.evaluate() == before
    assert fed.status().forgotten_labels == ()


class Stop(Watcher):
    """Interrupts a training, as somebody does in a notebook."""

    def __init__(self, after: int) -> None:
        self.left = after

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [0, 3, 9])
def test_a_training_that_is_interrupted_in_a_notebook_goes_on_from_the_last_epoch(
    after: int,
) -> None:
    """Six steps are an epoch here: before the first one ends, and in the second."""
    whole, broken = made(), made()
    whole.train()
    with pytest.raises(KeyboardInterrupt):
        broken.train(watchers=[Stop(after)])
    assert broken.version == after // 6
    broken.train()
    assert broken.evaluate() == whole.evaluate()
    states = [fed.passives["shop"].bottom.model_state() for fed in (whole, broken)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


# --- outcomes -----------------------------------------------------------------------------------


def test_an_outcome_neither_shows_nor_holds_a_weight() -> None:
    fed = made()
    fed.train()
    outcome = fed.forget(labels=["boat"])
    text = repr(outcome)
    assert "tensor" not in text
    assert len(text) < 250
    held = [value for name, value in vars(outcome).items() if name != "_run"]
    assert not [value for value in held if isinstance(value, Tensor | dict)]


def test_labels_that_were_forgotten_are_not_told_as_truth() -> None:
    fed = made()
    fed.train()
    person = str(fed.predict(part="train").ids[0])
    fed.forget(ids=[person]).commit(force=True)
    fed.forget(labels=["boat"]).commit(force=True)
    found = fed.predict(part="train")
    assert found.truth is not None
    known = dict(zip(found.ids.tolist(), found.truth, strict=True))
    truth = frames()["bank"].set_index("who")["loan"]
    assert known.pop(person) == ""
    assert all(label == truth[who] for who, label in known.items() if truth[who] != "boat")
    assert {label for who, label in known.items() if truth[who] == "boat"} == {""}


# --- own tables ---------------------------------------------------------------------------------


def test_arrays_and_an_index_are_tables_too(tmp_path: Path) -> None:
    given = frames()
    arrays = {
        "bank": {name: given["bank"][name].to_numpy() for name in given["bank"]},
        "shop": given["shop"].set_index("who"),
    }
    options: dict[str, Any] = {"label": "loan", "id": "who", "epochs": 2, "batch": 32}
    first = ul.Federation.from_frames(given, **options)
    second = ul.Federation.from_frames(arrays, folder=tmp_path / "run", **options)
    first.train()
    second.train()
    assert first.evaluate() == second.evaluate()
    reopened = ul.Federation.open(tmp_path / "run")
    assert reopened.evaluate() == first.evaluate()
    assert reopened.config.active is not None
    assert reopened.config.active.name == "bank"
    kept = reopened.config.active.table
    assert kept.parent == (tmp_path / "run" / "active").resolve()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: {"bank": t["bank"]}, "at least two tables to have the label column"),
        (lambda t: {"a": t["bank"], "b": t["bank"]}, "'a', 'b' of 2 has it"),
        (lambda t: {"a": t["shop"], "b": t["shop"]}, "none of 2 has it"),
        (lambda t: {**t, "shop": t["shop"].drop(columns="who")}, "Table 'shop' has no id column"),
        (lambda t: {**t, "shop": "shop.csv"}, "expected a pandas DataFrame"),
    ],
)
def test_tables_that_cannot_be_a_federation_are_refused_and_nothing_is_written(
    change: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ul.DataError, match=sentence):
        ul.Federation.from_frames(
            change(frames()), label="loan", id="who", folder=tmp_path / "run", batch=32
        )
    assert list(tmp_path.iterdir()) == []


def test_new_rows_may_go_by_the_name_of_the_table_or_by_active() -> None:
    fed = made()
    fed.train()
    new = frames(40, seed=1)
    bank = new["bank"].drop(columns="loan")
    found = [fed.predict(tables={name: bank, "shop": new["shop"]}) for name in ("bank", "active")]
    assert found[0].labels == found[1].labels
    with pytest.raises(ul.SettingsError, match=r"'active'"):
        fed.predict(tables={"bank": bank, "active": bank, "shop": new["shop"]})


# --- own models ---------------------------------------------------------------------------------


class Small(nn.Module):
    """A bottom that asks for the shape of a row."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0], 5)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x).tanh()
        return found


def test_a_model_may_be_a_class_or_any_function_and_is_found_again(tmp_path: Path) -> None:
    def local(shape: tuple[int, ...]) -> nn.Module:
        return Small(shape)

    found = [made(model=model, seed=1) for model in (Small, local, lambda shape: Small(shape))]
    for fed in found:
        fed.train()
    assert found[0].evaluate() == found[1].evaluate() == found[2].evaluate()
    fed = made(model=local, seed=1, folder=tmp_path / "run")
    fed.train()
    program = f"import unlabel as ul; ul.Federation.open({str(tmp_path / 'run')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "open the run with `Federation.open(folder, model=..)`" in done.stderr
    reopened = ul.Federation.open(tmp_path / "run", model=local)
    assert reopened.evaluate() == fed.evaluate()


def test_two_models_of_one_name_stay_apart() -> None:
    names = [name_of(lambda shape, width=width: nn.Linear(shape[0], width)) for width in (3, 7)]
    widths = [build_bottom(name, (4,))(torch.zeros(2, 4)).shape[1] for name in names]
    assert widths == [3, 7]


def test_a_model_that_is_there_already_is_refused() -> None:
    with pytest.raises(ul.SettingsError):
        made(model=Small((2,)))


# --- settings, and the names they had -----------------------------------------------------------


def test_settings_that_cannot_work_are_refused_where_they_are_made() -> None:
    with pytest.raises(ul.SettingsError, match=r"'hidden'"):
        ul.ForgetSettings(visibility="hiden")  # type: ignore[arg-type]
    with pytest.raises(ul.SettingsError):
        ul.ForgetSettings(few_shot=1)
    with pytest.raises(ul.SettingsError):
        made().forget(labels=["boat"], settings=ul.ForgetSettings(preset="paper"))
    key = "5a" * 32
    assert key not in repr(ul.ForgetSettings(key=key))


def test_flags_of_version_0_7_work_for_one_version_and_say_so(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"]).commit(force=True)
    words = ("forget", tmp_path / "run", "--label", "boat", "--method", "renormalise")
    flags = ("--deepen", "--allow-disclosure", "--dry-run")
    old = unlabel(*words, *flags, "--mode", "open")
    assert old.code == 0, old.err
    assert "--mode will be removed in version 0.9; write --visibility and --depth." in old.err
    new = unlabel(*words, *flags, "--visibility", "open")
    assert (new.code, new.out) == (0, old.out)
    assert "0.9" not in new.err


def test_errors_speak_of_arguments_in_python_and_of_flags_at_a_terminal(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"]).commit(force=True)
    deep = ul.ForgetSettings(method="renormalise", deepen=True)
    with pytest.raises(ul.ForgetError, match="or add `allow_disclosure`") as error:
        fed.forget(labels=["boat"], settings=deep)
    words = ("--label", "boat", "--method", "renormalise", "--deepen")
    said = unlabel("forget", tmp_path / "run", *words).sentence
    assert said.endswith("or add --allow-disclosure if they may know.")
    assert in_python(said) == str(error.value)
    # What has no counterpart stays what it is.
    start = "start it with `unlabel party start KIT --data TABLE`."
    assert in_python(start) == start


# --- audits -------------------------------------------------------------------------------------


def test_every_retrained_reference_has_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = made(seed=7)
    fed.train()
    fed.forget(labels=["boat"])
    seeds, training = [], Training

    def noted(*words: Any, **named: Any) -> Any:
        seeds.append(words[2].seed)
        return training(*words, **named)

    monkeypatch.setattr(auditing, "Training", noted)
    fed.audit(retrained=3)
    assert seeds == [8, 9, 10]


def test_a_report_and_ledgers_open_neither_data_nor_models(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"])
    fed.audit()
    fed.commit(force=True)
    for path in (tmp_path / "run").rglob("*"):
        if path.suffix in (".parquet", ".safetensors") or path.name.endswith(".columns.jsonl"):
            path.unlink()
    made_of = ul.Federation.report_of(tmp_path / "run")
    assert (made_of.trouble, made_of.verdict.state) == ("", "committed")
    assert set(ul.Federation.ledger_of(tmp_path / "run")) == {"active", "shop"}


# --- more than one object, process or name ------------------------------------------------------


def test_an_object_takes_up_what_another_one_has_decided(tmp_path: Path) -> None:
    first = made(folder=tmp_path / "run")
    first.train()
    outcome = first.forget(labels=["car"])
    second = ul.Federation.open(tmp_path / "run")
    second.rollback()
    assert first.evaluate() == second.evaluate()
    assert not outcome.staged
    with pytest.raises(ul.ForgetError):
        outcome.rollback()
    second.forget(labels=["boat"]).commit(force=True)
    assert first.status().forgotten_labels == ("boat",)
    assert first.evaluate().forgotten == (0,)
    found = first.predict(part="train")
    assert "boat" not in found.labels
    assert "boat" not in (found.truth or ())
    assert second.purge() == first.purge() == first.version
    assert first.status().parties["active"].versions == (first.version,)


def test_what_is_asked_before_training_is_one_sentence() -> None:
    fed = made()
    for act in (fed.evaluate, fed.predict):
        with pytest.raises(ul.CheckpointError, match="Nothing was trained yet; train first"):
            act()
    with pytest.raises(ul.ForgetError, match="Nothing was trained yet"):
        fed.purge()
    with pytest.raises(ul.ForgetError, match="Nothing was trained yet"):
        fed.forget(labels=["boat"])
    with pytest.raises(ul.SettingsError, match="Did you mean 'epochs'"):
        fed.train(epoch=3)
    assert fed.status().staged == ""


def test_a_copy_has_no_keys_of_the_parties(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"]).commit(force=True)
    fed.certificate()
    other = fed.copy()
    assert not list(other.folder.rglob("signing.key"))
    made_of = other.certificate(tmp_path / "untrue.json")
    assert ul.verify(made_of).holds
    assert not ul.verify(made_of, trust=fed.config.trust).holds


def test_a_run_from_frames_can_be_moved(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    before = fed.evaluate()
    (tmp_path / "run").rename(tmp_path / "moved")
    assert ul.Federation.open(tmp_path / "moved").evaluate() == before


def test_a_child_process_does_not_take_the_folder_with_it() -> None:
    fed = made()
    fed.train()
    program = multiprocessing.get_context("fork").Process(target=gc.collect)
    program.start()
    program.join()
    assert program.exitcode == 0
    assert fed.evaluate().accuracy > 0.5


# --- what people write --------------------------------------------------------------------------


def test_ids_are_compared_as_text_however_they_are_given() -> None:
    tables = {name: t.assign(who=range(len(t))) for name, t in frames().items()}
    fed = ul.Federation.from_frames(tables, label="loan", id="who", epochs=2, batch=16)
    fed.train()
    people = fed.predict(part="train").ids[:2]
    numbers = [int(who) for who in people]
    given: list[Any] = [numbers, people, pd.Series(people), np.array(numbers)]
    for ids in given:
        assert fed.plan(ids=ids).request.ids == tuple(sorted(people, key=int))
    for wrong in ({"ids": "12"}, {"labels": "boat"}, {"labels": 1}):
        with pytest.raises(ul.SettingsError):
            fed.forget(**wrong)


def test_rows_that_not_every_party_has_are_told_with_the_labels_that_go() -> None:
    tables = frames()
    tables["shop"] = tables["shop"][tables["bank"]["loan"] != "boat"]
    fed = ul.Federation.from_frames(tables, label="loan", id="who", batch=16)
    assert fed.labels == ("car", "home")
    assert f"{len(tables['shop'])} of the 300 rows of party 'active' are used" in fed.notes[0]
    assert "No row of label 'boat' is among them" in fed.notes[0]
    tables["shop"] = frames()["shop"][tables["bank"]["loan"] == "car"]
    with pytest.raises(ul.DataError):
        ul.Federation.from_frames(tables, label="loan", id="who", batch=16)


def test_a_number_means_the_same_label_whether_a_request_waits_or_not(tmp_path: Path) -> None:
    tables = frames()
    only_here = {"who": ["X-1", "X-2"], "loan": ["airship", "airship"], "a": [0.0, 1.0]}
    tables["bank"] = pd.concat([tables["bank"], pd.DataFrame(only_here)])
    fed = ul.Federation.from_frames(
        tables, label="loan", id="who", folder=tmp_path / "run", epochs=1, batch=32
    )
    fed.train()
    assert fed.plan([0]).request.names == ("boat",)
    assert ul.Federation.enqueue(tmp_path / "run", [0]) == (("boat",), 1)
    assert fed.queue([0]) == 2


def test_labels_that_new_rows_bring_are_the_truth_beside_the_predictions() -> None:
    fed = made()
    fed.train()
    new = frames(30, seed=2)
    found = fed.predict(tables=new)
    assert found.truth == tuple(new["bank"]["loan"])
    without = {**new, "bank": new["bank"].drop(columns="loan")}
    assert fed.predict(tables=without).truth is None
    person = str(fed.predict(part="train").ids[0])
    fed.forget(ids=[person]).commit(force=True)
    fed.forget(labels=["boat"]).commit(force=True)
    assert "boat" not in (fed.predict(tables=new).truth or ())
    # Not of somebody either whose label was forgotten, and who stands among the new rows.
    found = fed.predict(tables=frames())
    assert found.truth is not None
    assert found.truth[found.ids.tolist().index(person)] == ""


def test_a_forgotten_label_is_known_by_whatever_a_gap_makes_of_its_number() -> None:
    tables = frames()
    tables["bank"]["loan"] = tables["bank"]["loan"].map({"boat": 1, "car": 2, "home": 3})
    fed = ul.Federation.from_frames(tables, label="loan", id="who", epochs=2, batch=32)
    fed.train()
    fed.forget(labels=["1"]).commit(force=True)
    tables["bank"].loc[0, "loan"] = np.nan  # so that pandas holds 1.0, 2.0 and 3.0
    truth = fed.predict(tables=tables).truth
    assert truth is not None
    assert (truth[0], set(truth)) == ("", {"", "2", "3"})


DATES = tuple(f"2020-01-0{number}T00:00:00" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("kind", "values", "written", "names"),
    [
        ("datetime64[us]", DATES, DATES, DATES),
        ("float32", (0.1, 0.2, 0.3), (0.1, 0.2, 0.3), ("0.1", "0.2", "0.3")),
        ("object", ("gold card", "2", "x"), (" gold  card", "2.0", "x "), ("gold card", "2", "x")),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_the_truth_of_new_rows_is_read_as_the_runs_labels_are(
    kind: str,
    values: tuple[Any, ...],
    written: tuple[Any, ...],
    names: tuple[str, ...],
    stored: bool,
    tmp_path: Path,
) -> None:
    loans = ["boat", "car", "home"]

    def spelled(cells: tuple[Any, ...]) -> dict[str, pd.DataFrame]:
        tables = frames(60)
        by_loan = dict(zip(loans, cells, strict=True))
        tables["bank"]["loan"] = tables["bank"]["loan"].map(by_loan).astype(kind)  # type: ignore[call-overload]
        return tables

    fed = ul.Federation.from_frames(spelled(values), label="loan", id="who", bottoms="blind")
    fed.train()
    new: dict[str, Any] = dict(spelled(written))
    if stored:
        for name, table in spelled(written).items():
            new[name] = tmp_path / f"{name}.parquet"
            table.to_parquet(new[name])
    expected = [names[loans.index(loan)] for loan in frames(60)["bank"]["loan"]]
    assert fed.predict(tables=new).truth == tuple(expected)
    fed.forget(labels=[names[0]]).commit(force=True)
    kept = tuple("" if name == names[0] else name for name in expected)
    assert fed.predict(tables=new).truth == kept


def test_the_truth_of_a_forgotten_person_is_not_told_under_another_form_of_the_id() -> None:
    tables = frames(60)
    for table in tables.values():
        table["who"] = table["who"].map(lambda who: f"Zo\u00eb {who}")
    fed = ul.Federation.from_frames(tables, label="loan", id="who", bottoms="blind")
    fed.train()
    fed.forget(ids=["Zo\u00eb C-7"]).commit()
    for table in tables.values():
        table["who"] = table["who"].map(lambda who: unicodedata.normalize("NFD", who))
    predictions = fed.predict(tables=tables)
    truth = dict(zip(predictions.ids.tolist(), predictions.truth or (), strict=True))
    assert [who for who, label in truth.items() if not label] == ["Zoe\u0308 C-7"]


def test_a_category_of_pandas_is_a_category_whatever_it_holds() -> None:
    tables = frames()
    codes = pd.Series(np.arange(300) % 4).astype("category")
    tables["shop"] = tables["shop"].assign(town=codes)
    fed = ul.Federation.from_frames(tables, label="loan", id="who", batch=16, epochs=1)
    assert fed.config.passive[0].categories == ("town",)
    assert fed.holdings.features["shop"].shape == (2 + 4,)


def test_a_model_for_a_party_that_there_is_not_is_refused() -> None:
    with pytest.raises(ul.SettingsError, match=r"'shop'"):
        made(model=ul.ModelSettings(bottoms={"shp": "mlp"}))
    model = ul.ModelSettings(bottom=Small)  # type: ignore[arg-type]
    assert made(model=model).config.model.bottom.endswith(":Small")


def test_a_methods_own_settings_are_given_by_name() -> None:
    chosen = choose_method(ul.ForgetSettings(method="deep", options={"epochs": 20}), people=False)[
        1
    ]
    assert chosen.method == Deep(epochs=20)
    with pytest.raises(ul.SettingsError, match=r"'epochs'"):
        choose_method(ul.ForgetSettings(method="deep", options={"epoch": 20}), people=False)
    with pytest.raises(ul.SettingsError):
        ul.ForgetSettings(key="zz")


def test_no_object_that_a_verb_returns_shows_a_secret() -> None:
    fed = made()
    progress = fed.train()
    work = fed.plan(labels=["boat"])
    shown = repr((fed, progress, work, work.request, fed.evaluate(), fed.predict()))
    assert work.request.key not in shown
    assert "tensor" not in shown
    assert len(repr(progress)) < 300
    assert len(repr(work)) < 200


# --- what partners may not see ------------------------------------------------------------------


def test_a_commit_that_is_refused_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"], settings=ul.ForgetSettings(method="mask"))
    with monkeypatch.context() as patch:
        patch.setattr(ul.Federation, "open", lambda *_, **__: pytest.fail("a party was asked"))
        assert "cannot be committed" in unlabel("commit", tmp_path / "run").sentence
    assert unlabel("rollback", tmp_path / "run").code == 0
    words = ("forget", tmp_path / "run", "--label", "boat", "--method", "mask", "--commit")
    assert "It was rolled back" in unlabel(*words).sentence
    assert fed.status().staged == ""


def test_a_slot_ends_the_same_where_an_audit_cannot_be_read(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    (tmp_path / "run" / "active" / "audit.json").write_text("{")
    fed.queue(["boat"])
    (slot,) = fed.slots(every=0, count=1, pace=0)
    assert (slot.kept, fed.status().staged) == (False, "")
    assert "audit.json" in slot.why
    assert fed.status().forgotten_labels == ()


def test_what_is_about_nothing_can_only_be_dropped(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    service.carry_out(fed, plan(fed, dummy=True))
    with pytest.raises(ul.ForgetError, match="is about nothing"):
        fed.audit()
    with pytest.raises(ul.ForgetError, match="cannot be committed"):
        fed.commit(force=True)
    fed.rollback()


def test_a_command_line_that_cannot_be_meant_ends_with_2(tmp_path: Path) -> None:
    for words in (("evaluate",), ("train",), ("train", "--data", "digits", "--parties", "x")):
        outcome = unlabel(*words)
        assert outcome.code == 2, words
        assert outcome.sentence
    assert unlabel("evaluate", tmp_path / "nowhere").code == 1
