"""An exact request computed again: bit for bit, or the thing that was changed is named."""

from __future__ import annotations

import hmac
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cli.command_line import one_thread
from report.certified import Forger
from report.exact_runs import (
    make_run,
    nobody_asked,
    people,
    quick_measures,
    replace_tensors,
    state_of,
)
from safetensors.torch import load_file, save_file

import unlabel as ul
from unlabel import Federation
from unlabel.files import sha256
from unlabel.report.blinding import blinded
from unlabel.report.replay import GONE_ON, NO_REPLAY
from unlabel.runfolder import read_config_of
from unlabel.train import VersionFacts
from unlabel.train.label_record import LabelRecord
from unlabel.train.parts import known_labels
from unlabel.train.replay import differing, kept_data

__all__ = ["one_thread"]  # a fixture for every test here

SAME = "Replayed bit for bit: computed again from what stays, "


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with quick_measures():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("blind") / "run", top="mlp")


def certify(run: Path, **request: Any) -> Path:
    federation = Federation.open(run)
    federation.forget(**request).commit()
    federation.certificate()
    return run


@pytest.fixture(scope="module")
def certified(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(trained, tmp_path_factory.mktemp("certified") / "run"))
    return certify(run, ids=people(run, 3))


@pytest.fixture
def run(certified: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(certified, tmp_path / "run"))


def replayed(run: Path) -> ul.Checks:
    with nobody_asked():
        return ul.verify(run / "certificate.json", replay=run)


def version_of(run: Path) -> Path:
    body = json.loads((run / "certificate.json").read_text())["certificate"]
    return run / "active" / "versions" / f"{body['version']:06d}.safetensors"


def sign_weights(run: Path) -> None:
    """Have the label holder sign the weights that lie there now, as a liar with its key would."""
    forger = Forger(run, run)
    key = json.loads((run / "active" / "secrets" / f"{forger.body['request']}.json").read_text())
    digest = blinded(sha256(version_of(run).read_bytes()), key["key"])
    forger.part("active")["weights"]["after"] = digest
    forger.sign_part("active")
    forger.sign()


def of_replay(checks: ul.Checks) -> list[str]:
    """Return the faults that the computation found, not those of the ledger and its hashes."""
    return [each for each in checks.faults if "ledger of party" not in each]


@pytest.mark.parametrize("top", ["linear", "mlp", "sklearn:HistGradientBoostingClassifier"])
def test_labels_come_out_bit_for_bit_before_and_after_a_purge(tmp_path: Path, top: str) -> None:
    run = certify(make_run(tmp_path / "run", top=top), labels=["beech"])
    for _ in range(2):
        checks = replayed(run)
        assert checks.faults == []
        assert [each for each in checks.held if each.startswith(SAME)]
        Federation.open(run).purge()


def test_people_come_out_bit_for_bit_from_the_label_holders_folder_alone(run: Path) -> None:
    shutil.rmtree(run / "shop")
    checks = replayed(run)
    assert checks.faults == []
    assert [each for each in checks.held if each.startswith(SAME)]
    assert any("no folder of party 'shop'" in each for each in checks.unchecked)


def test_it_writes_nothing(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    replayed(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_forged_top_is_named_even_where_its_owner_signs_it(run: Path) -> None:
    def nudge(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.endswith("weight"))
        tensors[name] = tensors[name] + 1e-4

    replace_tensors(version_of(run), nudge)
    assert any("are not those that party 'active' signed" in e for e in replayed(run).faults)
    sign_weights(run)
    (fault,) = of_replay(replayed(run))
    assert "is not what comes out when it is computed again from what stays: 1 of" in fault


def test_a_top_that_was_fitted_with_the_forgotten_people_is_named_as_that(
    run: Path, trained: Path
) -> None:
    before = state_of(max((trained / "active" / "versions").glob("*.safetensors")))

    def keep(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: before[name] for name in tensors})

    replace_tensors(version_of(run), keep)
    sign_weights(run)
    (fault,) = of_replay(replayed(run))
    assert fault.endswith("It is the one that comes out with the forgotten labels kept.")


def test_a_top_with_an_output_for_a_forgotten_label_is_named(tmp_path: Path, trained: Path) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    before = state_of(max((trained / "active" / "versions").glob("*.safetensors")))
    certify(run, labels=["beech"])

    def keep(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: before[name] for name in tensors})

    replace_tensors(version_of(run), keep)
    sign_weights(run)
    (fault,) = of_replay(replayed(run))
    assert "It has outputs for labels that do not stay: beech." in fault


def test_a_list_of_the_forgotten_that_lacks_one_is_another_input(run: Path) -> None:
    path = version_of(run).with_suffix(".json")
    manifest = json.loads(path.read_text())
    manifest["facts"]["forgotten"]["rows"].pop()
    path.write_text(json.dumps(manifest))
    (fault,) = of_replay(replayed(run))
    assert "the list of what is forgotten was changed" in fault


def change_label(run: Path) -> tuple[int, str]:
    """Give somebody whose label stays another one, in the label holder's own table."""
    manifest = json.loads(version_of(run).with_suffix(".json").read_text())
    past = VersionFacts.from_json(manifest["facts"]).forgotten.rows
    data = kept_data(read_config_of(run), run)
    row = next(number for number in data.rows.train.tolist() if number not in past)
    other = data.names[(int(data.labels[row]) + 1) % len(data.names)]
    path = run / "active" / "table.parquet"
    frame = pd.read_parquet(path)
    frame.loc[frame["id"] == data.ids[row], "grown"] = other
    frame.to_parquet(path)
    return row, other


