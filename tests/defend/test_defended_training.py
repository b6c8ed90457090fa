"""Defences in the real federation: training, forgetting, prediction, and the run's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import small_holdings

from unlabel import Federation, RunConfig
from unlabel.config import DefendSettings
from unlabel.config.loader import dump, parse_run, read_yaml
from unlabel.defend import Gaussian, Quantise
from unlabel.defend.defence import defences_of
from unlabel.errors import SettingsError
from unlabel.party import ActiveParty, PassiveParty
from unlabel.train import Holdings, Training, assemble
from unlabel.wire import Embeddings, Gradients, Recorder

DIGITS = {"parties": 2, "model": "mlp", "epochs": 6, "validation": 0.0, "seed": 3}


def built(
    holdings: Holdings, defend: DefendSettings
) -> tuple[ActiveParty, dict[str, PassiveParty]]:
    config = replace(holdings.config, defend=defend)
    return assemble(replace(holdings, config=config))


def trained(defend: DefendSettings | None) -> dict[str, torch.Tensor]:
    """Return all weights after a small training; None builds it without the new settings."""
    holdings = small_holdings(2)
    active, passives = assemble(holdings) if defend is None else built(holdings, defend)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    found = {f"active/{k}": v for k, v in active.top.state().items()}
    for name, party in passives.items():
        found |= {f"{name}/{k}": v for k, v in party.bottom.state().items()}
    return {name: tensor.clone() for name, tensor in found.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_without_defences_not_one_bit_changes() -> None:
    assert same(trained(None), trained(DefendSettings()))
    active, passives = built(small_holdings(2), DefendSettings())
    assert active.filters.each == ()
    message = Gradients(0, torch.ones(2, 3))
    assert active.filters(message, "passive-1") is message
    assert all(party.filters.each == () for party in passives.values())


def test_noise_moves_the_weights_and_a_seed_repeats_it() -> None:
    noisy = DefendSettings(gradients=["gaussian:clip=1:sigma=0.01"], seed=1)
    assert same(trained(noisy), trained(noisy))
    assert not same(trained(noisy), trained(DefendSettings()))
    assert not same(trained(noisy), trained(replace(noisy, seed=2)))
    secret = replace(noisy, seed=None)
    assert not same(trained(secret), trained(secret))


def test_the_party_is_sent_what_the_defences_leave() -> None:
    settings = DefendSettings(
        gradients=["gaussian:clip=0.001:sigma=0"], embeddings=["gaussian:clip=0.5:sigma=0"]
    )
    active, passives = built(small_holdings(2), settings)
    recorder = Recorder(active.transport, keep_tensors=True)
    active.transport = recorder
    rows = torch.arange(8)
    active.prepare(torch.arange(32), 4)
    active.step(rows, 0)
    exact = passives["passive-1"].bottom.embed(rows, table="main", mode="predict", step=0)
    assert exact.norm(dim=1).max() > 0.5
    heard: dict[str, list[torch.Tensor]] = {}
    for entry in recorder.transcripts["passive-1"].entries:
        heard.setdefault(entry.kind, []).extend(entry.tensors.values())
    (gradients,), (embeddings,) = heard[Gradients.__name__], heard[Embeddings.__name__]
    assert gradients.norm(dim=1).max() <= 0.001 * (1 + 1e-6)
    assert gradients.norm(dim=1).max() > 0.0009
    assert embeddings.norm(dim=1).max() <= 0.5 * (1 + 1e-6)


def test_each_party_gets_noise_of_its_own() -> None:
    active, _ = built(
        small_holdings(2), DefendSettings(gradients=["gaussian:clip=1:sigma=1"], seed=0)
    )
    message = Gradients(0, torch.zeros(50, 20))
    one, other = (active.filters(message, f"passive-{n}") for n in (1, 2))
    found = torch.stack([one.values.flatten(), other.values.flatten()])  # type: ignore[attr-defined]
    assert abs(torch.corrcoef(found)[0, 1]) < 0.15


@pytest.mark.parametrize(
    "defend",
    [
        DefendSettings(gradients=["top-k:keep=0.25"], seed=0),
        DefendSettings(gradients=["gaussian:clip=0.01:sigma=0.001"], seed=0),
        DefendSettings(embeddings=["quantise:bits=6"], seed=0),
    ],
    ids=["top-k", "gaussian", "quantise"],
)
def test_a_federation_learns_and_forgets_with_a_mild_defence(defend: DefendSettings) -> None:
    federation = Federation.local("digits", defend=defend, **DIGITS)  # type: ignore[arg-type]
    federation.train()
    assert federation.evaluate().accuracy > 0.85
    outcome = federation.forget([0])
    deleted, stays = outcome.result.forgotten_accuracy.after, outcome.result.retained_accuracy.after
    outcome.rollback()
    assert deleted is not None
    assert deleted < 0.1
    assert stays is not None
    assert stays > 0.8


def test_noise_that_drowns_the_gradients_stops_the_learning() -> None:
    loud = DefendSettings(gradients=["gaussian:clip=0.01:sigma=0.03"], seed=0)
    federation = Federation.local("digits", defend=loud, **DIGITS)  # type: ignore[arg-type]
    quiet = Federation.local("digits", **DIGITS)  # type: ignore[arg-type]
    federation.train()
    quiet.train()
    assert federation.evaluate().accuracy < quiet.evaluate().accuracy - 0.1


# --- settings ------------------------------------------------------------------------------

TABLES: dict[str, Any] = {
    "active": {"table": "a.csv", "label": "y"},
    "passive": [
        {"name": "shop", "table": "b.csv", "defend": ["quantise:bits=8"]},
        {"name": "post", "table": "c.csv"},
        {"name": "mill", "table": "d.csv", "defend": []},
    ],
    "defend": {"embeddings": ["gaussian:clip=2:sigma=0.5"], "gradients": ["gaussian"]},
}


def test_a_passive_party_may_choose_its_own_defences() -> None:
    config = parse_run(TABLES, "text")
    assert defences_of(config, "shop") == (Quantise(8),)
    assert defences_of(config, "post") == (Gaussian(2.0, 0.5),)
    assert defences_of(config, "mill") == ()
    assert defences_of(config, "active") == (Gaussian(),)


def test_defences_are_kept_with_the_run(tmp_path: Path) -> None:
    config = parse_run(TABLES, "text")
    path = tmp_path / "run.yaml"
    path.write_text(dump(config))
    assert parse_run(read_yaml(path), "text") == config
    assert "defend" not in dump(RunConfig(data="digits"))
    folder = tmp_path / "run"
    defend = DefendSettings(gradients=["top-k:keep=0.5"])
    Federation.local("digits", folder=folder, defend=defend, epochs=1, model="mlp").train()
    opened = Federation.open(folder)
    assert opened.active.filters.each == defences_of(opened.config, "active")
    assert opened.config.defend == defend


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"gradients": "top-k"}, "`defend.gradients` got 'top-k' but accepts a list."),
        ({"gradient": []}, "Unknown setting under `defend` 'gradient'. Did you mean 'gradients'?"),
        ({"seed": -1}, "Expected `defend.seed` to be 0 or more but got -1."),
    ],
)
def test_a_mistake_is_named_with_its_field(raw: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_run({"data": "digits", "defend": raw}, "text")
    assert str(error.value).startswith(f"text: {sentence}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"defend": {"gradients": ["gausian"]}}, "`defend.gradients` cannot be gausian: Unknown"),
        ({"defend": {"embeddings": ["top-k"]}}, "`defend.embeddings` cannot be top-k: Expected"),
        (
            {"passive": [{"name": "shop", "table": "b.csv", "defend": ["quantise:bits=99"]}]},
            "`passive.defend` cannot be quantise:bits=99",
        ),
    ],
)
def test_what_is_no_defence_is_refused_before_anything_is_read_or_written(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    config = parse_run({**TABLES, **changes}, "text")
    with pytest.raises(SettingsError) as error:
        Federation.create(config, tmp_path / "run")
    assert str(error.value).startswith(sentence)
    assert not (tmp_path / "run").exists()
