"""Small runs whose requests are exact, with what a forger could make of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from unlabel import Federation
from unlabel.audit import MEASURES, compare
from unlabel.config import FitSettings, LabelFreeSettings, ModelSettings
from unlabel.files import sha256
from unlabel.party import PassiveParty
from unlabel.party.checkpoint import _seal
from unlabel.signing import Signer, canonical
from unlabel.train.label_record import LabelRecord

ROWS = 150
IDS = np.array([f"P{number:03d}" for number in range(ROWS)])
NAMES = ("alder", "beech", "cedar")


def features() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(ROWS, 6)).round(3)


def labels() -> np.ndarray:
    x = features()
    noise = np.random.default_rng(6).normal(size=(ROWS, 3))
    numbers = (x[:, :3] + x[:, 3:] + 0.5 * noise).argmax(1)
    return np.array([NAMES[number] for number in numbers], dtype=object)


def people(run: Path, count: int, name: str = "alder", part: str = "train") -> list[str]:
    """Return the ids of some people of a label in one part of a run's rows."""
    record = LabelRecord.read(run / "active")
    assert record is not None
    rows = getattr(record.rows, part).numpy()
    return [str(who) for who in IDS[rows[labels()[rows] == name]][:count]]


def make_run(
    folder: Path, *, kind: str = "blind", objective: str = "components", top: str = "linear"
) -> Path:
    """Train a bank with labels and one column, and a shop with the other columns."""
    x = features()
    bank = {"id": IDS, "grown": labels(), "age": x[:, 0]}
    shop = {"id": IDS[::-1], **{f"s{n}": x[::-1, n] for n in range(1, 6)}}
    trained: dict[str, Any] = {} if kind == "blind" else {"epochs": 2, "batch": 32}
    Federation.from_frames(
        {"bank": bank, "shop": shop},
        label="grown",
        bottoms=kind,  # type: ignore[arg-type]
        model=ModelSettings(top=top),
        label_free=LabelFreeSettings(objective=objective, width=1.0, epochs=2, batch=32),
        fit=FitSettings(epochs=8, batch=32),
        folder=folder,
        **trained,
    ).train()
    return folder


@contextmanager
def quick_measures() -> Iterator[None]:
    """Leave out the measures that train networks, or fit many probes."""
    slow = ("probe-mlp", "probe-linear", "relearning", "resurfacing")
    some = {name: MEASURES.get(name)() for name in MEASURES.names() if name not in slow}

    def quick(models: Any, numbers: Any, **options: Any) -> Any:
        return partial(compare, measures=some)(models, numbers, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlabel.audit.service.compare", quick)
        yield


@contextmanager
def nobody_asked() -> Iterator[None]:
    """Let every message to a passive party fail inside the block."""

    def refuse(party: PassiveParty, message: object) -> None:
        raise AssertionError(f"{party.name} was sent {type(message).__name__}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PassiveParty, "handle", refuse)
        yield


def change_base(run: Path, party: str = "shop", **changes: Any) -> None:
    """Have a party sign other things of its bottom, as the label holder keeps them."""
    path = run / "active" / "label-free" / "base.json"
    raw = json.loads(path.read_text())
    part = json.loads(raw["attestations"][party]["part"]) | changes
    signer, text = Signer(run / party), canonical(part)
    signed = {"part": text.decode(), "key": signer.public, "signature": signer.sign(text)}
    raw["attestations"][party] = signed
    path.write_text(json.dumps(raw))


def replace_tensors(path: Path, change: Any) -> None:
    """Change the tensors of a version and its manifest with them, as their owner could."""
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    manifest = json.loads(path.with_suffix(".json").read_text())
    manifest.pop("manifest_sha256")
    manifest["sha256"] = sha256(path.read_bytes())
    path.with_suffix(".json").write_text(
        json.dumps({**manifest, "manifest_sha256": _seal(manifest)})
    )


def state_of(path: Path) -> dict[str, Any]:
    return dict(load_file(path))
