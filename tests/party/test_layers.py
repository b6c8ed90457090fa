"""How alike inner layers are before and after: computed by the party itself, by its policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from federations import small_holdings
from torch import Tensor, nn

from unlabel.audit import Verdict
from unlabel.config import AuditSettings, ForgetSettings, Policy, RunConfig
from unlabel.data import Features
from unlabel.federation import Federation
from unlabel.party import PassiveParty, Place
from unlabel.party.layers import aligned, gram
from unlabel.train import build_passive
from unlabel.wire import (
    CompareLayers,
    Done,
    Embed,
    Gradients,
    LayersCompared,
    Message,
    Prepare,
    Recorder,
    Refused,
    Save,
    Saved,
)

OPEN = Policy(layers=True)


def make_party(folder: Path, policy: Policy = OPEN) -> tuple[PassiveParty, str]:
    """Return a party that kept a version, and its digest."""
    holdings = small_holdings(2)
    config = replace(holdings.config, policy=policy)
    place = Place(torch.device("cpu"))
    features: Features = holdings.features["passive-1"]
    party = build_passive("passive-1", features, config, place, folder=folder)
    assert isinstance(party.handle(Prepare(0, torch.arange(32), 10)), Done)
    saved = party.handle(Save(0, 1))
    assert isinstance(saved, Saved)
    return party, saved.digest


def told(answer: Message) -> list[float]:
    assert isinstance(answer, LayersCompared)
    return [round(value, 3) for value in answer.values.tolist()]


def outputs(party: PassiveParty) -> list[Tensor]:
    """Return what every linear layer gives, by a way of its own."""
    seen: list[Tensor] = []
    x = party.bottom.inputs(torch.arange(len(party.bottom.tables["main"])))
    with torch.no_grad():
        for part in party.bottom.module.eval().children():
            x = part(x)
            if isinstance(part, nn.Linear):
                seen.append(x)
    return seen


def test_layers_that_did_not_move_are_alike_and_nothing_else_changes(tmp_path: Path) -> None:
    party, digest = make_party(tmp_path)
    before = {k: v.clone() for k, v in party.bottom.state().items()}
    party.bottom.module.train()
    values = told(party.handle(CompareLayers(0, 1, digest)))
    assert values == [1.0] * len(values)
    assert values
    assert party.bottom.module.training
    assert all(torch.equal(v, before[k]) for k, v in party.bottom.state().items())


def test_layers_that_moved_have_the_alignment_of_their_outputs(tmp_path: Path) -> None:
    party, digest = make_party(tmp_path)
    old = outputs(party)
    for step in range(5):
        sent = party.handle(Embed(step, torch.arange(20), "train"))
        gradients = torch.randn(sent.values.shape, generator=torch.Generator().manual_seed(step))  # type: ignore[attr-defined]
        assert isinstance(party.handle(Gradients(step, 3 * gradients)), Done)
    pairs = zip(old, outputs(party), strict=True)
    expected = []
    for x, y in pairs:
        a, b = (v.double().numpy() - v.double().numpy().mean(0) for v in (x, y))
        size = np.linalg.norm
        expected.append(size(b.T @ a) ** 2 / (size(a.T @ a) * size(b.T @ b)))
    values = told(party.handle(CompareLayers(0, 1, digest)))
    assert values == pytest.approx(expected, abs=6e-4)
    assert min(values) < 0.999


def test_alignment_of_constant_and_of_infinite_layers_has_no_value() -> None:
    line = torch.arange(4.0)[:, None]
    assert aligned(gram(line), gram(torch.ones(4, 2))) is None
    assert aligned(gram(line), gram(line * torch.inf)) is None
    assert aligned(gram(line), gram(7 - 2 * line)) == pytest.approx(1.0)


def test_by_default_a_party_tells_nothing_of_its_layers(tmp_path: Path) -> None:
    party, digest = make_party(tmp_path, Policy())
    answer = party.handle(CompareLayers(0, 1, digest))
    assert isinstance(answer, Refused)
    assert (answer.code, answer.reason) == ("policy", "it tells nothing of its inner layers.")


@pytest.mark.parametrize(("version", "digest"), [(2, ""), (-1, ""), (1, ""), (1, "0" * 64)])
def test_another_version_is_refused(tmp_path: Path, version: int, digest: str) -> None:
    party, _ = make_party(tmp_path)
    answer = party.handle(CompareLayers(0, version, digest))
    assert isinstance(answer, Refused)
    assert answer.code == "checkpoint"


def audited(label: str, policy: Policy, audit: AuditSettings) -> tuple[Verdict, list[str]]:
    """Audit a hidden request about a label; return the verdict, and the kinds of messages."""
    config = RunConfig(data="digits", parties=2, policy=policy, audit=audit)
    config = replace(config, train=replace(config.train, epochs=1))
    federation = Federation.create(config)
    federation.train()
    federation.forget([label], settings=ForgetSettings(method="hidden"))
    recorder = Recorder(federation.active.transport, keep_tensors=True)
    federation.active.transport = recorder
    verdict = federation.audit(demand="none")
    assert Verdict.from_json(verdict.to_json()).facts.layers == verdict.facts.layers
    return verdict, [entry.kind for entry in recorder.transcripts["passive-1"].entries]


def test_every_audit_of_a_run_asks_for_layers_or_none_does() -> None:
    asking = AuditSettings(layers=True)
    verdict, said = audited("3", OPEN, asking)
    _, of_another = audited("8", OPEN, asking)
    assert said == of_another
    assert said.count("CompareLayers") == 1
    # A hidden request moves no partner's model.
    assert set(verdict.facts.layers) == {"passive-1", "passive-2"}
    assert all(set(values) == {1.0} for values in verdict.facts.layers.values())


def test_no_audit_asks_for_layers_by_default() -> None:
    verdict, said = audited("3", OPEN, AuditSettings())
    assert "CompareLayers" not in said
    assert "layers" not in verdict.facts.to_json()


def test_a_party_that_tells_nothing_is_left_out_and_the_audit_goes_on() -> None:
    verdict, said = audited("3", Policy(), AuditSettings(layers=True))
    assert verdict.facts.layers == {}
    assert "Refused" in said
