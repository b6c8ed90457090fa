"""Predictions in a federation: while a party is down, and of new people.

The parties are those of kits, in this process; the job client of the tests knows who is down.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from federation.course import KEY
from small_parties import (
    LABELS,
    PARTIES,
    PASSIVE,
    LocalParties,
    animals,
    local_parties,
    person,
    provisioned,
    write_tables,
)
from torch import Tensor
from typer.testing import CliRunner

from unlabel import Federation
from unlabel.cli.main import app
from unlabel.data import ACTIVE
from unlabel.errors import PartyLost, SettingsError
from unlabel.forget import ForgetSettings
from unlabel.remote import imputation
from unlabel.remote.connect import RemoteFederation
from unlabel.remote.kit import Kit

#: People whom the active party gets to know only after the training.
NEW = range(400, 420)


@dataclass(frozen=True)
class Scene:
    """A federation of three parties in this process, and its files."""

    folder: Path
    parties: LocalParties

    @property
    def kit(self) -> Kit:
        return self.parties.kits[ACTIVE]

    @property
    def down(self) -> set[str]:
        return self.parties.down

    @property
    def file(self) -> Path:
        return self.kit.home / imputation.FILE

    @property
    def labels(self) -> pd.Series:
        return pd.read_csv(self.folder / "labels.csv").set_index("id")["animal"]

    def embeddings(self, party: str, values: Tensor) -> Tensor:
        """Return what a party's own model makes of features, without any message."""
        bottom = self.parties.homes[party].party.bottom
        assert bottom.scaling is not None
        with torch.no_grad():
            found: Tensor = bottom.module.eval()(bottom.scaling.apply(values))
        return found

    def features(self, party: str, ids: Sequence[str]) -> Tensor:
        """Return the features of people from a party's file."""
        table = pd.read_csv(self.folder / f"{party}.csv").set_index("id").loc[list(ids)]
        return torch.tensor(table.to_numpy(), dtype=torch.float32)


def train_in(folder: Path, missing: str) -> None:
    """Make a federation in a folder and train it; the active party lacks the new people."""
    tables = write_tables(folder)
    own = pd.read_csv(tables[ACTIVE])
    own.to_csv(folder / "labels.csv", index=False)
    own[~own["id"].isin([person(number) for number in NEW])].to_csv(tables[ACTIVE], index=False)
    more = f"predict: {{missing: {missing}}}\n"
    provisioned(folder, animals(train="epochs: 4, batch: 32, lr: 0.1", more=more))
    with here(folder) as scene, Federation.connect(scene.kit.folder, resume=True) as federation:
        federation.train()


@contextlib.contextmanager
def here(folder: Path) -> Iterator[Scene]:
    """Have commands reach the parties in this process, as if all of them were started."""
    kits = {name: folder / "kits" / name for name in PARTIES}
    with local_parties(kits, {name: folder / f"{name}.csv" for name in PARTIES}) as parties:
        yield Scene(folder, parties)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, "without")
    return folder


@pytest.fixture
def scene(trained: Path, tmp_path: Path) -> Iterator[Scene]:
    shutil.copytree(trained, tmp_path / "copy")
    with here(tmp_path / "copy") as scene:
        yield scene


def kept_rows_mean(scene: Scene, federation: RemoteFederation, party: str) -> Tensor:
    """Return the mean embedding of the rows that are trained on, worked out from the files."""
    forgotten = federation.forgotten.labels
    rows = federation.holdings.rows.train
    kept = [r for r in rows.tolist() if int(federation.holdings.labels[r]) not in forgotten]
    ids = [str(federation.holdings.ids[row]) for row in kept]
    return scene.embeddings(party, scene.features(party, ids)).mean(0, keepdim=True)


def test_after_training_the_mean_of_each_partys_embeddings_is_kept_for_its_owner(
    scene: Scene,
) -> None:
    found = imputation.read(scene.kit.home)
    assert found is not None
    assert os.stat(scene.file).st_mode & 0o777 == 0o600
    with Federation.connect(scene.kit.folder) as federation:
        assert found.version == federation.version
        for party in PASSIVE:
            expected = kept_rows_mean(scene, federation, party)
            torch.testing.assert_close(found.means[party], expected, rtol=1e-5, atol=1e-6)


def test_predictions_without_a_party_use_its_mean_and_say_so(scene: Scene) -> None:
    with Federation.connect(scene.kit.folder) as federation:
        mean = kept_rows_mean(scene, federation, "loan")
    scene.down.add("loan")
    with Federation.connect(scene.kit.folder, fewer=True) as federation:
        found = federation.with_recovery(federation.predict)
        ids = [str(one) for one in found.ids]
        shop = scene.embeddings("shop", scene.features("shop", ids))
        with torch.no_grad():
            expected = federation.active.top.module.eval()(
                [shop, mean.expand(len(ids), -1)]
            ).softmax(1)
    assert found.without == ("loan",)
    np.testing.assert_allclose(found.probabilities, expected.numpy(), atol=1e-5)
    known = np.mean([scene.labels[i] == x for i, x in zip(ids, found.labels, strict=True)])
    assert known > 1 / len(LABELS)  # better than by chance


def test_a_party_that_dies_while_it_is_asked_is_done_without(scene: Scene) -> None:
    with Federation.connect(scene.kit.folder, fewer=True) as federation:
        assert federation.with_recovery(federation.predict).without == ()
        scene.down.add("shop")
        assert federation.with_recovery(federation.predict).without == ("shop",)
        scene.down.clear()
        scene.down.add("loan")
        assert federation.with_recovery(federation.predict).without == ("loan",)


