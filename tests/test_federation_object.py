"""The one object: in no folder, from the user's own tables and models, with settings as values."""

from __future__ import annotations

import gc
import stat
import subprocess
import sys
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
    fed.forget(ids=[person], settings=ul.ForgetSettings(cover=60)).commit(force=True)
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
    again = ul.Federation.open(tmp_path / "run")
    assert again.evaluate() == first.evaluate()
    assert again.config.active is not None
    assert again.config.active.name == "bank"
    kept = again.config.active.table
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
    with pytest.raises(ul.SettingsError, match="one table of party 'active' but got two"):
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
    again = ul.Federation.open(tmp_path / "run", model=local)
    assert again.evaluate() == fed.evaluate()


def test_two_models_of_one_name_stay_apart() -> None:
    names = [name_of(lambda shape, width=width: nn.Linear(shape[0], width)) for width in (3, 7)]
    widths = [build_bottom(name, (4,))(torch.zeros(2, 4)).shape[1] for name in names]
    assert widths == [3, 7]


def test_a_model_that_is_there_already_is_refused() -> None:
    with pytest.raises(ul.SettingsError, match="every party needs a model of its own"):
        made(model=Small((2,)))


# --- settings, and the names they had -----------------------------------------------------------


def test_settings_that_cannot_work_are_refused_where_they_are_made() -> None:
    with pytest.raises(ul.SettingsError, match="Did you mean 'hidden'"):
        ul.ForgetSettings(mode="hiden")  # type: ignore[arg-type]
    with pytest.raises(ul.SettingsError, match="at least 2 few-shot and 1 retained"):
        ul.ForgetSettings(few_shot=1)
    with pytest.raises(ul.SettingsError, match="has no presets"):
        made().forget(labels=["boat"], settings=ul.ForgetSettings(preset="paper"))
    key = "5a" * 32
    assert key not in repr(ul.ForgetSettings(key=key))


def test_arguments_of_version_0_6_work_for_one_version_and_say_so() -> None:
    fed = made()
    fed.train()
    with pytest.warns(DeprecationWarning, match="goes with version 0.8"):
        outcome = fed.forget([0], method="renormalise", wreck=True, key="5a" * 32)
    outcome.rollback()
    same = ul.ForgetSettings(method="renormalise", allow_collapse=True, key="5a" * 32)
    assert fed.forget([0], settings=same).result.forgotten_accuracy == (
        outcome.result.forgotten_accuracy
    )
    fed.rollback()
    with (
        pytest.warns(DeprecationWarning, match="ForgetSettings"),
        pytest.raises(ul.SettingsError, match="Did you mean 'method'"),
    ):
        fed.forget([0], metod="renormalise")


def test_flags_of_version_0_6_work_for_one_version_and_say_so(tmp_path: Path) -> None:
    fed = made(folder=tmp_path / "run")
    fed.train()
    fed.forget(labels=["boat"]).commit(force=True)
    words = ("forget", tmp_path / "run", "--label", "boat", "--method", "renormalise")
    old = unlabel(*words, "--again", "--reveal", "--dry-run")
    assert old.code == 0, old.err
    assert "--again goes with version 0.8; write --deepen." in old.err
    assert "--reveal goes with version 0.8; write --allow-disclosure." in old.err
    new = unlabel(*words, "--deepen", "--allow-disclosure", "--dry-run")
    assert (new.code, new.out) == (0, old.out)
    assert "0.8" not in new.err


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
