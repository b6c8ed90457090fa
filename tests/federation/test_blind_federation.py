"""A blind run between organisations: what its requests tell partners, and what these may forbid.

The parties are those of kits, in this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from federation.course import KEY
from federation.without_labels import (
    LABELS,
    NEW,
    PASSIVE,
    Scene,
    change_policy,
    connected,
    contrast,
    files_of,
    here,
    homes_in,
    set_up,
    together,
)
from small_parties import person
from typer.testing import CliRunner

import unlabel as ul
from unlabel.cli.main import app
from unlabel.config import Policy
from unlabel.config.party import SERVES
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, PartyLost, PartyRefused, RunError, SettingsError
from unlabel.forget import ForgetSettings
from unlabel.remote.describe import describe_kit
from unlabel.remote.kept_run import kept_by
from unlabel.remote.kit import Kit
from unlabel.train.label_free import EMBEDDINGS

SETTINGS = ForgetSettings(key=KEY)


def trained_in(folder: Path, **settings: str) -> None:
    """Set a blind federation up in a folder, and train it."""
    set_up(folder, "blind", **settings)  # type: ignore[arg-type]
    with here(folder) as scene, connected(scene, resume=True) as federation:
        federation.train()


def new_people(folder: Path) -> Path:
    """Write a table of people whom the run does not know."""
    pd.DataFrame({"id": NEW}).to_csv(folder / "new.csv", index=False)
    return folder / "new.csv"


def requests(scene: Scene) -> ul.Federation:
    """Make every kind of request, each verb in a connection of its own; return the last one."""
    acts: list[Callable[[ul.Federation], object]] = [
        lambda fed: fed.evaluate(),
        lambda fed: fed.forget([LABELS[1]], settings=SETTINGS),
        lambda fed: fed.audit(),
        lambda fed: fed.report(),
        lambda fed: fed.commit(force=True),
        lambda fed: fed.purge(),
        lambda fed: fed.certificate(),
        lambda fed: fed.status(),
        lambda fed: fed.copies(),
        lambda fed: fed.forget(ids=[str(fed.holdings.ids[0])], settings=SETTINGS),
        lambda fed: fed.commit(force=True),
        lambda fed: fed.forget([LABELS[2]], settings=SETTINGS),
        lambda fed: fed.rollback(),
        lambda fed: fed.recover(),
        lambda fed: fed.predict(part="train"),
        lambda fed: fed.train(),
    ]
    for act in acts:
        with connected(scene) as federation:
            act(federation)
    return federation


@pytest.mark.parametrize("across", [None, True], ids=["components", "contrast"])
def test_requests_send_not_one_message_and_start_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, across: bool | None
) -> None:
    label_free = "{}" if across is None else contrast(across=across)
    trained_in(tmp_path, label_free=label_free)

    def starts(*_: object) -> None:
        raise AssertionError("a job was started")

    with here(tmp_path) as scene:
        homes = {name: scene.parties.kits[name].home for name in PASSIVE}
        before = {name: files_of(home) for name, home in homes.items()}
        with monkeypatch.context() as patch:
            patch.setattr("small_parties.LocalClient.connect", starts)
            patch.setattr(Kit, "is_running", lambda _: False)
            federation = requests(scene)
        assert {name: files_of(home) for name, home in homes.items()} == before
        assert all(home.stats.counts == {} for home in scene.parties.homes.values())
    local = ul.Federation.create(together(tmp_path), tmp_path / "local")
    local.train()
    local.forget([LABELS[1]], settings=SETTINGS).commit(force=True)
    local.forget(ids=[str(local.holdings.ids[0])], settings=SETTINGS).commit(force=True)
    assert federation.labels == local.labels
    there, here_too = (fed.active.versions.model_state() for fed in (federation, local))
    assert there.keys() == here_too.keys()
    assert all(torch.equal(there[name], value) for name, value in here_too.items())


def test_new_people_are_predicted_through_the_parties_as_the_top_says(tmp_path: Path) -> None:
    trained_in(tmp_path)
    new = new_people(tmp_path)
    with here(tmp_path) as scene:
        truth = pd.read_csv(tmp_path / "shop.csv").set_index("id")
        with connected(scene) as federation:
            predictions = federation.predict(tables={ACTIVE: new})
            ids = [str(who) for who in predictions.ids]
            parts = [scene.embeddings(p, scene.features(p, ids)) for p in PASSIVE]
            with torch.no_grad():
                expected = federation.active.top.module.eval()(parts).softmax(1)
        np.testing.assert_allclose(predictions.probabilities, expected.numpy(), atol=1e-5)
        assert set(ids) <= set(NEW) & set(truth.index)
        for home in scene.parties.homes.values():
            kinds = {kind: count.times for kind, count in home.stats.counts.items()}
            assert kinds == dict.fromkeys(
                ("Describe", "AttestBase", "Match", "Offer", "Common", "Embed"), 1
            )


def test_new_people_need_the_engine_and_all_else_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_in(tmp_path)
    new = new_people(tmp_path)
    with here(tmp_path) as scene:
        monkeypatch.setattr(Kit, "is_running", lambda _: False)
        with connected(scene) as federation:
            with pytest.raises(RunError) as caught:
                federation.predict(tables={ACTIVE: new})
            assert caught.value.code == "not-running"
            assert federation.evaluate().accuracy > 0.8
            monkeypatch.undo()
            scene.down.add("loan")
            with pytest.raises(PartyLost):
                federation.predict(tables={ACTIVE: new})
            assert federation.losses == []  # it had not begun, so nothing was repeated
            scene.down.clear()
            assert len(federation.predict(tables={ACTIVE: new}).ids) > 10


def test_without_a_party_new_people_get_the_mean_of_its_kept_embeddings(tmp_path: Path) -> None:
    trained_in(tmp_path, predict="without")
    new = new_people(tmp_path)
    with here(tmp_path) as scene:
        scene.down.add("loan")
        with ul.Federation.connect(scene.kit.folder, fewer=True) as federation:
            predictions = federation.predict(tables={ACTIVE: new})
            kept = federation.active.local_embeddings["main"][1]
            mean = kept[federation.holdings.rows.train].double().mean(0, keepdim=True).float()
            ids = [str(who) for who in predictions.ids]
            shop = scene.embeddings("shop", scene.features("shop", ids))
            with torch.no_grad():
                module = federation.active.top.module.eval()
                expected = module([shop, mean.expand(len(ids), -1)]).softmax(1)
        assert predictions.without == ("loan",)
        np.testing.assert_allclose(predictions.probabilities, expected.numpy(), atol=1e-5)
        assert not scene.file.exists()  # the means are those of what is kept anyway


# --- what an operator may forbid --------------------------------------------------------------


def test_a_party_that_does_not_serve_it_ends_the_training_with_what_to_do(tmp_path: Path) -> None:
    fewer = [kind for kind in SERVES if kind != "BeginLabelFree"]
    set_up(tmp_path, "blind", policy=json.dumps({"serves": fewer}))
    with here(tmp_path) as scene, connected(scene, resume=True) as federation:
        with pytest.raises(PartyRefused, match=r"'shop'.*`bottoms: supervised`") as caught:
            federation.train()
        assert caught.value.code == "policy"
    homes = homes_in(tmp_path)
    assert not any((home / "base").exists() for home in homes.values())
    change_policy(tmp_path / "kits" / "shop", serves=Policy().serves)
    with here(tmp_path) as scene, connected(scene, resume=True) as federation:
        federation.train()
        assert federation.evaluate().accuracy > 0.8


@pytest.mark.parametrize("label_free", ["{}", contrast(across=False)])
def test_a_party_may_forbid_kept_embeddings_before_anything_is_made(
    tmp_path: Path, label_free: str
) -> None:
    policy = json.dumps({"kept_embeddings": False})
    set_up(tmp_path, "blind", label_free=label_free, policy=policy)
    with here(tmp_path) as scene, connected(scene, resume=True) as federation:
        with pytest.raises(PartyRefused, match=r"policy\.kept_embeddings") as caught:
            federation.train()
        assert caught.value.code == "policy"
        asked = scene.parties.homes["shop"].stats.counts
        assert "ContrastAlone" not in asked
        assert "Embed" not in asked
    assert not (homes_in(tmp_path)[ACTIVE] / "label-free" / EMBEDDINGS).exists()


def test_kept_embeddings_are_deleted_when_a_party_withdraws_them(tmp_path: Path) -> None:
    trained_in(tmp_path)
    new, kit = new_people(tmp_path), tmp_path / "kits" / "shop"
    kept = homes_in(tmp_path)[ACTIVE] / "label-free" / EMBEDDINGS
    assert kept.exists()
    change_policy(kit, kept_embeddings=False)
    spoken: list[str] = []
    with here(tmp_path) as scene:
        with ul.Federation.connect(scene.kit.folder, notify=spoken.append) as federation:
            before = federation.evaluate()
            federation.predict(tables={ACTIVE: new})  # the next word that is exchanged
            assert not kept.exists()
            assert any("'shop' does not allow" in sentence for sentence in spoken)
        with connected(scene) as federation:
            for act in (
                lambda: federation.forget([LABELS[1]]),
                lambda: federation.evaluate(),
                lambda: federation.predict(),
            ):
                with pytest.raises(CheckpointError, match=r"policy\.kept_embeddings"):
                    act()
            assert len(federation.predict(tables={ACTIVE: new}).ids) > 10
            with pytest.raises(PartyRefused):
                federation.train()
    change_policy(kit, kept_embeddings=True)
    with here(tmp_path) as scene:
        with connected(scene) as federation:
            federation.train()  # which asks for them again, and trains nothing
            assert federation.evaluate() == before
            assert federation.version == 1
        with connected(scene) as federation:
            federation.forget([LABELS[1]]).commit(force=True)


def test_the_label_holder_can_delete_them_at_a_word_on_the_telephone(tmp_path: Path) -> None:
    trained_in(tmp_path)
    kit = tmp_path / "kits" / ACTIVE
    kept = homes_in(tmp_path)[ACTIVE] / "label-free" / EMBEDDINGS
    with here(tmp_path) as scene:
        wrong = CliRunner().invoke(app, ["federation", "drop", str(kit), "--party", "shpo"])
        assert wrong.exit_code != 0
        assert kept.exists()
        done = CliRunner().invoke(app, ["federation", "drop", str(kit), "--party", "shop"])
        assert done.exit_code == 0, done.output
        assert not kept.exists()
        assert all(home.stats.counts == {} for home in scene.parties.homes.values())
        with connected(scene) as federation, pytest.raises(CheckpointError):
            federation.forget([LABELS[1]])


def test_only_a_blind_run_has_embeddings_to_delete() -> None:
    federation = ul.Federation.local("digits", epochs=1)
    with pytest.raises(SettingsError):
        federation.drop_embeddings("passive-1")


# --- files that changed -------------------------------------------------------------------------


def test_a_party_that_lost_its_alignment_finds_the_same_rows_again(tmp_path: Path) -> None:
    trained_in(tmp_path)
    home = homes_in(tmp_path)["shop"]
    (home / "alignment.safetensors").unlink()
    new = new_people(tmp_path)
    with here(tmp_path) as scene:
        with connected(scene) as federation:
            assert federation.evaluate().accuracy > 0.8
            with pytest.raises(RunError, match="'shop' works with other rows"):
                federation.predict(tables={ACTIVE: new})
        (homes_in(tmp_path)[ACTIVE] / "alignment.safetensors").unlink()
        with connected(scene) as federation:
            assert len(federation.predict(tables={ACTIVE: new}).ids) > 10
    table = pd.read_csv(tmp_path / "shop.csv")
    (home / "alignment.safetensors").unlink()
    (homes_in(tmp_path)[ACTIVE] / "alignment.safetensors").unlink()
    missing = pd.read_csv(tmp_path / "loan.csv")["id"].iloc[0]
    table[table["id"] != missing].to_csv(tmp_path / "shop.csv", index=False)
    with (
        here(tmp_path) as scene,
        pytest.raises(PartyRefused, match="trained on other rows"),
        connected(scene),
    ):
        pass


def test_a_party_with_another_bottom_is_not_asked_for_new_people(tmp_path: Path) -> None:
    trained_in(tmp_path)
    home = homes_in(tmp_path)["loan"]
    manifest = home / "base" / "000001.json"
    for path in (manifest, manifest.with_suffix(".safetensors")):
        path.unlink()
    with here(tmp_path) as scene:
        store = scene.parties.homes["loan"].party.required_store()
        bottom = scene.parties.homes["loan"].party.bottom
        bottom.prepare(torch.arange(100), 1)
        facts = {"features": "", "objective": "components", "kept_embeddings": True}
        gradients = {"gradients": 0, "gradients_digest": ""}
        store.base.save(1, bottom.model_state(), {**facts, **gradients})
        with connected(scene) as federation, pytest.raises(CheckpointError, match="'loan'"):
            federation.predict(tables={ACTIVE: new_people(tmp_path)})


# --- what people see ----------------------------------------------------------------------------


def test_an_operator_sees_how_the_bottom_is_made_and_what_is_served(tmp_path: Path) -> None:
    kits = set_up(tmp_path, "blind", label_free=contrast(across=False))
    facts = describe_kit(kits["shop"])
    assert facts["bottoms"] == {
        "kind": "blind",
        "objective": "contrast",
        "gradients": False,
        "kept_embeddings": True,
    }
    assert "Gradients" not in facts["policy"]["serves"]
    assert not (kits["shop"] / "state").exists()  # to look at a kit writes nothing
    shown = CliRunner().invoke(app, ["federation", "show", str(kits["shop"])])
    assert "no gradient is served" in " ".join(shown.output.split())
    across = set_up(tmp_path / "across", "blind", label_free=contrast(across=True))
    assert describe_kit(across["shop"])["bottoms"]["gradients"] is True
    assert "Gradients" in describe_kit(across["shop"])["policy"]["serves"]


def test_auto_is_decided_where_the_columns_of_all_parties_are_known(tmp_path: Path) -> None:
    kits = set_up(tmp_path, "blind")
    assert Kit.read(kits[ACTIVE]).agreement.label_free.objective == "components"
    assert person(400) == NEW[0]
    assert kept_by(Kit.read(kits[ACTIVE]), together(tmp_path)) is None  # not yet
