"""A verdict is of the weights that were judged: exchanged ones get neither a commit nor a depth."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load, save

import unlabel as ul
from unlabel.config import FitSettings
from unlabel.errors import ForgetError
from unlabel.files import sha256
from unlabel.party.checkpoint import _seal
from unlabel.party.ledger import Ledger
from unlabel.report import disclosure

BLIND: dict[str, Any] = {"bottoms": "blind", "fit": FitSettings(epochs=5)}
SUPERVISED: dict[str, Any] = {"epochs": 5}


def staged_run(folder: Path, settings: dict[str, Any]) -> ul.Federation:
    """Return a run with a request that is staged and audited."""
    draw = np.random.default_rng(0)
    x, ids = draw.normal(size=(300, 6)), np.arange(300)
    labels = np.array(["boat", "car", "home"])[x[:, [0, 3, 5]].argmax(1)]
    bank = {"id": ids, "loan": labels, "age": x[:, 0], "income": x[:, 1]}
    shop = {"id": ids, **{f"x{n}": x[:, n] for n in range(2, 6)}}
    tables = {"bank": bank, "shop": shop}
    federation = ul.Federation.from_frames(tables, label="loan", folder=folder, **settings)
    federation.train()
    federation.forget(labels=["boat"])
    federation.audit(demand="none")
    return federation


def exchange_staged(home: Path) -> None:
    """Change a weight of what is staged, as one who can write all files would."""
    path = next((home / "staged").glob("*.safetensors"))
    tensors = load(path.read_bytes())
    name = next(name for name in tensors if name.endswith("weight"))
    tensors[name] += 0.5
    data = save(tensors)
    path.write_bytes(data)
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    del manifest["manifest_sha256"]
    manifest["sha256"] = sha256(data)
    sealed = {**manifest, "manifest_sha256": _seal(manifest)}
    path.with_suffix(".json").write_text(json.dumps(sealed), encoding="utf-8")


@pytest.mark.parametrize("settings", [BLIND, SUPERVISED], ids=["blind", "supervised"])
def test_weights_exchanged_after_their_audit_are_not_committed(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    staged_run(tmp_path / "run", settings)
    exchange_staged(tmp_path / "run" / "active")
    for force in (False, True):
        with pytest.raises(ForgetError) as refused:
            ul.Federation.open(tmp_path / "run").commit(force=force)
        assert refused.value.code == "changed-since-audit"
    opened = ul.Federation.open(tmp_path / "run")
    opened.audit(demand="none")
    opened.commit(force=True)


def test_a_depth_that_was_found_of_other_weights_is_neither_certified_nor_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = staged_run(tmp_path / "run", BLIND)
    federation.commit()
    honest = federation.certificate(tmp_path / "honest.json")
    assert json.loads(honest.path.read_text("utf-8"))["certificate"]["depth"] == "bottoms"
    assert ul.verify(honest, run=tmp_path / "run").faults == []
    ledger = Ledger(tmp_path / "run" / "active", mode=0o600)
    audit = next(entry for entry in ledger.entries() if entry.event == "audit")
    ledger.append("audit", audit.request, {**audit.note, "weights": "0" * 64})
    other = federation.certificate(tmp_path / "other.json")
    assert json.loads(other.path.read_text("utf-8"))["certificate"]["depth"] is None
    monkeypatch.setattr(disclosure, "is_of", lambda *_: True)  # one that lies
    forged = federation.certificate(tmp_path / "forged.json")
    assert json.loads(forged.path.read_text("utf-8"))["certificate"]["depth"] == "bottoms"
    assert any("judged other weights" in f for f in ul.verify(forged, run=tmp_path / "run").faults)
