"""A top leaves a run signed, and holds until another version is decided: then nobody takes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from blind_runs import blind_run, cells, tables
from safetensors.torch import load_file, save_file
from serve.served import LABEL, new_rows, serving, trained

import unlabel as ul
from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, RunError, SettingsError
from unlabel.export.check import ExportFiles
from unlabel.export.form import beside, signed
from unlabel.export.service import Exported, refresh
from unlabel.files import EXPORTS
from unlabel.forget import ForgetSettings
from unlabel.serve import Limits, ServedTop
from unlabel.serve.exported import load_top
from unlabel.signing import Signer, canonical


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blind") / "run"
    trained("blind", folder)
    return folder


@pytest.fixture
def run(template: Path, tmp_path: Path) -> Federation:
    return Federation.open(shutil.copytree(template, tmp_path / "run"))


@pytest.fixture
def exported(run: Federation, tmp_path: Path) -> Exported:
    return run.export(tmp_path / "out" / "top.safetensors")


def embeddings(run: Federation, rows: int = 5) -> dict[str, list[list[float]]]:
    """Return the embeddings of the first rows, by party."""
    kept = run.active.local_embeddings["main"]
    return {
        name: part[:rows].tolist() for name, part in zip(run.active.embedded, kept, strict=True)
    }


def expected(run: Federation, rows: int = 5) -> torch.Tensor:
    """Return the probabilities that the run itself gives for them."""
    return run.active.logits(torch.arange(rows)).softmax(1)


def forget(run: Federation) -> None:
    run.forget([LABEL], settings=ForgetSettings(key="2a" * 32)).commit()


def verified(exported: Exported, **options: Any) -> ul.Checks:
    return ul.verify(exported.path, **options)


# What is written


def test_an_export_answers_as_its_run_does(run: Federation, exported: Exported) -> None:
    with serving(ServedTop(ExportFiles.of(exported.path, exported.note))) as client:
        reply = client.ask({"embeddings": embeddings(run)})
        health = client.send("GET", "/healthz")
    assert reply.status == 200
    assert (reply.body["version"], health.body["version"]) == (run.version, run.version)
    assert tuple(reply.body["labels"]) == run.labels
    chances = [each["probabilities"] for each in reply.body["predictions"]]
    assert np.allclose(chances, expected(run).tolist(), atol=1e-5)


@pytest.mark.parametrize("top", ["linear", "mlp", "fc4"])
def test_a_top_in_onnx_computes_the_same(tmp_path: Path, top: str) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    run = blind_run(cells(), tmp_path / "run", top=top)
    path = run.export(tmp_path / "top.onnx").path
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    feed = {name: np.array(rows, np.float32) for name, rows in embeddings(run).items()}
    logits, chances = ReferenceEvaluator(model).run(None, feed)
    assert np.allclose(logits, run.active.logits(torch.arange(5)), atol=1e-5)
    assert np.allclose(chances, expected(run), atol=1e-5)
    assert verified(Exported(path, beside(path), run.folder / EXPORTS, None), run=run.folder).holds  # type: ignore[arg-type]
    with pytest.raises(SettingsError):
        ServedTop(ExportFiles.of(path, run.folder / EXPORTS))


def test_a_classifier_of_scikit_learn_is_served_and_is_no_onnx(tmp_path: Path) -> None:
    run = blind_run(cells(), tmp_path / "run", top="sklearn:LogisticRegression")
    path = run.export(tmp_path / "top.safetensors").path
    with serving(ServedTop(ExportFiles.of(path, run=run.folder))) as client:
        reply = client.ask({"embeddings": embeddings(run)})
        huge = client.ask({"embeddings": {**embeddings(run, 1), "gym": [[1e300, 1.0]]}})
    assert (huge.status, huge.code) == (422, "data")
    chances = [each["probabilities"] for each in reply.body["predictions"]]
    assert np.allclose(chances, expected(run).tolist(), atol=1e-5)
    pytest.importorskip("onnx")
    with pytest.raises(SettingsError):
        run.export(tmp_path / "top.onnx")
    assert not (tmp_path / "top.onnx").exists()


@pytest.mark.parametrize("kind", ["supervised", "tuned"])
def test_only_a_blind_run_exports_its_top(tmp_path: Path, kind: str) -> None:
    trained(kind, tmp_path / "run")
    run = Federation.open(tmp_path / "run")
    with pytest.raises(SettingsError):
        run.export(tmp_path / "top.safetensors")
    assert not (run.folder / EXPORTS).exists()


def test_a_name_without_a_form_is_refused(run: Federation, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        run.export(tmp_path / "top.bin")
    assert not (tmp_path / "top.bin").exists()


# What holds


def test_an_export_holds_by_its_note_and_by_its_run(run: Federation, exported: Exported) -> None:
    for options in ({"revocations": exported.note}, {"run": run.folder}):
        checks = verified(exported, **options)
        assert checks.holds, checks.faults
        assert any("not revoked" in each for each in checks.held)
    alone = verified(exported)
    assert alone.holds
    assert any("revoked" in each for each in alone.unchecked), "that is not known then"
    assert ul.verify(exported.signed, run=run.folder).holds, "it is named by either file"
    key = Signer(run.folder / ACTIVE).public
    assert verified(exported, revocations=exported.note, trust={ACTIVE: key}).unchecked == []


def test_a_commit_revokes_it_and_a_purge_does_not_bring_it_back(
    run: Federation, exported: Exported, tmp_path: Path
) -> None:
    old = shutil.copy(exported.note, tmp_path / "old.json")
    forget(run)
    for purged in (False, True):
        if purged:
            run.purge()
        for options in ({"revocations": exported.note}, {"run": run.folder}):
            assert not verified(exported, **options).holds
        with pytest.raises(RunError) as refused:
            ServedTop(ExportFiles.of(exported.path, exported.note))
        assert refused.value.code == "revoked"
    # An old note says what held when it was written: the run at hand knows better.
    assert verified(exported, revocations=old).holds
    assert not verified(exported, revocations=old, run=run.folder).holds
    second = run.export(tmp_path / "new.safetensors")
    assert verified(second, run=run.folder).holds
    assert LABEL not in json.loads(second.signed.read_bytes())["export"]["labels"]
    assert not verified(exported, run=run.folder).holds


def test_the_list_of_copies_names_what_was_exported(run: Federation, exported: Exported) -> None:
    def states() -> set[str]:
        return {each.state for each in run.copies() if each.place == exported.path.name}

    assert states() == {"kept"}
    forget(run)
    assert states() == {"left"}


def test_a_server_stops_to_answer_once_its_export_is_revoked(
    run: Federation, exported: Exported, tmp_path: Path
) -> None:
    question = {"embeddings": embeddings(run)}
    with serving(ServedTop(ExportFiles.of(exported.path, exported.note))) as client:
        assert client.ask(question).status == 200
        old = exported.note.read_bytes()
        forget(run)
        refused = client.ask(question)
        assert (refused.status, refused.code) == (503, "revoked")
        assert client.send("GET", "/healthz").status == 503
        exported.note.write_bytes(old)
        assert client.ask(question).code == "revoked", "no older note is believed after it"


def test_beside_its_run_a_decision_is_enough(
    run: Federation, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where the commit dies between the decision and the note.
    monkeypatch.setattr(Federation, "revoke_exports", lambda _: None)
    question = {"embeddings": embeddings(run)}
    with serving(ServedTop(ExportFiles.of(exported.path, run=run.folder))) as client:
        assert client.ask(question).status == 200
        forget(run)
        assert client.ask(question).code == "revoked"


@pytest.mark.parametrize("beside_the_run", [True, False])
def test_an_export_that_is_put_in_its_place_is_not_answered_for(
    run: Federation, exported: Exported, beside_the_run: bool
) -> None:
    options = {"run": run.folder} if beside_the_run else {"revocations": exported.note}
    files = ExportFiles.of(exported.path, **options)
    question = {"embeddings": embeddings(run)}
    with serving(ServedTop(files)) as client:
        run.export(exported.path)
        assert client.ask(question).status == 200, "of the same version it is the same top"
        forget(run)
        run.export(exported.path)
        refused = client.ask(question)
        assert (refused.status, refused.code) == (503, "revoked")
        assert client.send("GET", "/healthz").code == "revoked"
    with serving(ServedTop(files)) as client:
        assert LABEL not in client.ask(question).body["labels"]


def test_only_the_weights_that_were_signed_are_loaded(exported: Exported) -> None:
    change_weights(exported)
    with pytest.raises(CheckpointError):
        load_top(exported.export, exported.path)


def test_a_note_that_went_back_is_refused(run: Federation, exported: Exported) -> None:
    first = exported.note.read_bytes()
    run.export(exported.path.with_name("other.safetensors"))
    model = ServedTop(ExportFiles.of(exported.path, exported.note))
    model.look()
    exported.note.write_bytes(first)
    with pytest.raises(RunError) as refused:
        model.look()
    assert refused.value.code == "revoked"


def test_a_commit_that_died_before_the_note_is_caught_up_with(
    run: Federation, exported: Exported
) -> None:
    before = exported.note.read_bytes()
    forget(run)
    exported.note.write_bytes(before)  # as a crash right after the decision leaves it
    assert not verified(exported, run=run.folder).holds
    Federation.open(run.folder, recovering=True).recover()
    assert not verified(exported, revocations=exported.note).holds
    number = json.loads(exported.note.read_bytes())["exports"]["number"]
    assert not refresh(run.folder), "to repeat it changes nothing"
    assert json.loads(exported.note.read_bytes())["exports"]["number"] == number


def test_an_update_of_the_run_revokes_it(run: Federation, exported: Exported) -> None:
    Federation.update(run.folder, frames=tables(cells(1)))
    assert not verified(exported, revocations=run.folder / EXPORTS).holds


# Tampering


def change_weights(exported: Exported) -> None:
    tensors = load_file(exported.path)
    save_file({k: v + 1 if v.is_floating_point() else v for k, v in tensors.items()}, exported.path)


def change_version(exported: Exported) -> None:
    raw = json.loads(exported.signed.read_bytes())
    raw["export"]["version"] += 1
    exported.signed.write_text(json.dumps(raw))


def sign_as_somebody(exported: Exported) -> None:
    somebody = Signer(exported.path.parent / "somebody")
    raw = json.loads(exported.signed.read_bytes())["export"]
    exported.signed.write_bytes(signed("export", exported.export, somebody))
    assert json.loads(exported.signed.read_bytes())["export"] == raw


def unrevoke(exported: Exported) -> None:
    raw = json.loads(exported.note.read_bytes())
    raw["exports"]["version"] = exported.export.version + 7
    exported.note.write_text(json.dumps(raw))


def note_of_another_key(exported: Exported) -> None:
    somebody = Signer(exported.path.parent / "somebody")
    raw = json.loads(exported.note.read_bytes())
    raw |= {"key": somebody.public, "signature": somebody.sign(canonical(raw["exports"]))}
    exported.note.write_text(json.dumps(raw))


def no_note(exported: Exported) -> None:
    exported.note.unlink()


def add_a_field(exported: Exported) -> None:
    raw = json.loads(exported.signed.read_bytes())
    exported.signed.write_text(json.dumps({**raw, "note": "approved"}))


def cut(exported: Exported) -> None:
    exported.path.write_bytes(exported.path.read_bytes()[:-9])


@pytest.mark.parametrize(
    "tamper",
    [
        *(change_weights, change_version, sign_as_somebody, unrevoke, note_of_another_key),
        *(no_note, add_a_field, cut),
    ],
    ids=lambda each: str(each.__name__),
)
def test_what_was_changed_is_refused_by_verify_and_serve(
    exported: Exported, tamper: Callable[[Exported], None]
) -> None:
    tamper(exported)
    assert verified(exported, revocations=exported.note).faults
    with pytest.raises(RunError):
        ServedTop(ExportFiles.of(exported.path, exported.note))


def test_a_signature_of_somebody_else_is_not_the_trusted_one(exported: Exported) -> None:
    trusted = Signer(exported.note.parent / ACTIVE).public
    sign_as_somebody(exported)
    checks = verified(exported, trust={ACTIVE: trusted})
    assert any("trusted" in fault for fault in checks.faults)


def test_an_export_that_a_note_does_not_list_is_refused(
    run: Federation, exported: Exported, tmp_path: Path
) -> None:
    note = shutil.copy(exported.note, tmp_path / "earlier.json")
    (tmp_path / "more").mkdir()
    other = blind_run(cells(1), tmp_path / "other").export(tmp_path / "more" / "top.safetensors")
    assert verified(other, revocations=note).faults
    with pytest.raises(SettingsError):
        ServedTop(ExportFiles.of(exported.path))


def test_a_damaged_note_stops_the_next_export_and_stays(
    run: Federation, exported: Exported, tmp_path: Path
) -> None:
    unrevoke(exported)
    before = exported.note.read_bytes()
    with pytest.raises(CheckpointError):
        run.export(tmp_path / "second.safetensors")
    assert exported.note.read_bytes() == before
    assert not (tmp_path / "second.safetensors").exists()


# Questions


def test_a_question_that_does_not_fit_is_refused(run: Federation, exported: Exported) -> None:
    good = embeddings(run)
    party = next(iter(good))
    model = ServedTop(ExportFiles.of(exported.path, exported.note))
    with serving(model, limits=Limits(rows=5)) as client:
        for bad in (
            {},
            {party: good[party]},
            {**good, party: []},
            {**good, party: good[party][:2]},
            {**good, party: [row[1:] for row in good[party]]},
            {**good, "nobody": good[party]},
        ):
            assert client.ask({"embeddings": bad}).status == 422, bad
        for question in ({"ids": ["P000"]}, {"rows": new_rows(1)}, {"embeddings": {party: "x"}}):
            assert client.ask(question).status == 422
        assert client.ask({"embeddings": good, "ids": ["P000"]}).status == 422
        many = {name: rows * 2 for name, rows in good.items()}
        assert client.ask({"embeddings": many}).status == 413
    with serving(run) as client:
        assert client.ask({"embeddings": good}).code == "settings"


def test_embeddings_too_large_for_the_top_are_refused(run: Federation, exported: Exported) -> None:
    good = embeddings(run, 1)
    party, row = next((name, rows[0]) for name, rows in good.items())
    weights = load_file(exported.path)["head.weight"][0]
    sums = (3.4e38 * weights.sign()).split([len(rows[0]) for rows in good.values()])
    model = ServedTop(ExportFiles.of(exported.path, exported.note))
    with serving(model) as client:
        for bad in (
            {**good, party: [[1e300, *row[1:]]]},
            {**good, party: [[-1e300, *row[1:]]]},
            dict(zip(good, [[part.tolist()] for part in sums], strict=True)),
        ):
            refused = client.ask({"embeddings": bad})
            assert (refused.status, refused.code) == (422, "data"), bad
        assert client.ask({"embeddings": good}).status == 200


def test_no_code_that_an_export_names_is_run(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        load_top(replace(exported.export, top="os:getcwd"), exported.path)