@pytest.mark.parametrize(
    "act",
    [
        lambda federation: federation.active.prepare(federation.holdings.rows.train, 1),
        lambda federation: federation.active.step(federation.holdings.rows.train[:8], 0),
        lambda federation: federation.forget([LABELS[1]]),
        Federation.purge,
    ],
)
def test_nothing_but_a_prediction_goes_on_without_a_party(
    scene: Scene, act: Callable[[RemoteFederation], object]
) -> None:
    scene.down.add("loan")
    with (
        Federation.connect(scene.kit.folder, fewer=True) as federation,
        pytest.raises(PartyLost, match="loan"),
    ):
        act(federation)


def test_a_commit_renews_the_means_without_what_was_forgotten(scene: Scene) -> None:
    before = imputation.read(scene.kit.home)
    with Federation.connect(scene.kit.folder) as federation:
        federation.forget(
            [LABELS[1]], settings=ForgetSettings(method="ascent", key=KEY, allow_collapse=True)
        ).commit(force=True)
        # Rows of the label still lie in the table, so the mean of all would be another.
        expected = kept_rows_mean(scene, federation, "shop")
    found = imputation.read(scene.kit.home)
    assert before is not None
    assert found is not None
    assert found.version == before.version + 1
    torch.testing.assert_close(found.means["shop"], expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(found.means["shop"], before.means["shop"], atol=1e-3)


def test_a_request_that_only_waits_leaves_the_means_as_they_are(scene: Scene) -> None:
    before = scene.file.read_bytes()
    with Federation.connect(scene.kit.folder) as federation:
        federation.forget(
            [LABELS[1]], settings=ForgetSettings(method="ascent", key=KEY, allow_collapse=True)
        )
    assert scene.file.read_bytes() == before


def test_means_of_other_weights_go_before_anything_else_is_done(scene: Scene) -> None:
    found = imputation.read(scene.kit.home)
    assert found is not None
    for old in (
        {**vars(found), "version": found.version - 1},
        {**vars(found), "parties": {**found.parties, "shop": "0" * 64}},
    ):
        imputation.Imputations(**old).write(scene.kit.home)
        with Federation.connect(scene.kit.folder):
            assert not scene.file.exists()
        assert imputation.read(scene.kit.home) is not None


def test_means_of_other_weights_do_not_stand_in(scene: Scene) -> None:
    found = imputation.read(scene.kit.home)
    assert found is not None
    imputation.Imputations(**{**vars(found), "version": found.version - 1}).write(scene.kit.home)
    scene.down.add("loan")
    with (
        pytest.raises(PartyLost, match="'loan'"),
        Federation.connect(scene.kit.folder, fewer=True),
    ):
        pass


def test_where_the_parties_agreed_to_refuse_no_mean_is_kept_and_the_party_is_named(
    tmp_path: Path,
) -> None:
    train_in(tmp_path, "refuse")
    with here(tmp_path) as scene:
        assert not scene.file.exists()
        scene.down.add("loan")
        with (
            pytest.raises(PartyLost, match="'loan'"),
            Federation.connect(scene.kit.folder, fewer=True),
        ):
            pass


def test_new_people_are_found_in_every_partys_own_table(scene: Scene, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    asked = [*(person(number) for number in NEW), "stranger-1", "stranger-2"]
    new.write_text("\n".join(["id", *asked]) + "\n", encoding="utf-8")
    held = [set(pd.read_csv(scene.folder / f"{party}.csv")["id"]) for party in PASSIVE]
    known = sorted(one for one in asked if all(one in own for own in held))
    assert 0 < len(known) < len(NEW)  # some parties lack some of them
    with Federation.connect(scene.kit.folder) as federation:
        found = federation.predict(tables={ACTIVE: new})
        parts = [scene.embeddings(p, scene.features(p, known)) for p in PASSIVE]
        with torch.no_grad():
            expected = federation.active.top.module.eval()(parts).softmax(1)
    assert found.ids.tolist() == known
    assert found.unknown == len(asked) - len(known)
    assert found.without == ()
    np.testing.assert_allclose(found.probabilities, expected.numpy(), atol=1e-5)
    right = sum(scene.labels[i] == x for i, x in zip(known, found.labels, strict=True))
    assert right > 0.8 * len(known)


def test_the_command_marks_what_it_answers_without_a_party(scene: Scene, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    ids = [person(number) for number in NEW]
    new.write_text("\n".join(["id", *ids, "stranger"]) + "\n", encoding="utf-8")
    scene.down.add("loan")
    known = sum(one in set(pd.read_csv(scene.folder / "shop.csv")["id"]) for one in ids)
    command = ["predict", "--federation", str(scene.kit.folder), "--table", f"active={new}"]
    done = CliRunner().invoke(app, [*command, "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["without"], told["rows"]) == (["loan"], known)
    assert told["unknown"] == len(ids) + 1 - known
    assert set(pd.read_csv(out)["without"]) == {"loan"}
    shown = CliRunner().invoke(app, command)
    assert "predictions, WITHOUT loan" in shown.output
    assert "not every party knows them" in shown.output
    assert "stranger" not in shown.output


@pytest.mark.parametrize(
    "source", [{"tables": {"shop": "new.csv"}}, {"data": "new.npz"}], ids=["a partner's", "a file"]
)
def test_what_a_federation_cannot_predict_is_refused(
    scene: Scene, source: dict[str, object]
) -> None:
    with Federation.connect(scene.kit.folder) as federation, pytest.raises(SettingsError):
        federation.predict(**source)  # type: ignore[arg-type]


def test_files_of_public_samples_are_refused_in_a_federation(scene: Scene, tmp_path: Path) -> None:
    with Federation.connect(scene.kit.folder) as federation, pytest.raises(SettingsError):
        federation.forget([LABELS[1]], settings=ForgetSettings(public=tmp_path / "public.csv"))