def test_a_changed_row_is_named_also_where_the_record_of_it_was_changed_too(run: Path) -> None:
    pytest.importorskip("pyarrow")  # else tables are kept in another form
    row, other = change_label(run)
    (fault,) = of_replay(replayed(run))
    assert "has changed since the run began" in fault
    # Who can write the table can write the record of it, but not what was signed.
    record = LabelRecord.read(run / "active")
    assert record is not None
    marks = record.commitments.copy()
    mark = hmac.digest(record.keys[row].tobytes(), other.encode(), "sha256")
    marks[row] = np.frombuffer(mark, np.uint8)
    replace(record, commitments=marks).write(run / "active")
    (fault,) = of_replay(replayed(run))
    assert "a row, a label or the list of what is forgotten was changed" in fault


def test_changed_embeddings_are_named_also_where_their_digest_was_changed_with_them(
    run: Path,
) -> None:
    path = run / "active" / "label-free" / "embeddings.safetensors"
    parts = load_file(path)
    parts["shop"][0] += 1
    save_file(parts, path)
    (fault,) = of_replay(replayed(run))
    assert "embeddings.safetensors' are not those that the request was computed from" in fault
    base = path.with_name("base.json")
    raw = json.loads(base.read_text())
    base.write_text(json.dumps({**raw, "files": {path.name: sha256(path.read_bytes())}}))
    (fault,) = of_replay(replayed(run))
    assert "embeddings.safetensors' are not those" in fault
    path.unlink()
    assert any("are missing" in each for each in replayed(run).faults)


def test_another_recipe_is_named(run: Path) -> None:
    path = run / "run.yaml"
    text = path.read_text()
    assert "epochs: 8" in text
    path.write_text(text.replace("epochs: 8", "epochs: 9"))
    assert any("`fit` is another" in each for each in replayed(run).faults)


def test_in_another_environment_it_is_near_and_never_called_exact(run: Path) -> None:
    forger = Forger(run, run)
    forger.body["replay"]["environment"]["torch"] = "1.0"
    forger.sign()
    checks = replayed(run)
    (held,) = [each for each in checks.held if each.startswith("Computed again")]
    assert "in another environment (torch 1.0, here " in held
    assert "has the same weights" in held
    assert not any("bit for bit" in each for each in checks.held)

    def nudge(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.endswith("weight"))
        tensors[name] = tensors[name] + 1e-5

    replace_tensors(version_of(run), nudge)
    sign_weights(run)
    checks = replayed(run)
    assert of_replay(checks) == []
    (held,) = [each for each in checks.held if each.startswith("Computed again")]
    assert "(0.01 is allowed)" in held
    assert not any("bit for bit" in each for each in checks.held)
    replace_tensors(
        version_of(run), lambda tensors: [t.mul_(3) for t in map(_floats, tensors.values())]
    )
    sign_weights(run)
    (fault,) = of_replay(replayed(run))
    assert "It was computed in another environment" in fault


def _floats(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_floating_point() else torch.zeros(1)


def test_a_run_that_has_gone_on_and_a_request_of_before_are_not_computed_again(run: Path) -> None:
    old = (run / "certificate.json").read_bytes()
    federation = Federation.open(run)
    first = json.loads(old)["certificate"]["request"]
    federation.forget(["beech"]).commit()
    federation.purge()
    (run / "certificate.json").write_bytes(old)
    assert GONE_ON in replayed(run).unchecked
    # Of its inputs nothing is noted any more, so the certificate cannot state them.
    federation.certificate(request=first)
    checks = replayed(run)
    assert checks.faults == []
    assert NO_REPLAY in checks.unchecked


# --- tuned runs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("tuned") / "run", kind="tuned", objective="contrast")
    federation = Federation.open(run)
    outcome = federation.forget(["beech"])
    federation.audit()
    outcome.commit()
    federation.certificate()
    return run


def test_a_restart_is_done_again_with_every_party_on_a_copy(tuned: Path) -> None:
    before = {path: path.read_bytes() for path in tuned.rglob("*") if path.is_file()}
    checks = ul.verify(tuned / "certificate.json", replay=tuned)
    assert checks.faults == []
    assert any(each.startswith(f"{SAME}every party's model") for each in checks.held)
    assert any("is the label holder's word, replayable" in each for each in checks.held)
    assert {path: path.read_bytes() for path in tuned.rglob("*") if path.is_file()} == before


def test_a_restart_needs_all_parties_in_one_place(tuned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tuned, tmp_path / "run"))
    shutil.rmtree(run / "shop")
    checks = ul.verify(run / "certificate.json", replay=run)
    assert checks.faults == []
    assert any("takes all parties' folders and data" in each for each in checks.unchecked)


def test_a_restart_that_did_not_happen_is_named(tuned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tuned, tmp_path / "run"))

    def nudge(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.startswith("top/") and "bias" in name)
        tensors[name] = tensors[name] + 0.5

    replace_tensors(version_of(run), nudge)
    forger = Forger(run, run)
    forger.part("active")["weights"]["after"] = sha256(version_of(run).read_bytes())
    forger.sign_part("active")
    forger.sign()
    judged, fault = of_replay(ul.verify(run / "certificate.json", replay=run))
    assert judged == "The audit judged other weights than those that were committed."
    assert "is not what comes out when it is computed again" in fault


def test_the_fit_is_a_function_of_what_stays(run: Path) -> None:
    data = kept_data(read_config_of(run), run)
    states = []
    for past in ([0, 1], [0, 1], [0, 2]):
        left = known_labels(data.labels, data.names, past)
        states.append(data.fitted(*left).versions.model_state())
    assert differing(states[0], states[1]) == []
    assert differing(states[0], states[2]) != []
    other = data.fitted(*known_labels(data.labels, data.names, [0, 1]), seed=7)
    assert differing(states[0], other.versions.model_state()) != []
